"""Content keys: 16 bytes that stand for a text, hashed, sorted and found thousands at once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from augment.arrow import edges

Keys = npt.NDArray[np.uint64]
"""Content keys, (N, 2) uint64: high and low half. numpy's S16 would strip trailing zero bytes."""


def content_keys(columns: Sequence[pa.Array]) -> Keys:
    """Return the 16-byte key of every row: xxh3-128 over each text's length and bytes.

    Args:
        columns: the exact text columns, without nulls, N rows each.

    Returns:
        (N, 2) uint64.
    """
    parts: list[pa.Array] = []
    for column in columns:
        text = column.cast(pa.large_string()).cast(pa.large_binary())
        bounds = edges(text)
        lengths = pa.py_buffer(np.diff(bounds).astype("<i8"))
        parts.append(
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(text), [None, lengths]).cast(
                pa.large_binary()
            )
        )
        parts.append(text)
    empty = pa.scalar(b"", pa.large_binary())
    joined = pc.binary_join_element_wise(*parts, empty)
    bounds = edges(joined).tolist()
    data = memoryview(joined.buffers()[2] or b"")
    digest = xxhash.xxh3_128_digest
    raw = b"".join([digest(data[a:b]) for a, b in pairwise(bounds)])
    return np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, 2)


def order(keys: Keys) -> npt.NDArray[np.int64]:
    """Return the stable order that sorts keys."""
    return np.lexsort((keys[:, 1], keys[:, 0]))


def first_of_each(keys: Keys) -> npt.NDArray[np.int64]:
    """Return the row numbers of the first occurrence of every distinct key, ascending."""
    sort = order(keys)
    new = np.ones(len(keys), bool)
    new[1:] = (keys[sort][1:] != keys[sort][:-1]).any(axis=1)
    return np.sort(sort[new])


def find(
    keys: Keys, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Return where every key stands among sorted distinct keys, -1 where it does not, (N,).

    Args:
        keys: (N, 2).
        high: first halves of the sorted keys.
        low: their second halves.
    """
    if not len(high):
        return np.full(len(keys), -1, np.int64)
    at = np.searchsorted(high, keys[:, 0], side="left")
    found = np.full(len(keys), -1, np.int64)
    open_ = np.arange(len(keys))
    while len(open_):
        open_ = open_[at[open_] < len(high)]
        open_ = open_[high[at[open_]] == keys[open_, 0]]
        hit = low[at[open_]] == keys[open_, 1]
        found[open_[hit]] = at[open_[hit]]
        open_ = open_[~hit]
        at[open_] += 1
    return found
