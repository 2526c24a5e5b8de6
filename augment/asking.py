"""Putting texts to a teacher: each distinct one once, its logits durable within seconds."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augment.arrow import rows as lists_of
from augment.arrow import whole
from augment.dedupe import Dedupe
from augment.errors import TeacherError
from augment.files import mapped
from augment.keys import Keys, content_keys
from augment.progress import progress
from augment.store import Namespace
from augment.teacher import Labeller
from augment.transferset import Shard, TransferSet

_FLUSH_ROWS = 16_384
_FLUSH_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Part:
    """One shard's rows: their content keys, (M, 2), and which are a text's first, (M,)."""

    split: str
    shard: Shard
    keys: Keys
    first: npt.NDArray[np.bool_]


def parts_of(source: TransferSet, work: Path) -> list[Part]:
    """Hash every row once; keys and marks are mapped from files, so memory does not grow."""
    work.mkdir(exist_ok=True)
    shards = [(split, s) for split in source.splits for s in source.manifest.splits[split]]
    rows = sum(shard.rows for _, shard in shards)
    keys = mapped(work / "keys", np.uint64, (max(rows, 1), 2))
    dedupe = Dedupe(work / "dedupe", rows)
    at = 0
    with dedupe.adding() as add:
        for _, shard in shards:
            table = source.table(shard, source.text)
            part = content_keys([whole(table[name]) for name in source.text])
            keys[at : at + len(part)] = part
            add(part, np.zeros(len(part), bool), np.ones(len(part), bool))
            at += len(part)
    first = dedupe.keep()
    ends = np.cumsum([shard.rows for _, shard in shards]).tolist()
    return [
        Part(split, shard, keys[end - shard.rows : end], first[end - shard.rows : end])
        for (split, shard), end in zip(shards, ends, strict=True)
    ]


def ask(
    source: TransferSet,
    teacher: Labeller,
    space: Namespace,
    parts: Sequence[Part],
    fresh: Sequence[npt.NDArray[np.bool_]],
    *,
    window: int,
    show: bool,
) -> None:
    """Put every fresh text to the teacher.

    Args:
        source: the unlabelled set.
        teacher: asked in windows.
        space: the store's namespace of its logits.
        parts: the set's shards, hashed.
        fresh: for each part, which rows the store has no logits for, (M,).
        window: texts tokenised at once.
        show: draw progress on a terminal.

    Raises:
        TeacherError: a logit is not finite.
    """
    texts = sum(int(part.first.sum()) for part in parts)
    missing = sum(int(mask.sum()) for mask in fresh)
    note = f"{1 - missing / max(1, texts):.0%} from the store"
    with progress("asking the teacher", missing, show and missing > 0) as advance:
        waiting: list[tuple[pa.Table, Keys]] = []
        for number, (part, mask) in enumerate(zip(parts, fresh, strict=True), start=1):
            if mask.any():
                table = source.table(part.shard, source.text).filter(pa.array(mask))
                waiting.append((table, part.keys[mask]))
            ready = sum(len(keys) for _, keys in waiting)
            if ready and (ready >= window or number == len(parts)):
                together = pa.concat_tables([table for table, _ in waiting])
                keys = np.concatenate([keys for _, keys in waiting])
                waiting = []
                for first in range(0, ready, window):
                    some = together.slice(first, window)
                    columns = [some[name].to_pylist() for name in source.text]
                    pending = _Pending(space, keys[first : first + window])
                    try:
                        for rows, logits in teacher.logits(columns):
                            pending.add(rows, logits)
                            advance(len(rows), note)
                    finally:
                        pending.flush()
    space.refresh()
    if missing and len(space.segments) > 8:
        space.compact()


class _Pending:
    """Logits not yet in the store; written every few thousand rows or seconds."""

    def __init__(self, space: Namespace, keys: Keys) -> None:
        self.space, self.keys = space, keys
        self.rows: list[npt.NDArray[Any]] = []
        self.logits: list[npt.NDArray[np.float32]] = []
        self.since = time.monotonic()

    def add(self, rows: npt.NDArray[Any], logits: npt.NDArray[np.float32]) -> None:
        if not np.isfinite(logits).all():
            raise TeacherError(
                'the teacher gave logits that are not finite; try precision = "fp32"'
            )
        self.rows.append(rows)
        self.logits.append(logits)
        late = time.monotonic() - self.since > _FLUSH_SECONDS
        if late or sum(map(len, self.rows)) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.rows:
            rows, logits = np.concatenate(self.rows), np.concatenate(self.logits)
            self.space.put(self.keys[rows], lists_of(logits.astype(np.float32)))
        self.rows, self.logits, self.since = [], [], time.monotonic()
