"""A content-addressed store: immutable Arrow files, looked up by 16-byte keys, thousands at once.

One folder per namespace; a namespace's name is a digest of everything that could change its
values, so a stale value cannot be found. Segments ``<writer>-<n>.arrow`` hold sorted keys and one
value column; they are written under a temporary name, fsynced and renamed, so any number of
writers needs no lock. Nothing is ever unpickled: readers accept one schema and refuse the rest.
"""

import json
import os
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from augment.digest import content_digest
from augment.errors import StoreError
from augment.files import fsync_folder, write_atomic
from augment.keys import Keys, find, first_of_each, order

FORMAT = "1"
MERGED = 250_000
_WARNED: set[Path] = set()  # segments this process has complained of


def default_root() -> Path:
    """Return the store's folder: ``TRANSFERSET_STORE``, else the user's cache folder."""
    chosen = os.environ.get("TRANSFERSET_STORE")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "transferset" / "store"


@dataclass(slots=True)
class Segment:
    """One immutable file: sorted distinct keys and their values, memory-mapped."""

    path: Path
    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    values: pa.Array

    def __len__(self) -> int:
        return len(self.high)

    @property
    def keys(self) -> Keys:
        """The sorted keys as (N, 2), copied into memory."""
        return np.stack([self.high, self.low], axis=1)

    @classmethod
    def write(cls, path: Path, keys: Keys, values: pa.Array) -> None:
        """Write keys (distinct, any order) and values as one segment, whole or not at all."""
        sort = order(keys)
        keys, values = np.ascontiguousarray(keys[sort]), values.take(pa.array(sort))
        columns = [pa.array(keys[:, 0].copy()), pa.array(keys[:, 1].copy()), values]
        note = {"format": FORMAT, "rows": str(len(keys)), "checksum": _checksum(columns)}
        if len(keys):
            note |= {"first": str(int(keys[0, 0])), "last": str(int(keys[-1, 0]))}
        names = ["high", "low", "value"]
        table = pa.table(columns, names=names).replace_schema_metadata(note)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=max(1, len(keys)))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, sink.getvalue())

    @classmethod
    def open(cls, path: Path, kind: pa.DataType) -> "Segment":
        """Map a segment and check its schema and checksum.

        Raises:
            StoreError: torn, tampered with, or of another schema.
        """
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all().combine_chunks()
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{path}: not a whole segment ({error})") from error
        expected = pa.schema([("high", pa.uint64()), ("low", pa.uint64()), ("value", kind)])
        if not table.schema.remove_metadata().equals(expected):
            raise StoreError(f"{path}: holds {table.schema.types}, expected {expected.types}")
        note = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
        columns = [_single(table.column(i), kind) for i, kind in enumerate(table.schema.types)]
        if note.get("format") != FORMAT or note.get("checksum") != _checksum(columns):
            raise StoreError(f"{path}: the checksum does not fit the content")
        return cls(path, columns[0].to_numpy(), columns[1].to_numpy(), columns[2])


def _single(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], kind)


def _checksum(columns: Sequence[pa.Array]) -> str:
    """Digest the logical content, so that padding, chunks and Arrow's version do not matter."""
    names = [str(number) for number in range(len(columns))]
    return content_digest([pa.record_batch(list(columns), names=names)])


