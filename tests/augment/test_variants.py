"""Copies of rows: the original first, pairs by turns, and only a row's own place matters."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import augment as A
from augment.annotate.columns import Annotator
from augment.draws import Place
from augment.variants import Variants, edited, ops, variants
from tests.augment.corpus_rows import HARD_TEXTS, QUESTIONS, REVIEWS

CHAIN = (A.Mask(0.3) | A.Mask(0.2)) >> A.SampleNGram(0.3)
TEXTS = [*(row["text"] for row in REVIEWS), *HARD_TEXTS]
PAIRS = [[row["first"] for row in QUESTIONS], [row["second"] for row in QUESTIONS]]
ENGLISH = Annotator("en")


def made(
    columns: list[list[str]],
    copies: Any,
    seed: int = 7,
    transform: A.Transform = CHAIN,
    first: int = 0,
) -> Variants:
    text = [pa.array(c, pa.large_string()) for c in columns]
    ids = np.arange(first, first + len(columns[0]), dtype=np.uint64)
    return variants(transform, text, [ENGLISH.batch(t, ids) for t in text], copies, seed)


def rows_of(v: Variants) -> list[tuple[Any, ...]]:
    columns = [t.to_pylist() for t in v.text]
    return list(zip(*columns, v.row.tolist(), v.copy.tolist(), v.edits.tolist(), strict=True))


def test_rows_come_in_the_order_source_then_copy() -> None:
    v = made([TEXTS], range(4))
    assert v.row.tolist() == [r for r in range(len(TEXTS)) for _ in range(4)]
    assert v.copy.tolist() == [0, 1, 2, 3] * len(TEXTS)


def test_copy_zero_is_the_original_untouched() -> None:
    for columns in ([TEXTS], PAIRS):
        v = made(columns, range(3))
        original = v.copy == 0
        for column, text in zip(columns, v.text, strict=True):
            assert text.filter(pa.array(original)).to_pylist() == column
        assert not v.edits[original].any()


def test_pairs_cycle_first_second_both() -> None:
    copies = 300
    v = made(PAIRS, range(1, copies + 1))
    turn = (v.copy - 1) % 3
    changed = [
        np.array(t.to_pylist()) != np.repeat(c, copies) for t, c in zip(v.text, PAIRS, strict=True)
    ]
    assert not changed[1][turn == 0].any(), "turn 1 edits the first column only"
    assert not changed[0][turn == 1].any(), "turn 2 edits the second column only"
    assert changed[0][turn == 0].mean() > 0.8
    assert changed[1][turn == 1].mean() > 0.8
    assert (changed[0] & changed[1])[turn == 2].mean() > 0.6, "turn 3 edits both"


def test_which_copies_edit_a_column() -> None:
    copy = np.arange(7)
    assert edited(copy, 0, 1).tolist() == [False] + [True] * 6
    assert edited(copy, 0, 2).tolist() == [False, True, False, True, True, False, True]
    assert edited(copy, 1, 2).tolist() == [False, False, True, True, False, True, True]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("columns", [[TEXTS], PAIRS], ids=["single", "pair"])
def test_the_size_of_a_batch_changes_nothing(columns: list[list[str]], size: int) -> None:
    whole = rows_of(made(columns, range(6)))
    parts: list[tuple[Any, ...]] = []
    for first in range(0, len(columns[0]), size):
        part = made([c[first : first + size] for c in columns], range(6), first=first)
        parts += [(*r[:-3], r[-3] + first, *r[-2:]) for r in rows_of(part)]
    assert parts == whole


def test_a_copy_does_not_depend_on_the_copies_beside_it() -> None:
    many = {(r, c): t for t, r, c, _ in rows_of(made([TEXTS], range(10)))}
    for wanted in ([3], [9, 1], range(2, 5)):
        assert all(many[r, c] == t for t, r, c, _ in rows_of(made([TEXTS], wanted)))


def test_copies_of_equal_texts_differ_by_row_id() -> None:
    v = made([["the same words in every row of this batch"] * 50], [1])
    assert len(set(v.text[0].to_pylist())) > 40


def test_columns_of_equal_texts_are_edited_apart() -> None:
    same = ["the same words in both columns of this batch"] * 50
    v = made([same, same], [3])
    a, b = (t.to_pylist() for t in v.text)
    assert sum(x == y for x, y in zip(a, b, strict=True)) < 10


def test_edits_of_either_column_are_marked() -> None:
    v = made(PAIRS, range(1, 31))
    changed = np.zeros(len(v.row), bool)
    for text, column in zip(v.text, PAIRS, strict=True):
        changed |= np.array(text.to_pylist()) != np.repeat(column, 30)
    assert ((v.edits != 0) == changed).all()


def test_no_rows_and_no_copies_pass() -> None:
    assert rows_of(made([[]], range(3))) == []
    assert rows_of(made([TEXTS], [])) == []
    assert rows_of(made([[], []], range(3))) == []


def test_a_chain_edits_as_its_steps_do_one_after_another() -> None:
    batch = ENGLISH.batch(pa.array(TEXTS, pa.large_string()))
    steps = [A.Mask(0.3), A.SampleNGram(0.5), A.Mask(0.5)]
    by_hand = batch
    for number, step in enumerate(steps):
        by_hand = step.apply(by_hand, Place(3, 0, number))
    done = A.Chain(steps).apply(batch, Place(3))
    assert done.text().to_pylist() == by_hand.text().to_pylist()
    assert done.edits.tolist() == by_hand.edits.tolist()


def test_the_same_transform_twice_draws_twice() -> None:
    text = ["one two three four five six seven eight nine ten"] * 500
    once = made([text], [1], transform=A.Mask(0.3)).text[0].to_pylist()
    twice = made([text], [1], transform=A.Mask(0.3) >> A.Mask(0.3)).text[0].to_pylist()
    count = lambda rows: sum(t.count("[MASK]") for t in rows) / 5000
    assert abs(count(once) - 0.3) < 0.03
    assert abs(count(twice) - 0.51) < 0.03


def test_ops_name_the_transforms_that_changed_a_row() -> None:
    edits = np.array([0, 1, 4, 7, 0, 5], np.int64)
    names = ["mask", "replace_pos", "ngram"]
    assert ops(edits, names).to_pylist() == [
        "", "mask", "ngram", "mask,replace_pos,ngram", "", "mask,ngram",
    ]  # fmt: skip
    assert ops(np.zeros(0, np.int64), names).to_pylist() == []
    assert ops(np.array([1 << 62], np.int64), [*("x",) * 62, "last"]).to_pylist() == ["last"]
