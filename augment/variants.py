"""Copies of rows: the pure function at the heart of every way to use a transform.

Copy 0 is the original. Pairs cycle by copy: first column, second, both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augment.batch import I32, I64, TokenBatch
from augment.draws import Place

_BLOCK_TOKENS = 1 << 15


class Applies(Protocol):
    """What a transform offers here."""

    def apply(self, batch: TokenBatch, place: Place) -> TokenBatch:
        """Return the edited batch."""


@dataclass(frozen=True, slots=True)
class Variants:
    """Rows in the order (source row, copy).

    Attributes:
        text: one array of M texts a column.
        row: number of the source row in the batch, (M,).
        copy: copy number, (M,).
        edits: bit p set when transform p changed the row in any column, (M,).
    """

    text: tuple[pa.Array, ...]
    row: I64
    copy: I32
    edits: I64


def edited(copy: npt.NDArray[Any], column: int, columns: int) -> npt.NDArray[np.bool_]:
    """Return which copies edit this column: all; of pairs by turns first, second, both."""
    turn = (copy - 1) % 3
    mine = (turn == column) | (turn == 2) | (columns == 1)
    return np.asarray(mine & (copy > 0))


def variants(
    transform: Applies,
    text: Sequence[pa.Array],
    batches: Sequence[TokenBatch],
    copies: Sequence[int] | npt.NDArray[Any],
    seed: int,
) -> Variants:
    """Make the given copies of every row.

    Args:
        transform: what edits; called once a column.
        text: the source texts, one array of N a column.
        batches: the same texts as annotated batches whose ``rows`` key the draws.
        copies: copy numbers wanted of every row; 0 gives the original.
        seed: of all draws.
    """
    numbers = np.asarray(copies, np.int32)
    count = len(batches[0])
    row = np.repeat(np.arange(count), len(numbers))
    copy = np.tile(numbers, count)
    edits = np.zeros(len(row), np.int64)
    columns: list[pa.Array] = []
    for number, (source, batch) in enumerate(zip(text, batches, strict=True)):
        source = source.cast(pa.large_string())
        active = np.flatnonzero(edited(copy, number, len(batches)))
        texts: list[pa.Array] = []
        # In blocks that stay in the processor's cache; no draw depends on them.
        step = max(1, _BLOCK_TOKENS * count // max(1, len(batch.words)))
        for first in range(0, len(active), step):
            at = active[first : first + step]
            done = transform.apply(batch.take(row[at], copy[at]), Place(seed, number))
            edits[at] |= done.edits
            texts.append(done.text())
        if len(active) == len(row) > 0:
            columns.append(pa.concat_arrays(texts))
            continue
        index = row.copy()
        index[active] = count + np.arange(len(active))
        columns.append(pa.concat_arrays([source, *texts]).take(pa.array(index)))
    return Variants(tuple(columns), row, copy, edits)


def ops(edits: I64, names: Sequence[str]) -> pa.Array:
    """Return for every row the comma-joined names of the transforms that changed it."""
    kinds = pa.array(edits).dictionary_encode()  # hashed, not sorted
    texts = [
        ",".join(n for p, n in enumerate(names) if value >> p & 1)
        for value in kinds.dictionary.to_pylist()
    ]
    return pc.take(pa.array(texts, pa.string()), kinds.indices)
