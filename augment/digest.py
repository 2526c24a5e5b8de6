"""Digests of content: of rows, whatever the files; of models, whatever their names."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from augment.arrow import edges


def content_digest(tables: Iterable[pa.Table | pa.RecordBatch]) -> str:
    """SHA-256 over the logical rows in order, whatever the shards, chunks and compression.

    Each column feeds its own streams: the values' bytes, and for strings their lengths.
    """
    streams: dict[tuple[str, str], Any] = {}

    def feed(name: str, part: str, data: Any) -> None:
        if (name, part) not in streams:
            streams[name, part] = hashlib.sha256()
        streams[name, part].update(data)

    for table in tables:
        for name in table.column_names:
            column = table.column(name)
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            for chunk in chunks:
                _feed_array(chunk, lambda part, data, name=name: feed(name, part, data))
    total = hashlib.sha256()
    for key in sorted(streams):
        total.update(json.dumps(key).encode() + streams[key].digest())
    return total.hexdigest()


def _feed_array(array: pa.Array, feed: Any) -> None:
    feed("null", array.is_null().cast(pa.uint8()).to_numpy(zero_copy_only=False))
    if pa.types.is_fixed_size_list(array.type):
        values = array.flatten()
        feed("value", values.to_numpy(zero_copy_only=False))
        return
    if pa.types.is_list(array.type):
        feed("items", array.value_lengths().fill_null(0).to_numpy().astype("<i8"))
        _feed_array(array.flatten(), lambda part, data: feed(f"item {part}", data))
        return
    if _is_bytes(array.type):
        text = array.cast(pa.large_binary()).fill_null(b"")
        offsets = edges(text)
        feed("length", np.diff(offsets).astype("<i8"))
        if len(text) and text.buffers()[2] is not None:
            feed("value", memoryview(text.buffers()[2])[offsets[0] : offsets[-1]])
        return
    values = array.fill_null(0)
    if pa.types.is_uint64(array.type):
        feed("value", values.to_numpy().astype("<u8"))
        return
    kind = pa.float64() if pa.types.is_floating(array.type) else pa.int64()
    feed("value", values.cast(kind).to_numpy(zero_copy_only=False))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind)
    return bool(text or types.is_binary(kind) or types.is_large_binary(kind))


def model_facts(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return what decides a loaded transformer's output: weights, config and tokenizer."""
    state = xxhash.xxh3_128()
    for name, tensor in sorted(model.state_dict().items()):
        state.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        state.update(tensor.detach().cpu().contiguous().view(-1).numpy())
    words = tokenizer.backend_tokenizer.to_str()
    return {
        "weights": state.hexdigest(),
        "config": {k: v for k, v in model.config.to_dict().items() if k not in _VOLATILE},
        "tokenizer": xxhash.xxh3_128_hexdigest(words.encode()),
    }


_VOLATILE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")
