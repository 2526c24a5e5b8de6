"""Checking a set against its manifest: every shard, every count, the content digest."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from augment.digest import content_digest
from augment.transferset import Shard, TransferSet


def verify(path: str | Path) -> list[str]:
    """Return what is wrong with a set, each with the command that mends it; empty when whole.

    Raises:
        SetError: there is no finished set at ``path`` to check.
    """
    found = TransferSet.open(path)
    problems = list(_files(found))
    if not problems:
        problems = list(_content(found))
    mend = "build" if not found.labelled else "label"
    command = f"remove {found.path} and run augment {mend} again"
    return [f"{problem}; {command}" for problem in problems]


def _files(found: TransferSet) -> Iterator[str]:
    named = set()
    for split in found.splits:
        for shard in found.manifest.splits[split]:
            named.add(shard.path)
            yield from _shard(found, shard)
    for path in sorted((found.path / "data").glob("[!.]*.parquet")):
        if f"data/{path.name}" not in named:
            yield f"data/{path.name}: not in the manifest, but readers would take it"


def _shard(found: TransferSet, shard: Shard) -> Iterator[str]:
    path = found.path / shard.path
    if not path.is_file():
        yield f"{shard.path}: missing"
        return
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != shard.digest:
            yield f"{shard.path}: its bytes are not those the manifest vouches for"
            return
    rows = pq.read_metadata(path).num_rows
    if rows != shard.rows:
        yield f"{shard.path}: {rows} rows, the manifest says {shard.rows}"


def _content(found: TransferSet) -> Iterator[str]:
    if content_digest(found.batches("train")) != found.manifest.digest:
        yield "train: the content digest does not fit the manifest's"
    counts = found.manifest.counts
    if counts:
        made = counts["source_rows"] * (1 + counts["copies_per_row"])
        left = made - counts["duplicates"] - counts["guarded"]
        if left != found.rows("train"):
            yield f"train: {found.rows('train')} rows, the counts make {left}"
    if found.labelled:
        for split in found.splits:
            kind = found.read(split, ["logits"]).schema.field("logits").type
            if not kind.equals(pa.list_(pa.float32(), found.task.outputs)):
                yield f"{split}: logits are {kind}, the task has {found.task.outputs} outputs"
