"""Small helpers on Arrow columns."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a chunked column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def edges(text: pa.Array) -> npt.NDArray[np.int64]:
    """Return where each of N ``large_string`` texts starts in its data, and the end, (N+1,)."""
    raw = np.frombuffer(text.buffers()[1], np.int64)
    return raw[text.offset : text.offset + len(text) + 1]


def matrix(lists: pa.Array) -> npt.NDArray[Any]:
    """Return N fixed-size lists of C numbers as (N, C)."""
    return np.asarray(lists.flatten()).reshape(len(lists), -1)


def rows(values: npt.NDArray[Any]) -> pa.Array:
    """Return (N, C) numbers as N fixed-size lists."""
    flat = pa.array(np.ascontiguousarray(values).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
