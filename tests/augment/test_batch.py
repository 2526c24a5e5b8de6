"""Token batches: cutting, taking, editing, and the exact way back to text."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augment.annotate.columns import Annotator
from augment.batch import TokenBatch, cut, spans
from augment.transforms.protocol import extend
from tests.augment.corpus_rows import HARD_TEXTS, REVIEWS

TEXTS = [*(row["text"] for row in REVIEWS), *HARD_TEXTS]
ENGLISH = Annotator("en")


def batch_of(texts: list[str]) -> TokenBatch:
    return ENGLISH.batch(pa.array(texts, pa.large_string()))


def words_of(batch: TokenBatch) -> list[str]:
    return batch.table.take(pa.array(batch.words)).to_pylist()


def test_a_batch_joins_back_to_its_texts() -> None:
    assert batch_of(TEXTS).text().to_pylist() == TEXTS


@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_unicode_joins_back_exactly(texts: list[str]) -> None:
    assert batch_of(texts).text().to_pylist() == texts


@given(
    st.lists(
        st.text(st.sampled_from(" \t\n\r\u00a0\u2003\u200b.,'\"-aZé日😀\u0301[]()0"), max_size=30),
        min_size=1,
        max_size=4,
    )
)
def test_punctuation_and_white_space_of_all_kinds_join_back_exactly(texts: list[str]) -> None:
    batch = batch_of(texts)
    assert batch.text().to_pylist() == texts
    assert all(word and not word.isspace() for word in words_of(batch))


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["a"], [" "]])
def test_tiny_batches_join_back(texts: list[str]) -> None:
    batch = batch_of(texts)
    assert len(batch) == len(texts)
    assert batch.text().to_pylist() == texts


def test_a_slice_of_an_array_is_cut_like_a_copy_of_it() -> None:
    whole = pa.array(["før", *TEXTS, "after"], pa.string())
    batch = ENGLISH.batch(whole.slice(1, len(TEXTS)))
    assert batch.text().to_pylist() == TEXTS


def test_words_are_spacys_and_white_space_tokens_are_none() -> None:
    batch = batch_of(["Don't  stop, now.\n"])
    assert words_of(batch) == ["Do", "n't", "stop", ",", "now", "."]
    assert batch.table.take(pa.array(batch.spaces)).to_pylist() == ["", "  ", "", " ", "", "\n"]


def test_cut_keeps_every_distinct_piece_once() -> None:
    batch = batch_of(["a b a", "b a b"])
    assert sorted(batch.table.to_pylist()) == ["", " ", "a", "b"]


def test_rows_are_numbered_unless_told_otherwise() -> None:
    text = pa.array(["a", "b"], pa.large_string())
    bounds, counts = np.array([0, 1, 0, 1]), np.array([1, 1])
    assert cut(text, bounds, counts).rows.tolist() == [0, 1]
    ids = np.array([5, 2**64 - 1], np.uint64)
    assert cut(text, bounds, counts, ids).rows.tolist() == ids.tolist()


def test_take_repeats_reorders_and_renumbers_rows() -> None:
    batch = batch_of(["one", "two words", "", "x y z"])
    taken = batch.take(np.array([3, 1, 1, 2]), np.array([0, 1, 2, 0], np.int32))
    assert taken.text().to_pylist() == ["x y z", "two words", "two words", ""]
    assert taken.rows.tolist() == [3, 1, 1, 2]
    assert taken.copies.tolist() == [0, 1, 2, 0]
    assert taken.lengths.tolist() == [3, 2, 2, 0]


def test_taking_nothing_gives_an_empty_batch() -> None:
    none = batch_of(["one", "two"]).take(np.arange(0))
    assert len(none) == 0
    assert none.text().to_pylist() == []


def test_exchanging_words_leaves_the_old_batch_alone_and_marks_the_row() -> None:
    batch = batch_of(["a b", "", "c d"])
    codes, table = extend(batch.table, pa.array(["new", "a", "new"]))
    assert table.to_pylist() == [*batch.table.to_pylist(), "new"], "each string once"
    assert codes.tolist() == [len(batch.table), batch.words[0], len(batch.table)]
    done = batch.with_words(np.array([0, 3]), codes[[1, 0]], table, 4)
    assert done.text().to_pylist() == ["a b", "", "c new"]
    assert done.edits.tolist() == [0, 0, 1 << 4], "a word exchanged for itself is untouched"
    assert batch.text().to_pylist() == ["a b", "", "c d"]
    assert not batch.edits.any()


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.integers(0, 2**32))
def test_untouched_characters_survive_an_edit(texts: list[str], seed: int) -> None:
    batch = batch_of(texts)
    at = np.flatnonzero(np.random.default_rng(seed).random(len(batch.words)) < 0.4)
    table = pa.concat_arrays([batch.table, pa.array(["\ue000new\ue000"], pa.large_string())])
    code = np.full(len(at), len(batch.table), np.int32)
    done = batch.with_words(at, code, table, 0)
    # Build the expected text from the untouched pieces, in order.
    words, edited = words_of(batch), set(at.tolist())
    spaces = batch.table.take(pa.array(batch.spaces)).to_pylist()
    leads = batch.table.take(pa.array(batch.lead)).to_pylist()
    for row, text in enumerate(done.text().to_pylist()):
        pieces = [leads[row]]
        for t in range(int(batch.offsets[row]), int(batch.offsets[row + 1])):
            pieces += ["\ue000new\ue000" if t in edited else words[t], spaces[t]]
        assert text == "".join(pieces)
    rows = np.repeat(np.arange(len(batch)), batch.lengths)
    assert np.flatnonzero(done.edits).tolist() == sorted(set(rows[at].tolist()))


def test_spans_number_the_members_of_runs() -> None:
    index, offsets = spans(np.array([5, 0, 9]), np.array([2, 0, 3]))
    assert index.tolist() == [5, 6, 9, 10, 11]
    assert offsets.tolist() == [0, 2, 2, 5]
