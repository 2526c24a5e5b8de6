"""Reading corpora: anything ``datasets.load_dataset`` reads, datasets, lists, Arrow and Parquet.

Whatever the source, rows end up in one Arrow file with checked columns (``spool``), mapped rather
than loaded, so that workers share it and memory does not grow with the corpus.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augment.digest import content_digest
from augment.errors import CorpusError
from augment.readers import as_table, read_file
from augment.settings import CorpusSettings, suggestion
from augment.transferset import Task

ROWS = "rows.arrow"
_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Checked rows, mapped from disk.

    Attributes:
        train: the text columns (``large_string``), ``source`` (int64 or string) and, when the
            corpus has labels, ``label`` (int64 class index or float64).
        held_out: the other splits: text columns and, when known, ``label``.
        task: kind and class names.
        text: names of the text columns.
        digest: content digest of ``train``.
    """

    train: pa.Table
    held_out: dict[str, pa.Table]
    task: Task
    text: tuple[str, ...]
    digest: str


def spool(sources: Mapping[str, Any], settings: CorpusSettings, folder: Path) -> Corpus:
    """Read every split once, check it, and keep it as a memory-mapped Arrow file.

    Args:
        sources: ``train`` and any held-out splits: a dataset, an iterable of dicts, a table, a
            path. Read in order; streams are consumed once.
        settings: column names and the task.
        folder: where the Arrow files go.

    Raises:
        CorpusError: missing column, empty split, missing text, unusable label, repeated id.
    """
    raw = {
        name: _map(_columns(name, source, settings), folder / f"{name}.arrow", settings, name)
        for name, source in sources.items()
    }
    classes = _classes(raw["train"], settings)
    task = Task(settings.task, classes)
    tables = {name: _checked(table, settings, task, name) for name, table in raw.items()}
    train = _keep(tables.pop("train"), folder / ROWS)
    return Corpus(train, tables, task, settings.text, content_digest(train.to_batches()))


def _keep(table: pa.Table, path: Path) -> pa.Table:
    """Write a table as an Arrow file, rows without ids numbered, and return it mapped."""
    numbered = "source" not in table.column_names
    schema = table.schema.append(pa.field("source", pa.int64())) if numbered else table.schema
    at = 0
    with pa.ipc.new_file(str(path), schema) as writer:
        for batch in table.to_batches(max_chunksize=_ROWS):
            if numbered:  # batch by batch: the numbers of a large corpus need not stand in memory
                batch = batch.append_column("source", pa.array(np.arange(at, at + len(batch))))
            at += len(batch)
            writer.write_batch(batch)
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def sources_of(settings: CorpusSettings, base: Path) -> dict[str, Any]:
    """Return what a recipe names: splits of a hub dataset, or files relative to ``base``."""
    wanted = {"train": settings.train, "validation": settings.validation, "test": settings.test}
    named = {split: value for split, value in wanted.items() if value}
    if settings.name is None:
        return {split: (base / value).resolve() for split, value in named.items()}
    import datasets

    try:
        return {
            split: datasets.load_dataset(
                settings.name, settings.config, split=value, revision=settings.revision
            )
            for split, value in named.items()
        }
    except Exception as error:
        raise CorpusError(
            f"dataset {settings.name!r} ({settings.config}) cannot be loaded: {error}; "
            "without a hub, download its files and give their paths as train, validation, test"
        ) from error


def first_texts(settings: CorpusSettings, base: Path, split: str, rows: int) -> list[str]:
    """Return the first texts of a split, of all its text columns; nulls are left out.

    Raises:
        CorpusError: no such split or column.
    """
    sources = sources_of(settings, base)
    if split not in sources:
        raise CorpusError(f"no split {split!r}; the recipe names {', '.join(sources)}")
    texts: list[str] = []
    for table in _columns(split, sources[split], settings):
        for name in settings.text:
            if name not in table.column_names:
                known = suggestion(name, table.column_names)
                raise CorpusError(f'{split}: no column "{name}"{known}')
        for row in zip(*(table[name].to_pylist() for name in settings.text), strict=True):
            texts += [str(text) for text in row if text is not None]
            if len(texts) >= rows:
                return texts[:rows]
    return texts