@dataclass(slots=True)
class Namespace:
    """All values of one identity, for example one teacher's logits.

    Attributes:
        folder: where the segments are.
        kind: Arrow type of a value.
        skipped: segments that could not be used, with the reason; reported once as a warning.
    """

    folder: Path
    kind: pa.DataType
    segments: dict[str, Segment] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    writer: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    written: int = 0

    def refresh(self) -> None:
        """Take up segments that have appeared, forget those that a compaction removed."""
        names = {p.name for p in self.folder.glob("[!.]*.arrow")}
        for gone in set(self.segments) - names:
            del self.segments[gone]
        for name in sorted(names - set(self.segments) - set(self.skipped)):
            try:
                self.segments[name] = Segment.open(self.folder / name, self.kind)
            except StoreError as error:
                if not (self.folder / name).exists():  # another process has just compacted
                    return self.refresh()
                self.skipped[name] = str(error)
                if self.folder / name not in _WARNED:
                    _WARNED.add(self.folder / name)
                    warnings.warn(
                        f"store segment ignored: {error}; its values will be made again "
                        "(remove it with: augment store gc)",
                        stacklevel=2,
                    )

    def get(self, keys: Keys) -> tuple[npt.NDArray[np.bool_], pa.Array]:
        """Look keys up.

        Args:
            keys: (N, 2) uint64.

        Returns:
            Which keys are known, (N,) bool, and their values in the order of ``keys[known]``.
        """
        self.refresh()
        place = np.full(len(keys), -1, np.int64)
        parts: list[pa.Array] = [pa.array([], self.kind)]
        count = 0
        for part, asked, at in self._found(keys):
            # One segment after another: a take over all of them would copy them whole.
            parts.append(part.values.take(pa.array(at)))
            place[asked] = count + np.arange(len(at))
            count += len(at)
        known = place >= 0
        return known, pa.concat_arrays(parts).take(pa.array(place[known]))

    def has(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return which keys are known, (N,) bool, without reading values."""
        self.refresh()
        known = np.zeros(len(keys), bool)
        for _, found, _ in self._found(keys):
            known[found] = True
        return known

    def _found(self, keys: Keys) -> Iterator[tuple[Segment, npt.NDArray[Any], npt.NDArray[Any]]]:
        """Yield segments with the numbers of the keys found there first, and where they are."""
        missing = np.argsort(keys[:, 0])  # sorted needles find their way through the cache
        for part in self.segments.values():
            if not len(missing):
                return
            at = find(keys[missing], part.high, part.low)
            hit = at >= 0
            if hit.any():
                yield part, missing[hit], at[hit]
                missing = missing[~hit]

    def put(self, keys: Keys, values: pa.Array) -> None:
        """Write distinct keys and their values as one new segment; durable on return."""
        if not len(keys):
            return
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        name = f"{self.writer}-{self.written:06d}.arrow"
        Segment.write(self.folder / name, keys, values.cast(self.kind))
        self.written += 1

    def compact(self) -> int:
        """Merge small segments into larger ones of up to ``MERGED`` entries, which bounds memory.

        Returns how many were merged.
        """
        self.refresh()
        groups: list[list[Segment]] = [[]]
        for segment in sorted(self.segments.values(), key=len):
            if sum(map(len, groups[-1])) + len(segment) > MERGED and groups[-1]:
                groups.append([])
            groups[-1].append(segment)
        groups = [group for group in groups if len(group) > 1]
        for old in groups:
            keys = np.concatenate([s.keys for s in old])
            values = pa.chunked_array([s.values for s in old], self.kind)
            keep = first_of_each(keys)
            self.put(keys[keep], values.take(pa.array(keep)))
            for segment in old:
                segment.path.unlink(missing_ok=True)
        self.refresh()
        return sum(map(len, groups))


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of namespaces."""

    root: Path = field(default_factory=default_root)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(self.root))

    def namespace(self, name: str, kind: pa.DataType, about: dict[str, Any]) -> Namespace:
        """Open a namespace, noting beside it in ``about.json`` what its name is a digest of."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "about.json").exists():
            write_atomic(folder / "about.json", json.dumps(about, indent=1).encode())
        return Namespace(folder, kind)

    def namespaces(self) -> Iterator[Path]:
        """Yield the folders of all namespaces."""
        for about in sorted(self.root.glob("*/about.json")):
            yield about.parent

    def stats(self) -> list[dict[str, Any]]:
        """Return one record a namespace: what it is, entries, segments, bytes, bad segments."""
        records = []
        for folder in self.namespaces():
            opened = self.open(folder)
            good = opened.segments.values()
            records.append(
                {
                    "namespace": folder.name,
                    "about": _about(folder),
                    "entries": sum(map(len, good)),
                    "segments": len(opened.segments),
                    "bytes": sum(p.stat().st_size for p in folder.glob("*.arrow")),
                    "bad": dict(opened.skipped),
                }
            )
        return records

    def open(self, folder: Path) -> Namespace:
        """Open an existing namespace with the value type most of its segments have."""
        kinds: Counter[pa.DataType] = Counter()
        for path in sorted(folder.glob("[!.]*.arrow")):
            try:
                with pa.memory_map(str(path)) as source:
                    kinds[pa.ipc.open_file(source).schema.field("value").type] += 1
            except (OSError, KeyError, pa.ArrowException):
                continue
        opened = Namespace(folder, kinds.most_common(1)[0][0] if kinds else pa.null())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened.refresh()
        return opened

    def gc(self, hours: float = 24.0) -> list[Path]:
        """Remove unusable segments, and temporary files older than ``hours``; returns them."""
        removed = []
        for folder in self.namespaces():
            removed += [folder / name for name in self.open(folder).skipped]
            limit = time.time() - hours * 3600
            removed += [p for p in folder.glob(".*.tmp") if p.stat().st_mtime < limit]
        for path in removed:
            path.unlink(missing_ok=True)
        for folder in {p.parent for p in removed}:
            fsync_folder(folder)
        return removed


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        return about if isinstance(about, dict) else {}
    except (OSError, ValueError):
        return {}


def identity(**facts: Any) -> str:
    """Return a namespace name: 32 hex digits of everything that could change a value."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
    return xxhash.xxh3_128_hexdigest(text.encode())
