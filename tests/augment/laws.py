"""Laws that every transform keeps, whatever it does.

A new transform in the catalogue is covered already, with ``rate=0.4``; one that needs other settings
to edit many rows adds a line to ``EXAMPLES``. Fitting is done here, on the same texts.
"""

import atexit
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import augment as A
from augment.annotate.columns import Annotator
from augment.batch import TokenBatch
from augment.draws import Place
from augment.recipe import from_steps, to_steps
from augment.transforms import CATALOGUE
from tests.augment.tiny import save_masked_lm, save_vectors

PLACE = Place(seed=7, column=0, number=2)


@cache
def _models() -> tuple[str, str]:
    """A tiny masked LM and word vectors, written once a run of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="transferset-laws-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    lm = save_masked_lm(folder / "masked-lm", "cased")
    return str(lm), str(save_vectors(folder / "vectors.txt"))


def _substitute(tagger: str) -> A.Transform:
    lm, vectors = _models()
    return A.Substitute(0.6, model=lm, vectors=vectors)


EXAMPLES: dict[str, Callable[[str], A.Transform]] = {
    "substitute": _substitute,
    "replace_pos": lambda tagger: A.ReplacePOS(0.4, tagger=tagger),
    "ngram": lambda tagger: A.SampleNGram(0.6, longest=3),
}
"""Transforms that ``rate=0.4`` alone does not make a telling example of."""


def example(name: str, tagger: str) -> A.Transform:
    """Return the example of a transform, not fitted."""
    if name in EXAMPLES:
        return EXAMPLES[name](tagger)
    return CATALOGUE[name](rate=0.4)  # type: ignore[call-arg]


def annotated(transform: A.Transform, texts: list[str]) -> TokenBatch:
    """Return texts as a batch with the annotations the transform needs; ids are not row numbers."""
    rows = np.arange(len(texts), dtype=np.uint64) * np.uint64(3) + np.uint64(11)
    annotator = Annotator.of(transform, "en", None)
    return annotator.batch(pa.array(texts, pa.large_string()), rows)


def fit(transform: A.Transform, texts: list[str]) -> A.Transform:
    """Return the transform fitted on the texts."""
    return transform.fitted([annotated(transform, texts)])


def copied(batch: TokenBatch, copies: int = 4) -> TokenBatch:
    """Return every row ``copies`` times, numbered from 1."""
    index = np.repeat(np.arange(len(batch)), copies)
    return batch.take(index, np.tile(np.arange(1, copies + 1, dtype=np.int32), len(batch)))


def snapshot(batch: TokenBatch) -> dict[str, Any]:
    """Return every array of a batch as plain values, to compare with later."""
    values = {f.name: getattr(batch, f.name) for f in fields(batch)}
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    return plain | {"table": batch.table.to_pylist()}


def texts_of(batch: TokenBatch) -> list[str]:
    return batch.text().to_pylist()


def it_edits_something(transform: A.Transform, texts: list[str]) -> None:
    batch = copied(annotated(transform, texts))
    done = fit(transform, texts).apply(batch, PLACE)
    changed = np.array(texts_of(done)) != np.array(texts_of(batch))
    assert changed.mean() > 0.2


def edits_are_marked_where_the_text_changed(transform: A.Transform, texts: list[str]) -> None:
    batch = copied(annotated(transform, texts))
    done = fit(transform, texts).apply(batch, PLACE)
    changed = np.array(texts_of(done)) != np.array(texts_of(batch))
    marked = done.edits == np.int64(1) << PLACE.number
    assert ((done.edits == 0) | marked).all(), "a transform marks its own bit only"
    assert (marked | ~changed).all(), "every changed row is marked"


def splitting_a_batch_changes_nothing(transform: A.Transform, texts: list[str]) -> None:
    fitted = fit(transform, texts)
    batch = copied(annotated(transform, texts))
    whole = fitted.apply(batch, PLACE)
    cuts = [0, 1, 2, 9, len(batch) // 2, len(batch) - 1, len(batch)]
    for first, last in zip(cuts, cuts[1:], strict=False):
        part = fitted.apply(batch.take(np.arange(first, last)), PLACE)
        assert texts_of(part) == texts_of(whole)[first:last]
        assert part.edits.tolist() == whole.edits[first:last].tolist()


def the_order_of_rows_changes_nothing(transform: A.Transform, texts: list[str]) -> None:
    fitted = fit(transform, texts)
    batch = copied(annotated(transform, texts))
    shuffled = np.random.default_rng(3).permutation(len(batch))
    straight = texts_of(fitted.apply(batch, PLACE))
    assert texts_of(fitted.apply(batch.take(shuffled), PLACE)) == [straight[i] for i in shuffled]


def the_same_seed_gives_the_same_bytes(transform: A.Transform, texts: list[str]) -> None:
    batch = copied(annotated(transform, texts))
    first = fit(transform, texts).apply(batch, PLACE)
    again = fit(transform, list(texts)).apply(copied(annotated(transform, texts)), PLACE)
    assert texts_of(first) == texts_of(again)
    assert first.edits.tolist() == again.edits.tolist()


def another_seed_column_or_place_gives_other_texts(
    transform: A.Transform, texts: list[str]
) -> None:
    fitted = fit(transform, texts)
    batch = copied(annotated(transform, texts))
    here = texts_of(fitted.apply(batch, PLACE))
    for other in (replace(PLACE, seed=8), replace(PLACE, column=1), PLACE.after(1)):
        assert texts_of(fitted.apply(batch, other)) != here


def rate_zero_is_identity(transform: A.Transform, texts: list[str]) -> None:
    still = fit(replace(transform, rate=0.0), texts)  # type: ignore[type-var]
    batch = copied(annotated(transform, texts))
    done = still.apply(batch, PLACE)
    assert texts_of(done) == texts_of(batch)
    assert not done.edits.any()


def the_input_is_untouched(transform: A.Transform, texts: list[str]) -> None:
    batch = copied(annotated(transform, texts))
    before = snapshot(batch)
    fit(transform, texts).apply(batch, PLACE)
    assert snapshot(batch) == before


def rows_keep_their_ids_and_copies(transform: A.Transform, texts: list[str]) -> None:
    batch = copied(annotated(transform, texts))
    done = fit(transform, texts).apply(batch, PLACE)
    assert len(done) == len(batch)
    assert done.rows.tolist() == batch.rows.tolist()
    assert done.copies.tolist() == batch.copies.tolist()


def annotations_stay_aligned(transform: A.Transform, texts: list[str]) -> None:
    batch = copied(annotated(transform, texts))
    done = fit(transform, texts).apply(batch, PLACE)
    assert done.offsets[0] == 0
    assert (done.lengths >= 0).all()
    assert len(done.words) == len(done.spaces) == done.offsets[-1]
    assert done.tags is None or len(done.tags) == len(done.words)
    assert done.candidates is None or len(done.candidates.count) == len(done.words)


def empty_rows_pass(transform: A.Transform, texts: list[str]) -> None:
    fitted = fit(transform, texts)
    empty = ["", " ", "\n\t", "\u00a0"]
    batch = copied(annotated(transform, [*empty, *texts]))
    done = fitted.apply(batch, PLACE)
    blanks = [t for t in empty for _ in range(4)]
    assert texts_of(done)[: len(blanks)] == blanks
    alone = fitted.apply(copied(annotated(transform, empty)), PLACE)
    assert texts_of(alone) == blanks


def an_empty_batch_passes(transform: A.Transform, texts: list[str]) -> None:
    fitted = fit(transform, texts)
    for batch in (
        annotated(transform, texts).take(np.arange(0)),
        annotated(transform, []),
    ):
        done = fitted.apply(batch, PLACE)
        assert len(done) == 0
        assert texts_of(done) == []


def settings_become_toml_and_settings_again(transform: A.Transform, texts: list[str]) -> None:
    for same in (transform, A.Chain([transform]), type(transform)()):
        chain = A.Chain([same])
        assert from_steps(to_steps(same)) == chain
        assert from_steps(tomllib.loads(toml_of(to_steps(same)))["steps"]) == chain


def repr_prints_the_algebra(transform: A.Transform, texts: list[str]) -> None:
    names = {cls.__name__: cls for cls in CATALOGUE.values()}
    assert eval(repr(transform), names) == transform  # noqa: S307
    assert eval(repr(fit(transform, texts)), names) == transform  # noqa: S307


def toml_of(steps: list[dict[str, Any]]) -> str:
    """Write steps as TOML text, the way a person would."""

    def value(v: Any) -> str:
        if isinstance(v, dict):
            return "{" + ", ".join(f"{k} = {value(x)}" for k, x in v.items()) + "}"
        if isinstance(v, list | tuple):
            return "[" + ", ".join(map(value, v)) + "]"
        if isinstance(v, bool):
            return str(v).lower()
        return f'"{v}"' if isinstance(v, str) else repr(v)

    return f"steps = {value(steps)}\n"


LAWS = [
    it_edits_something,
    edits_are_marked_where_the_text_changed,
    splitting_a_batch_changes_nothing,
    the_order_of_rows_changes_nothing,
    the_same_seed_gives_the_same_bytes,
    another_seed_column_or_place_gives_other_texts,
    rate_zero_is_identity,
    the_input_is_untouched,
    rows_keep_their_ids_and_copies,
    annotations_stay_aligned,
    empty_rows_pass,
    an_empty_batch_passes,
    settings_become_toml_and_settings_again,
    repr_prints_the_algebra,
]
