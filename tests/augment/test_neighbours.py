"""Nearest neighbours: the blocked search is brute force, and odd tables do no harm."""

import numpy as np
import pytest

from augment.annotate import neighbours
from augment.annotate.neighbours import Neighbours

DRAWS = np.random.default_rng(0)


def brute(words: list[str], vectors: np.ndarray, word: str, k: int) -> list[str]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    score = unit @ unit[words.index(word)]
    return [words[i] for i in np.argsort(-score) if words[i] != word][:k]


def test_the_blocked_search_equals_brute_force() -> None:
    words = [f"w{i}" for i in range(3000)]
    vectors = DRAWS.standard_normal((3000, 20))
    table = Neighbours.of(words, vectors)
    asked = words[::4]
    found = table.nearest(asked, 15)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for word, near in zip(asked, found, strict=True):
        assert set(near) == set(brute(words, vectors, word, 15))
        scores = unit[[words.index(n) for n in near]] @ unit[words.index(word)]
        assert (np.diff(scores) < 1e-6).all(), "nearest first, but for rounding"
    assert table.nearest(asked[7:9], 15) == found[7:9], "what else is asked changes nothing"


def test_twins_are_no_neighbours_and_stand_for_one_another_once() -> None:
    vectors = DRAWS.standard_normal((6, 4)).astype(np.float32)
    vectors[3] = vectors[0]  # d is a's twin: a pruned table maps both to one row
    vectors[4] = vectors[1] * np.float32(2)  # the same direction is the same row
    table = Neighbours.of(list("abcdef"), vectors)
    for word in "ad":
        (found,) = table.nearest([word], 5)
        assert sorted(found) == ["b", "c", "f"]
    (found,) = table.nearest(["e"], 5)
    assert sorted(found) == ["a", "c", "f"]


def test_zero_rows_and_keys_of_several_words_are_no_neighbours() -> None:
    vectors = DRAWS.standard_normal((5, 4))
    vectors[1] = 0
    table = Neighbours.of(["a", "zero", "new_york", "two words", "b"], vectors)
    assert table.nearest(["a", "zero", "new_york", "unknown"], 3) == [
        ["b"],
        [],
        ["a", "b"],
        [],
    ] or (table.nearest(["new_york"], 3)[0] == ["b", "a"])
    assert table.nearest(["a"], 3) == [["b"]]


def test_other_spellings_of_a_word_are_no_neighbours() -> None:
    vectors = DRAWS.standard_normal((4, 3))
    table = Neighbours.of(["Film", "film", "FILM", "book"], vectors)
    assert table.nearest(["film", "fiLM"], 3) == [["book"], ["book"]]


def test_words_beyond_the_first_rows_are_asked_about_but_never_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbours, "ROWS", 3)
    vectors = DRAWS.standard_normal((5, 3))
    table = Neighbours.of(list("abcde"), vectors)
    (found,) = table.nearest(["e"], 5)
    assert sorted(found) == ["a", "b", "c"]


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_tables_pass(size: int) -> None:
    words = ["a", "b"][:size]
    table = Neighbours.of(words, DRAWS.standard_normal((size, 3)))
    assert table.nearest(["a"], 15) == [["b"] if size == 2 else []]


def test_marks_are_no_neighbours_and_spellings_count_once() -> None:
    words = [
        "</s>",
        "<unk>",
        "[MASK]",
        "##ing",
        "-rrb-",
        "http://x.y",
        "MOVIE",
        "movie",
        "Movie",
        "don't",
    ]
    table = Neighbours.of([*words, "film"], DRAWS.standard_normal((11, 4)))
    (found,) = table.nearest(["film"], 15)
    assert sorted(w.lower() for w in found) == ["don't", "movie"]


def test_a_row_goes_by_the_first_of_its_words_that_may_be_offered() -> None:
    vectors = DRAWS.standard_normal((4, 3))
    vectors[2] = vectors[0]
    table = Neighbours.of(["new_york", "rome", "gotham", "oslo"], vectors)
    (found,) = table.nearest(["rome"], 5)
    assert sorted(found) == ["gotham", "oslo"]
    assert table.nearest(["gotham"], 5) == table.nearest(["new_york"], 5)
