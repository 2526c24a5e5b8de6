"""Checking a set: every shard, column and count, the content digest, the store, some logits."""

import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from augment.arrow import matrix, whole
from augment.digest import content_digest
from augment.errors import ResourceError
from augment.store import Store
from augment.teacher import Teacher
from augment.transferset import Shard, TransferSet


def verify(path: str | Path, *, recompute: int = 0, store: str | Path | None = None) -> list[str]:
    """Return what is wrong with a set, each with the command that mends it; empty when whole.

    Args:
        path: the set's folder.
        recompute: so many rows are put to the teacher again, where its folder is still there.
        store: folder of the store whose segments behind this set are checked as well.

    Raises:
        SetError: there is no finished set at ``path`` to check.
    """
    found = TransferSet.open(path)
    problems = list(_files(found))
    if not problems:
        problems = list(_content(found))
    if not problems and recompute and found.labelled:
        problems = list(_logits(found, recompute))
    mend = "build" if not found.labelled else "label"
    command = f"remove {found.path} and run augment {mend} again"
    return [f"{problem}; {command}" for problem in problems] + list(_segments(found, store))


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
    yield from _columns(found, shard, pq.read_schema(path))


def _columns(found: TransferSet, shard: Shard, schema: pa.Schema) -> Iterator[str]:
    """Check a shard's schema: the columns of its split, each of its type."""
    number = pa.float64() if found.task.kind == "regression" else pa.int64()
    wanted: dict[str, tuple[pa.DataType, ...]] = {name: (pa.string(),) for name in found.text}
    if shard.path.startswith("data/train-"):
        wanted |= {"source": (pa.int64(), pa.string()), "copy": (pa.int32(),)}
        wanted |= {"ops": (pa.string(),)}
    if found.labelled:
        wanted |= {"logits": (pa.list_(pa.float32(), found.task.outputs),)}
    for name, kinds in wanted.items():
        if name not in schema.names:
            yield f"{shard.path}: no column {name}"
        elif schema.field(name).type not in kinds:
            yield f"{shard.path}: {name} holds {schema.field(name).type}, expected {kinds[0]}"
    if "label" in schema.names and schema.field("label").type != number:
        yield f"{shard.path}: label holds {schema.field('label').type}, expected {number}"
    if extra := set(schema.names) - set(wanted) - {"label"}:
        yield f"{shard.path}: unknown columns {', '.join(sorted(extra))}"


def _content(found: TransferSet) -> Iterator[str]:
    if content_digest(found.batches("train")) != found.manifest.digest:
        yield "train: the content digest does not fit the manifest's"
    counts = found.manifest.counts
    wanted = ("source_rows", "copies_per_row", "duplicates", "guarded")
    if missing := [name for name in wanted if counts and name not in counts]:
        yield f"manifest.json: the counts lack {', '.join(missing)}"
    elif counts:
        source, copies, duplicates, guarded = (counts[name] for name in wanted)
        left = source * (1 + copies) - duplicates - guarded
        if left != found.rows("train"):
            yield f"train: {found.rows('train')} rows, the counts make {left}"


def _logits(found: TransferSet, rows: int) -> Iterator[str]:
    """Put some rows to the teacher again; the digest of the set chooses them."""
    about: dict[str, Any] = found.manifest.teacher or {}
    folder = about.get("folder")
    if folder is None:
        return
    try:
        teacher = Teacher.from_pretrained(
            folder,
            max_tokens=about["max_tokens"],
            precision=about["precision"],
            runtime=about.get("runtime", "torch"),
        )
    except ResourceError as error:
        warnings.warn(f"no logits were recomputed: {error}", stacklevel=3)
        return
    # The whole identity knows the device and the libraries too, which may differ here.
    changed = [part for part in ("weights", "tokenizer") if teacher.about[part] != about.get(part)]
    if changed:
        what = " and ".join(changed)
        yield f"{folder}: no longer the teacher that labelled this set (other {what})"
        return
    order = about["plan"]["class order"]
    draws = np.random.default_rng(int(found.manifest.digest[:16], 16))
    for split in found.splits:
        at = np.unique(draws.integers(0, found.rows(split), rows))
        table = _taken(found, split, at)
        kept = matrix(whole(table["logits"]))
        again = np.empty_like(kept)
        for where, logits in teacher.logits([table[name].to_pylist() for name in found.text]):
            again[where] = logits[:, order]
        # Bit for bit on one machine; another one's products may round otherwise.
        allowed = (0.1 if about["precision"] == "bf16" else 1e-3) * max(1.0, np.abs(kept).max())
        wrong = np.abs(kept - again).max(axis=1) > allowed
        if wrong.any():
            row = int(at[np.argmax(wrong)])
            yield (
                f"{split}: {int(wrong.sum())} of {len(at)} logits asked for again came out "
                f"otherwise, first in row {row}"
            )


def _taken(found: TransferSet, split: str, at: npt.NDArray[np.int64]) -> pa.Table:
    """Return some rows of a split, one shard in memory at a time."""
    parts, begin = [], 0
    for shard in found.manifest.splits[split]:
        mine = at[(at >= begin) & (at < begin + shard.rows)] - begin
        begin += shard.rows
        if len(mine):
            table = found.table(shard, [*found.text, "logits"])
            parts.append(table.combine_chunks().take(pa.array(mine)))
    return pa.concat_tables(parts)


def _segments(found: TransferSet, store: str | Path | None) -> Iterator[str]:
    """Check the store's segments that this set was made from."""
    opened = Store() if store is None else Store(Path(store))
    plan = found.manifest.recipe.get("plan", {})
    teacher = found.manifest.teacher or {}
    for name in (plan.get("tokenizer"), plan.get("tagger weights"), teacher.get("fingerprint")):
        if name and (opened.root / name).is_dir():
            for problem in opened.open(opened.root / name).skipped.values():
                yield f"{problem}; remove it with: augment store gc"
