"""Masked pieces: texts as piece ids, batches without padding, masks, and how well they are filled.

Masked pieces all become the mask token, never a random piece or themselves, which gains nothing:
Wettig et al. 2022, section 5, https://arxiv.org/abs/2202.08005.
Letters: B rows, T pieces a row, K masked pieces of a batch, D width.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

HELD_OUT_RATE = 0.15
_HELD_OUT_SEED = 15
_HELD_OUT_BATCH = 8_000
_TOP = 15
_TEXTS = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Tokenised rows; texts longer than the model reads became several.

    Attributes:
        ids: piece ids of all rows, special tokens included.
        special: which of them are special or unknown, never masked.
        offsets: where each row starts, and the total at the end.
    """

    ids: npt.NDArray[np.int32]
    special: npt.NDArray[np.bool_]
    offsets: I64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> I64:
        """Pieces of every row."""
        return np.diff(self.offsets)

    def counts(self, size: int) -> I64:
        """Return how often each of ``size`` pieces occurs, special and unknown left out."""
        return np.bincount(self.ids[~self.special], minlength=size)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Masked rows, as torch tensors.

    Attributes:
        inputs: what the model takes; an attention mask only where rows were padded.
        at: numbers of the masked pieces among all B x T, (K,).
        answers: what stood there, (K,).
    """

    inputs: dict[str, Any]
    at: Any
    answers: Any


def pieces(texts: Sequence[str], tokenizer: Any, max_tokens: int) -> Pieces:
    """Tokenise texts; one of more than ``max_tokens`` pieces, specials included, becomes several.

    Rows without a known piece are left out.
    """
    ids: list[npt.NDArray[np.int32]] = []
    special: list[npt.NDArray[np.bool_]] = []
    lengths: list[int] = []
    for first in range(0, len(texts), _TEXTS):
        done = tokenizer(
            list(texts[first : first + _TEXTS]),
            truncation=True,
            max_length=max_tokens,
            return_overflowing_tokens=True,
            return_special_tokens_mask=True,
        )
        lengths += map(len, done["input_ids"])
        ids.append(np.fromiter(chain.from_iterable(done["input_ids"]), np.int32))
        marks = chain.from_iterable(done["special_tokens_mask"])
        special.append(np.fromiter(marks, np.int8).astype(bool))
    flat, fixed = np.concatenate(ids), np.concatenate(special)
    if tokenizer.unk_token_id is not None:
        fixed |= flat == tokenizer.unk_token_id  # nobody wants it named
    sizes = np.array(lengths, np.int64)
    useful = np.add.reduceat(~fixed, np.cumsum(sizes) - sizes, dtype=np.int64) > 0
    inside = np.repeat(useful, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[useful])])
    return Pieces(flat[inside], fixed[inside], offsets)


def by_length(lengths: I64, tokens: int, rng: np.random.Generator | None) -> list[I64]:
    """Deal rows into batches of about ``tokens`` pieces, rows of one length together.

    Args:
        lengths: of the rows, (N,).
        tokens: padding included; a batch holds one row at least.
        rng: draws which of the equally long rows meet, and the order of the batches; without it
            rows stay in order.
    """
    order = np.arange(len(lengths)) if rng is None else rng.permutation(len(lengths))
    order = order[np.argsort(lengths[order], kind="stable")]
    found, first = [], 0
    while first < len(order):
        # The longest row of a batch is its last: as many as fit when padded to it.
        ends = np.arange(first + 1, min(first + tokens, len(order)) + 1)
        sizes = (ends - first) * lengths[order[ends - 1]]
        count = max(1, int(np.searchsorted(sizes, tokens, side="right")))
        found.append(order[first : first + count])
        first += count
    return found if rng is None else [found[i] for i in rng.permutation(len(found))]


def batches(
    rows: Pieces, tokenizer: Any, *, rate: float, tokens: int, seed: int
) -> Iterator[Batch]:
    """Yield masked batches for ever; every pass over the rows is dealt and masked anew."""
    rng = np.random.default_rng(seed)
    while True:
        for at in by_length(rows.lengths, tokens, rng):
            yield masked(rows, at, tokenizer, rate, rng)


def masked(rows: Pieces, at: I64, tokenizer: Any, rate: float, rng: np.random.Generator) -> Batch:
    """Return rows with a share ``rate`` of their pieces masked, one piece at least."""
    import torch

    lengths = rows.lengths[at]
    inside = np.arange(lengths.max()) < lengths[:, None]
    source = np.repeat(rows.offsets[at] - np.cumsum(lengths) + lengths, lengths)
    source += np.arange(lengths.sum())
    ids = np.full(inside.shape, tokenizer.pad_token_id or 0, np.int64)
    ids[inside] = rows.ids[source]
    free = np.flatnonzero(inside)[~rows.special[source]]
    count = min(len(free), max(1, round(rate * len(free))))
    chosen = np.sort(rng.choice(free, count, replace=False))
    answers = ids.reshape(-1)[chosen]
    ids.reshape(-1)[chosen] = tokenizer.mask_token_id
    inputs = {"input_ids": torch.from_numpy(ids)}
    if not inside.all():
        inputs["attention_mask"] = torch.from_numpy(inside.astype(np.int64))
    return Batch(inputs, torch.from_numpy(chosen), torch.from_numpy(answers))


@contextmanager
def only_masked(model: Any) -> Iterator[Any]:
    """Yield ``logits(batch)``: the model's, at the masked pieces only, (K, V).

    The encoder's states are gathered before the head sees them, whatever the head: projecting all
    of them onto the vocabulary would cost as much as the encoder itself.
    """
    import torch

    chosen: Any = None

    def gather(module: Any, inputs: Any, output: Any) -> Any:
        states = output.last_hidden_state
        output.last_hidden_state = states.flatten(0, 1)[chosen][None]
        return output

    def logits(batch: Batch) -> Any:
        nonlocal chosen
        chosen = batch.at.to(model.device)
        inputs = {name: value.to(model.device) for name, value in batch.inputs.items()}
        return model(**inputs).logits[0]

    # On a CPU the fused attention is slower on short rows than plain products, backwards threefold.
    plain = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    hook = model.base_model.register_forward_hook(gather)
    try:
        with plain if model.device.type == "cpu" else nullcontext():
            yield logits
    finally:
        hook.remove()


def accuracy(model: Any, rows: Pieces, tokenizer: Any, *, precision: str) -> dict[str, Any]:
    """Return how often the model names the masked piece first, and among its first fifteen.

    ``HELD_OUT_RATE`` of the pieces are masked, the same in every call with the same rows.

    Returns:
        ``top1`` and ``top15``, shares of the masked pieces, and their number, ``pieces``.
    """
    import torch

    rng = np.random.default_rng(_HELD_OUT_SEED)
    cast = torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16")
    first = among = total = 0
    with torch.no_grad(), cast, only_masked(model) as logits:
        for at in by_length(rows.lengths, _HELD_OUT_BATCH, None):
            batch = masked(rows, at, tokenizer, HELD_OUT_RATE, rng)
            found = logits(batch)
            hits = found.topk(min(_TOP, found.shape[1])).indices.cpu() == batch.answers[:, None]
            first += int(hits[:, 0].sum())
            among += int(hits.sum())
            total += len(batch.answers)
    return {"top1": first / total, "top15": among / total, "pieces": total}
