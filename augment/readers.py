"""Corpus files: csv, tsv, json lines and Parquet as Arrow tables, without guessing.

Read with the standard library and Arrow. Readers that guess turn "null" into nothing and "007"
into 7, drop empty lines, and shift a row that has a field too many.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from augment.errors import CorpusError

_ROWS = 10_000
_ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet")


def read_file(path: Path) -> Iterator[pa.Table]:
    """Yield a file's rows as tables of bounded size.

    Raises:
        CorpusError: no such file, empty, not UTF-8, or not of the kind its ending says.
    """
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise CorpusError(f"{path}: reads {', '.join(_ENDINGS)}, got {ending or 'no ending'!r}")
    if not path.is_file():
        raise CorpusError(f"{path}: no such file (paths in a recipe start at the recipe's folder)")
    if path.stat().st_size == 0:
        raise CorpusError(f"{path}: the file is empty")
    try:
        if ending == ".parquet":
            for batch in pq.ParquetFile(path).iter_batches(_ROWS):
                yield pa.Table.from_batches([batch])
        else:
            yield from _json(path) if ending.startswith(".json") else _delimited(path)
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: not UTF-8 ({error}); convert it first") from error
    except (ValueError, csv.Error, OSError) as error:  # json's and Arrow's are ValueErrors too
        raise CorpusError(f"{path}: cannot be read as {ending[1:]}: {error}") from error


def _delimited(path: Path) -> Iterator[pa.Table]:
    """Yield a csv or tsv file: every value is text, every row has the header's number of fields.

    In a tsv quotes mean nothing and only a line feed ends a line.
    """
    tabs = path.suffix.lower() != ".csv"
    csv.field_size_limit(2**31 - 1)  # a text may be longer than the module's 131,072 characters
    with open(path, encoding="utf-8-sig", newline="\n" if tabs else "") as file:
        rows: Iterator[list[str]] = (
            (_fields(line) for line in file) if tabs else csv.reader(file, strict=True)
        )
        header = next(rows)
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise CorpusError(f'{path}: the header names "{twice}" twice; rename one column')
        if not tabs:
            rows = _without_blank_end(rows)
        number = 0
        part = list(islice(rows, _ROWS))
        while part or not number:
            for row in part:
                if not row and len(header) == 1:
                    row.append("")
                if len(row) != len(header):
                    raise CorpusError(
                        f"{path}, row {number}: {len(row)} fields, the header has {len(header)}"
                    )
                number += 1
            columns = zip(*part, strict=True) if part else [[] for _ in header]
            arrays = [pa.array(list(column), pa.string()) for column in columns]
            yield pa.table(arrays, names=header)
            part = list(islice(rows, _ROWS))
            if not part:
                return


def _without_blank_end(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield csv rows, blank lines too, except those at the end of the file."""
    blank = 0
    for row in rows:
        if not row:
            blank += 1
            continue
        yield from ([] for _ in range(blank))
        blank = 0
        yield row


def _fields(line: str) -> list[str]:
    return line.removesuffix("\n").removesuffix("\r").split("\t")


def _json(path: Path) -> Iterator[pa.Table]:
    """Yield a file of one JSON object a line, or of one JSON array of objects."""
    with open(path, encoding="utf-8-sig") as file:
        start = file.read(1)
        file.seek(0)
        if start == "[":
            rows = iter(json.load(file))
        else:
            rows = _lines(path, file)
        number = 0
        while part := list(islice(rows, _ROWS)):
            for row in part:
                if not isinstance(row, dict):
                    raise CorpusError(f"{path}, row {number}: expected an object, got {row!r:.60}")
                number += 1
            yield as_table(part, f"{path}, up to row {number}")


def _lines(path: Path, file: Iterable[str]) -> Iterator[Any]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise CorpusError(f"{path}, line {number}: not JSON: {error}") from error


def as_table(rows: Sequence[Mapping[str, Any]], where: str) -> pa.Table:
    """Return rows as a table with the columns of all of them, absent values null.

    Raises:
        CorpusError: a column mixes types, or holds text that is no Unicode.
    """
    columns: dict[str, pa.Array] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise CorpusError(
                f'{where}: column "{name}" cannot be read: {error}; give it one type'
            ) from error
    return pa.table(columns)
