"""Showing a set: what changed is marked, and no more is printed than asked."""

from pathlib import Path

import augment as A
from augment.show import differences, lines
from tests.augment.corpus_rows import QUESTIONS, REVIEWS


def styled(original: str, copy: str) -> list[tuple[str, str]]:
    text = differences(original, copy)
    return [(text.plain[s.start : s.end], str(s.style)) for s in text.spans]


def test_new_words_masks_and_what_went_are_told_apart() -> None:
    assert styled("a good film", "a [MASK] film") == [
        ("good", "dim strike red"),
        ("[MASK]", "bold yellow"),
    ]
    assert ("bad", "bold green") in styled("a good film", "a bad film")
    assert [style for _, style in styled("a good film", "good")] == ["dim strike red"] * 2
    assert styled("same", "same") == []


def test_texts_that_look_like_markup_are_printed_as_they_are() -> None:
    assert differences("[red]x[/red] [bold", "[red]x[/red] [bold").plain == "[red]x[/red] [bold"


def test_no_more_originals_and_copies_are_shown_than_asked(tmp_path: Path) -> None:
    made = A.build(
        REVIEWS, A.Mask(0.4), label="label", copies=6, shard_rows=20, out=tmp_path / "set"
    )
    shown = [line.plain for line in lines(made, rows=3, copies=2, first=37)]
    headings = [line for line in shown if line.startswith("\n")]
    assert [line.split()[0] for line in headings] == ["37", "38", "39"]
    assert all(f"label {REVIEWS[37 + i]['label']}" in line for i, line in enumerate(headings))
    assert [line.split()[0] for line in shown if line not in headings] == ["1", "2"] * 3
    assert list(lines(made, first=40)) == []


def test_both_columns_of_a_pair_are_shown(tmp_path: Path) -> None:
    columns = ["first", "second"]
    made = A.build(QUESTIONS, A.Mask(0.5), text=columns, copies=3, out=tmp_path / "set")
    heading = next(iter(lines(made, rows=1))).plain
    assert QUESTIONS[0]["first"] in heading
    assert QUESTIONS[0]["second"] in heading
