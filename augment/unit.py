"""The unit of a build: a run of source rows in, their kept copies out, in any process.

A unit is made twice: once for the keys of its rows, so that duplicates are found over the whole
set, and once to be written. Making is cheap; keeping the text of every copy would not be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augment.annotate.candidates import CandidateSource
from augment.annotate.columns import Annotator, Names
from augment.arrow import edges, whole
from augment.draws import mix
from augment.keys import Keys, content_keys, find
from augment.recipe import op_name
from augment.store import Store
from augment.transferset import Shard, Task, existing_shard, write_shard
from augment.transforms.protocol import Transform
from augment.use import row_ids
from augment.variants import Variants, ops, variants

_BLOCK_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Job:
    """All a worker needs: where the rows are and what is done to them.

    Attributes:
        source: the spooled train rows.
        digest: their content digest.
        out: the set's folder.
        names: namespaces of the annotations in the store.
        guarded: sorted keys of the folded held-out rows, (G, 2); empty for no guard.
        mark: digest of the plan, kept in every shard.
        sums: their sums of letters in the first text column, sorted, (G,); see ``letter_sums``.
    """

    source: Path
    digest: str
    out: Path
    store: Path
    transform: Transform
    text: tuple[str, ...]
    task: Task
    copies: int
    seed: int
    language: str
    names: Names
    guarded: Keys
    sums: npt.NDArray[np.uint64]
    mark: str

    def suspects(self, text: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Return which rows may be held-out text: a quick look that misses none, (M,)."""
        sums, sure = letter_sums(text[0])
        at = np.searchsorted(self.sums, sums)
        near = self.sums[np.minimum(at, len(self.sums) - 1)]
        return np.asarray(~sure | (near == sums))


@dataclass(frozen=True, slots=True)
class Unit:
    """Source rows ``first`` to ``last`` (exclusive), and later which of their rows are kept."""

    number: int
    first: int
    last: int
    keep: npt.NDArray[np.bool_] | None = None


@lru_cache(maxsize=1)
def opened(source: Path, digest: str) -> pa.Table:
    """Return the spooled rows; the digest tells one build's file from the next of that name."""
    return pa.ipc.open_file(pa.memory_map(str(source))).read_all()


@lru_cache(maxsize=2)
def _annotator(
    language: str, tagger: str | None, source: CandidateSource | None, store: Path, names: Names
) -> Annotator:
    return Annotator(language, tagger, Store(store), candidates=source, names=names)


def _make(job: Job, unit: Unit) -> tuple[pa.Table, Variants]:
    rows = opened(job.source, job.digest).slice(unit.first, unit.last - unit.first).combine_chunks()
    text = [whole(rows[name]) for name in job.text]
    reads = (job.transform.tagger_name, job.transform.candidate_source)
    annotator = _annotator(job.language, *reads, job.store, job.names)
    ids = row_ids(rows["source"].to_pylist())
    batches = [annotator.batch(column, ids) for column in text]
    return rows, variants(job.transform, text, batches, range(job.copies + 1), job.seed)


_WEIGHTS = mix(np.arange(1, 257, dtype=np.uint64))
_WEIGHTS[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32]] = 0  # white space
_WEIGHTS[65:91] = _WEIGHTS[97:123]  # capitals count as small letters


def letter_sums(text: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Return a sum over each text's letters that case and white space do not change, (N,).

    Also returns where that holds: in texts of ASCII alone. Equal sums prove nothing.
    """
    text = text.cast(pa.large_string())
    bounds = edges(text)
    data = np.frombuffer(text.buffers()[2] or b"", np.uint8)
    sums, plain = np.zeros(len(text), np.uint64), np.ones(len(text), bool)
    some = np.flatnonzero(np.diff(bounds))
    for first in range(0, len(some), _BLOCK_ROWS):
        at = some[first : first + _BLOCK_ROWS]
        low, high = bounds[at[0]], bounds[at[-1] + 1]
        part = data[low:high]
        sums[at] = np.add.reduceat(_WEIGHTS[part], bounds[at] - low)
        if (part >= 128).any():
            plain[at] = ~np.logical_or.reduceat(part >= 128, bounds[at] - low)
    return sums, plain


def fold(column: pa.Array) -> pa.Array:
    """Return texts as the guard compares them: case folded, white space collapsed."""
    text = column.cast(pa.large_string())
    plain = pc.string_is_ascii(text)
    lower = pc.ascii_lower(text)
    if not pc.all(plain).as_py():
        folded = pa.array(
            [t.casefold() for t in text.filter(pc.invert(plain)).to_pylist()], text.type
        )
        lower = pc.replace_with_mask(text, pc.invert(plain), folded)
        lower = pc.if_else(plain, pc.ascii_lower(text), lower)
    words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(lower))
    return pc.binary_join(words.cast(pa.list_(pa.string())), " ")


def keys_of(job: Job, unit: Unit) -> tuple[Keys, npt.NDArray[np.bool_]]:
    """Return the content key of every row of the unit, and which rows the guard takes.

    A row whose text is held out goes; when it is an original, its copies go with it.
    """
    _, made = _make(job, unit)
    keys = content_keys(made.text)
    if not len(job.guarded):
        return keys, np.zeros(len(keys), bool)
    held = np.zeros(len(keys), bool)
    maybe = np.flatnonzero(job.suspects(made.text))
    texts = [text.take(pa.array(maybe)) for text in made.text]
    held[maybe] = find(content_keys([fold(t) for t in texts]), *job.guarded.T) >= 0
    by_source = held.reshape(-1, job.copies + 1)
    return keys, (by_source | by_source[:, :1]).ravel()


def write_unit(job: Job, unit: Unit) -> Shard | None:
    """Write the kept rows of a unit as one shard; returns None when nothing is kept."""
    assert unit.keep is not None
    if not unit.keep.any():
        return None
    name = f"train-{unit.number:05d}"
    if (done := existing_shard(job.out, name, int(unit.keep.sum()), job.mark)) is not None:
        return done
    rows, made = _make(job, unit)
    source = pa.array(made.row)
    columns: dict[str, Any] = dict(zip(job.text, made.text, strict=True))
    if "label" in rows.column_names:
        columns["label"] = whole(rows["label"]).take(source)
    columns["source"] = whole(rows["source"]).take(source)
    columns["copy"] = pa.array(made.copy)
    columns["ops"] = ops(made.edits, [op_name(leaf) for leaf in job.transform.leaves()])
    table = narrow(pa.table(columns)).filter(pa.array(unit.keep))
    return write_shard(job.out, name, table, job.task, job.mark)


def narrow(table: pa.Table) -> pa.Table:
    """Return the table with ``large_string`` columns as ``string``, the type every reader knows."""
    kinds = [
        pa.field(f.name, pa.string() if pa.types.is_large_string(f.type) else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(kinds))


def units(rows: int, copies: int, shard_rows: int) -> Sequence[Unit]:
    """Cut the source into units of about ``shard_rows`` rows once copied."""
    step = max(1, shard_rows // (copies + 1))
    return [
        Unit(number, first, min(first + step, rows))
        for number, first in enumerate(range(0, rows, step))
    ]
