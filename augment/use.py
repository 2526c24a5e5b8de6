"""Transforms in other people's pipelines: strings, ``datasets``, torch loaders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from augment.annotate.candidates import CandidateSource
from augment.annotate.columns import Annotator
from augment.errors import CorpusError
from augment.store import Store
from augment.variants import Variants, variants


def names(text: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or two column names as a tuple."""
    return (text,) if isinstance(text, str) else tuple(text)


def row_ids(values: Sequence[Any]) -> npt.NDArray[np.uint64]:
    """Return the 64-bit ids the draws are keyed by: whole numbers themselves, strings hashed."""
    return np.array(
        [
            int(v) % 2**64
            if isinstance(v, int | np.integer)
            else xxhash.xxh3_64_intdigest(str(v).encode())
            for v in values
        ],
        np.uint64,
    )


@lru_cache(maxsize=8)
def _annotator(language: str, tagger: str | None, source: CandidateSource | None) -> Annotator:
    return Annotator(language, tagger, candidates=source)


def fit(transform: Any, texts: Any, *, language: str, store: Store | None) -> Any:
    """Fit a transform on texts; see ``Transform.fit``."""
    if transform.tagger_name is None:
        return transform
    column = texts if isinstance(texts, pa.Array) else pa.array(list(texts), pa.large_string())
    return transform.fitted([Annotator(language, transform.tagger_name, store).batch(column)])


def make(
    transform: Any,
    texts: Sequence[Any],
    ids: npt.NDArray[np.uint64],
    copies: Sequence[int],
    seed: int,
    language: str,
) -> Variants:
    """Annotate texts in memory and make copies; one list of N texts a column."""
    columns = [_text(column, number) for number, column in enumerate(texts)]
    annotator = _annotator(language, transform.tagger_name, transform.candidate_source)
    batches = [annotator.batch(column, ids) for column in columns]
    return variants(transform, columns, batches, copies, seed)


def _text(column: Any, number: int) -> pa.Array:
    """Return texts as an Arrow column.

    Raises:
        CorpusError: a row holds no text.
    """
    if isinstance(column, pa.Array):
        return column
    for row, value in enumerate(column):
        if not isinstance(value, str):
            raise CorpusError(f"row {row}, text column {number}: expected text, got {value!r}")
    try:
        return pa.array(column, pa.large_string())
    except UnicodeEncodeError as error:
        raise CorpusError(f"text column {number}: {error.object!r} is no Unicode text") from error


def call(transform: Any, data: Any, **options: Any) -> Any:
    """Augment a string, a list of strings, or a dataset; see ``Transform.__call__``."""
    if isinstance(data, str):
        return _strings(transform, [data], **options)[0]
    if hasattr(data, "map") and hasattr(data, "column_names"):
        text = options.pop("text", "text")
        sharded = getattr(data, "num_shards", 1) > 1 and not hasattr(data, "__len__")
        if sharded and not options.get("id"):
            raise CorpusError("a sharded stream needs row ids; pass id=COLUMN")
        step = Batched(transform, names(text), **options)
        columns = data.column_names or data._resolve_features().column_names
        return data.map(step, batched=True, with_indices=True, remove_columns=columns)
    if isinstance(data, Sequence):
        return _strings(transform, data, **options)
    raise TypeError(f"expected a string, a list of strings or a dataset, got {type(data).__name__}")


def _strings(
    transform: Any, data: Sequence[str], copies: int = 1, seed: int = 0, language: str = "en"
) -> list[list[str]]:
    column = _text(data, 0)
    ids = row_ids([xxhash.xxh3_64_intdigest(t.encode()) for t in data])
    made = make(transform, [column], ids, range(1, copies + 1), seed, language)
    flat = made.text[0].to_pylist()
    return [flat[i * copies : (i + 1) * copies] for i in range(len(data))]


@dataclass(frozen=True, slots=True)
class Batched:
    """The function ``datasets.map`` calls: a dict of columns in, a longer dict of columns out.

    Every input row gives its original (with ``originals``) and ``copies`` copies; the other
    columns are repeated, and ``source`` and ``copy`` say where a row comes from.
    """

    transform: Any
    text: tuple[str, ...]
    copies: int = 1
    seed: int = 0
    language: str = "en"
    originals: bool = True
    id: str | None = None

    def __call__(
        self, batch: Mapping[str, list[Any]], indices: Sequence[int] | None = None
    ) -> dict[str, list[Any]]:
        """Return the batch with its copies."""
        columns = [list(batch[name]) for name in self.text]
        sources: list[Any]
        if self.id is not None:
            sources = list(batch[self.id])
        elif indices is not None:
            sources = list(indices)
        else:
            joined = zip(*columns, strict=True)
            sources = [xxhash.xxh3_64_intdigest(repr(row).encode()) >> 1 for row in joined]
        wanted = range(0 if self.originals else 1, self.copies + 1)
        made = make(self.transform, columns, row_ids(sources), wanted, self.seed, self.language)
        rows = made.row.tolist()
        out = {name: [values[r] for r in rows] for name, values in batch.items()}
        for name, column in zip(self.text, made.text, strict=True):
            out[name] = column.to_pylist()
        out["source"] = [sources[r] for r in rows]
        out["copy"] = made.copy.tolist()
        return out


@dataclass(slots=True)
class Collate:
    """A collate step: every row's text becomes its copy number ``epoch + 1``, then ``then`` runs.

    Rows are dicts. The same row in the same epoch gives the same text in any batch and worker.
    """

    transform: Any
    text: tuple[str, ...]
    seed: int = 0
    language: str = "en"
    id: str | None = None
    then: Callable[[list[dict[str, Any]]], Any] | None = None
    epoch: int = 0

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Return the collated batch, or the edited rows when no ``then`` is given."""
        columns = [[row[name] for row in rows] for name in self.text]
        if self.id is not None:
            ids = row_ids([row[self.id] for row in rows])
        else:
            joined = zip(*columns, strict=True)
            ids = row_ids([xxhash.xxh3_64_intdigest(repr(row).encode()) for row in joined])
        made = make(self.transform, columns, ids, [self.epoch + 1], self.seed, self.language)
        out = [dict(row) for row in rows]
        for name, column in zip(self.text, made.text, strict=True):
            for row, value in zip(out, column.to_pylist(), strict=True):
                row[name] = value
        return out if self.then is None else self.then(out)
