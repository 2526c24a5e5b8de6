"""Whatever comes in: exact texts come out, or a documented error; never anything else."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import augment as A
from augment.annotate.columns import Annotator
from augment.digest import content_digest
from augment.errors import TransfersetError
from augment.readers import read_file
from augment.settings import CorpusSettings, read_recipe
from augment.unit import Job, fold, letter_sums

ANY_TEXT = st.text(max_size=60) | st.text(
    alphabet=st.characters(categories=("Zs", "Zl", "Zp", "Cc", "Mn", "So", "Ll", "Lu", "Po")),
    max_size=40,
)
SURROGATES = st.text(alphabet=st.characters(categories=("Cs", "Ll")), min_size=1, max_size=8)
ANY_VALUE: Any = ANY_TEXT | SURROGATES | st.none() | st.integers() | st.floats() | st.binary()
CHAIN = A.Mask(0.3) >> A.SampleNGram(0.3)
ENGLISH = Annotator("en")


def outcome(action: Callable[[], Any]) -> tuple[Any, str]:
    """Return what an action gives, or None and what its documented error says."""
    try:
        return action(), ""
    except TransfersetError as error:
        return None, str(error) or "nothing"


@given(st.lists(ANY_TEXT, min_size=1, max_size=6))
def test_words_and_white_space_join_back_to_the_text(texts: list[str]) -> None:
    batch = ENGLISH.batch(pa.array(texts, pa.large_string()))
    assert batch.text().to_pylist() == texts
    assert batch.take(np.arange(len(texts))[::-1]).text().to_pylist() == texts[::-1]
    assert len(set(batch.table.to_pylist())) == len(batch.table), "each string once"


@given(ANY_TEXT | SURROGATES, st.integers())
def test_a_string_gives_copies_or_a_documented_error(text: str, seed: int) -> None:
    copies, told = outcome(lambda: CHAIN(text, copies=3, seed=seed))
    if told:
        assert any("\ud800" <= c <= "\udfff" for c in text), "only no Unicode is refused"
        return
    assert len(copies) == 3
    assert all(isinstance(copy, str) for copy in copies)


@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"text": ANY_VALUE, "label": ANY_VALUE, "id": ANY_VALUE}
        ),
        max_size=5,
    ),
    st.sampled_from(["classification", "regression"]),
)
def test_any_rows_make_a_set_or_a_documented_error(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], task: str
) -> None:
    out = tmp_path_factory.mktemp("any") / "set"
    made, told = outcome(
        lambda: A.build(rows, CHAIN, out=out, label="label", task=task, copies=2, show=False)
    )
    if told:
        assert not out.exists(), "nothing is left of what could not begin"
        return
    originals = [r["text"] for r in made.read().to_pylist() if r["copy"] == 0]
    assert originals == [row["text"] for row in rows]


@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "json", "jsonl", "parquet", "txt"]))
def test_any_bytes_are_rows_or_a_documented_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str
) -> None:
    path = tmp_path_factory.mktemp("bytes") / f"file.{ending}"
    path.write_bytes(data)
    tables, told = outcome(lambda: list(read_file(path)))
    assert str(path) in told or all(isinstance(table, pa.Table) for table in tables)


@given(st.text(max_size=80) | st.sampled_from(["[corpus]\ntrain = 5", "[augment]\nsteps = 1"]))
def test_any_recipe_is_read_or_a_documented_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("recipe") / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    read, told = outcome(lambda: read_recipe(path).section(CorpusSettings, "corpus"))
    assert "recipe.toml" in told or isinstance(read, CorpusSettings)


def test_a_parquet_file_with_flipped_bits_is_rows_or_a_documented_error(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["one", "two"] * 50}), path)
    whole = path.read_bytes()
    draws = random.Random(1)
    refused = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(3):
            data[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
        path.write_bytes(bytes(data))
        refused += bool(outcome(lambda: list(read_file(path)))[1])
    assert refused


@given(st.lists(ANY_TEXT, min_size=1, max_size=4), st.lists(ANY_TEXT, min_size=1, max_size=4))
def test_the_guards_quick_look_misses_no_held_out_text(held: list[str], texts: list[str]) -> None:
    texts = [*texts, *(f" {t.upper()}\n" for t in held), *(t.swapcase() for t in held)]
    folded = fold(pa.array(held, pa.large_string()))
    job = Job.__new__(Job)
    object.__setattr__(job, "sums", np.unique(letter_sums(folded)[0]))
    column = pa.array(texts, pa.large_string())
    suspects = job.suspects([column])
    equal = [text in set(folded.to_pylist()) for text in fold(column).to_pylist()]
    assert all(suspects[i] for i, same in enumerate(equal) if same)


@given(st.lists(ANY_TEXT, max_size=8), st.integers(1, 4))
def test_the_content_digest_does_not_see_chunks(texts: list[str], step: int) -> None:
    table = pa.table({"text": pa.array(texts, pa.string())})
    parts = [table.slice(i, step) for i in range(0, len(texts), step)] or [table]
    assert content_digest(parts) == content_digest([table])