def _columns(split: str, source: Any, settings: CorpusSettings) -> Iterator[pa.Table]:
    """Yield a source as Arrow tables of bounded size."""
    if isinstance(source, str | os.PathLike):
        yield from read_file(Path(source))
    elif isinstance(source, pa.Table):
        yield from (pa.Table.from_batches([b]) for b in source.to_batches(max_chunksize=_ROWS))
    elif hasattr(source, "with_format") and hasattr(source, "iter"):
        yield from _named_classes(source, settings)
    elif isinstance(source, Mapping):
        yield pa.table(dict(source))
    elif hasattr(source, "__arrow_c_stream__"):  # pandas, polars
        yield pa.table(source)
    elif isinstance(source, Iterable):
        rows = iter(source)
        done = 0
        while part := list(islice(rows, _ROWS)):
            if isinstance(part[0], str):
                part = [{settings.text[0]: value} for value in part]
            yield as_table(part, f"{split}, from row {done}")
            done += len(part)
    else:
        raise CorpusError(
            f"{split}: expected a dataset, rows as dicts, a table or a path, "
            f"got {type(source).__name__}"
        )


def _named_classes(source: Any, settings: CorpusSettings) -> Iterator[pa.Table]:
    """Yield a dataset's rows; class indices come as names where the dataset has names."""
    feature = (source.features or {}).get(settings.label) if settings.label else None
    known = getattr(feature, "names", None)
    for part in source.with_format("arrow").iter(batch_size=_ROWS):
        if known and not settings.classes:
            index = part[settings.label].combine_chunks().cast(pa.int64())
            index = pc.if_else(pc.greater_equal(index, 0), index, None)
            names = pc.take(pa.array(known, pa.string()), index)
            at = part.column_names.index(settings.label)
            part = part.set_column(at, settings.label, names)
            part = part.replace_schema_metadata({"classes": "\t".join(known)})
        yield part


def _map(parts: Iterator[pa.Table], path: Path, settings: CorpusSettings, split: str) -> pa.Table:
    """Write the wanted columns to an Arrow file and map it."""
    wanted = [*settings.text, *(c for c in (settings.label, settings.id) if c)]
    writer: pa.ipc.RecordBatchFileWriter | None = None
    schema: pa.Schema | None = None
    done = 0
    try:
        for part in parts:
            have = part.column_names
            for name in wanted:
                optional = split != "train" and name in (settings.label, settings.id)
                if name not in have and not optional:
                    raise CorpusError(f'{split}: no column "{name}"{suggestion(name, have)}')
            part = part.select([n for n in wanted if n in have])
            part = _texts(part, settings, split, done)
            if writer is None:
                schema = part.schema
                writer = pa.ipc.new_file(str(path), schema)
            try:
                writer.write_table(part if part.schema.equals(schema) else part.cast(schema))
            except (pa.ArrowException, ValueError) as error:
                raise CorpusError(
                    f"{split}, from row {done}: columns change type: {error}"
                ) from error
            done += part.num_rows
    finally:
        if writer is not None:
            writer.close()
    if not done:
        raise CorpusError(f"{split}: no rows")
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _texts(part: pa.Table, settings: CorpusSettings, split: str, done: int) -> pa.Table:
    for name in settings.text:
        at = part.column_names.index(name)
        column = part[name]
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise CorpusError(f'{split}: column "{name}" holds {column.type}, expected text')
        if column.null_count:
            row = done + column.is_null().to_pylist().index(True)
            raise CorpusError(f'{split}, row {row}: "{name}" is missing; give every row a text')
        part = part.set_column(at, name, column.cast(pa.large_string()))
    if settings.label in part.column_names and pa.types.is_dictionary(part[settings.label].type):
        at = part.column_names.index(settings.label)
        part = part.set_column(at, settings.label, part[settings.label].cast(pa.string()))
    return part


