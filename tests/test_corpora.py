"""The bundled text is what its README says it is."""

from collections import Counter
from pathlib import Path

import pytest

CORPORA = Path(__file__).parent.parent / "corpora"


def rows(name: str) -> list[list[str]]:
    lines = (CORPORA / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


@pytest.mark.parametrize(("split", "count"), [("train", 600), ("dev", 150), ("test", 250)])
def test_reviews_are_counted_and_balanced(split: str, count: int) -> None:
    labels = Counter(label for _, label in rows(f"reviews/{split}.tsv"))
    assert labels == {"positive": count // 2, "negative": count // 2}


def test_no_review_stands_twice() -> None:
    texts = [
        text.casefold() for s in ("train", "dev", "test") for text, _ in rows(f"reviews/{s}.tsv")
    ]
    assert len(set(texts)) == len(texts) == 1000


def test_reviews_are_not_made_from_a_template() -> None:
    openings = Counter(
        tuple(text.casefold().split()[:4])
        for split in ("train", "dev", "test")
        for text, _ in rows(f"reviews/{split}.tsv")
    )
    assert openings.most_common(1)[0][1] <= 3


@pytest.mark.parametrize(("split", "count"), [("train", 200), ("dev", 40), ("test", 60)])
def test_question_pairs_are_counted_and_balanced(split: str, count: int) -> None:
    labels = Counter(label for *_, label in rows(f"questions/{split}.tsv"))
    assert labels == {"duplicate": count // 2, "different": count // 2}
