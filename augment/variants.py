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
        active = edited(copy, number, len(batches))
        done = transform.apply(batch.take(row[active], copy[active]), Place(seed, number))
        edits[active] |= done.edits
        if active.all():
            columns.append(done.text())
            continue
        index = row.copy()
        index[active] = count + np.arange(len(done))
        columns.append(pa.concat_arrays([source, done.text()]).take(pa.array(index)))
    return Variants(tuple(columns), row, copy, edits)


def ops(edits: I64, names: Sequence[str]) -> pa.Array:
    """Return for every row the comma-joined names of the transforms that changed it."""
    found, index = np.unique(edits, return_inverse=True)
    texts = [
        ",".join(n for p, n in enumerate(names) if int(value) >> p & 1) for value in found.tolist()
    ]
    return pc.take(pa.array(texts, pa.string()), pa.array(index))