def _classes(train: pa.Table, settings: CorpusSettings) -> tuple[str, ...]:
    """Return the class names: as given, as the dataset names them, or as found, in order."""
    if settings.task == "regression" or settings.label is None:
        return settings.classes
    if settings.classes:
        return settings.classes
    noted = (train.schema.metadata or {}).get(b"classes")
    if noted:
        return tuple(noted.decode().split("\t"))
    if pa.types.is_floating(train[settings.label].type):
        raise CorpusError(
            f'train: label "{settings.label}" holds decimal numbers; '
            'set task = "regression", or name the classes'
        )
    found = pc.unique(train[settings.label]).cast(pa.string()).to_pylist()
    names = {v.strip() for v in found if v is not None and v.strip()}
    if all(n.lstrip("-").isdigit() for n in names):
        return tuple(sorted((n for n in names if int(n) >= 0), key=int))
    return tuple(sorted(names))


def _checked(table: pa.Table, settings: CorpusSettings, task: Task, split: str) -> pa.Table:
    columns = {name: table[name] for name in settings.text}
    if settings.label is not None and settings.label in table.column_names:
        label = table[settings.label]
        columns["label"] = (
            _numbers(label, split, settings.label)
            if task.kind == "regression"
            else _indices(label, task.classes, split, settings.label)
        )
        if split == "train" and columns["label"].null_count:
            row = columns["label"].is_null().to_pylist().index(True)
            raise CorpusError(f'train, row {row}: label "{settings.label}" is missing')
    if split == "train" and settings.id is not None:
        columns["source"] = _sources(table[settings.id].combine_chunks(), settings.id)
    return pa.table(columns)


def _indices(label: pa.ChunkedArray, classes: Sequence[str], split: str, name: str) -> pa.Array:
    text = pc.utf8_trim_whitespace(label.cast(pa.string())).combine_chunks()
    hidden = pc.equal(text, "")
    if "-1" not in classes:  # the hub's mark of a hidden label
        hidden = pc.or_(hidden, pc.equal(text, "-1"))
    text = pc.if_else(hidden, None, text)
    if len(set(classes)) < 2:
        raise CorpusError(f'{split}: label "{name}" has one class only ({", ".join(classes)})')
    index = pc.index_in(text, pa.array(classes, pa.string()))
    unknown = pc.and_(index.is_null(), text.is_valid())
    named = not any(c.lstrip("-").isdigit() for c in classes)
    if named and pc.any(unknown).as_py() and _all_digits(text):  # names given, rows hold numbers
        numbers = text.cast(pa.int64())
        index = pc.if_else(pc.less(numbers, len(classes)), numbers, None)
        unknown = pc.and_(index.is_null(), text.is_valid())
    if pc.any(unknown).as_py():
        row = unknown.to_pylist().index(True)
        value = text[row].as_py()
        raise CorpusError(
            f'{split}, row {row}: label "{value}" is none of the classes {", ".join(classes)}'
        )
    return index.cast(pa.int64())


def _all_digits(text: pa.Array) -> bool:
    return all(t is None or t.isdigit() for t in pc.unique(text).to_pylist())


def _numbers(label: pa.ChunkedArray, split: str, name: str) -> pa.Array:
    if pa.types.is_string(label.type) or pa.types.is_large_string(label.type):
        text = pc.utf8_trim_whitespace(label)
        label = pc.if_else(pc.equal(text, ""), None, text)
    try:
        values = label.combine_chunks().cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise CorpusError(f'{split}: label "{name}" is not a number: {error}') from error
    bad = ~np.isfinite(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    if bad.any():
        raise CorpusError(f'{split}, row {int(np.argmax(bad))}: label "{name}" is not finite')
    return values


def _sources(ids: pa.Array, name: str) -> pa.Array:
    if ids.null_count:
        raise CorpusError(f'train: id "{name}" is missing in some rows')
    if len(pc.unique(ids)) < len(ids):
        raise CorpusError(f'train: id "{name}" repeats; every row needs its own')
    if pa.types.is_integer(ids.type) or _counts(ids):
        try:
            return ids.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits with a sign: names then, not numbers
            return ids.cast(pa.string())
    return ids.cast(pa.string())


def _counts(ids: pa.Array) -> bool:
    """Return whether textual ids are plain whole numbers, as a csv writes integer ids."""
    text = pc.fill_null(
        pc.match_substring_regex(ids.cast(pa.string()), "^(0|-?[1-9][0-9]*)$"), False
    )
    return bool(pc.all(text).as_py())
