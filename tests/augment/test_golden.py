"""One corpus, one recipe, one digest: however it is cut, spread or handed in, and in years to come.

The tags are fixed by rules (see the fixture ``tagger``), so that no tagger's release can change
these digests; a release that changes them changes users' results and says so in the CHANGELOG.
"""

import csv
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import augment as A
from augment.digest import content_digest
from augment.transferset import TransferSet
from tests.augment.corpus_rows import QUESTIONS, REVIEWS
from tests.augment.golden import GOLDEN, build
from tests.augment.stub import StubTeacher


@pytest.fixture(scope="module")
def once(tagger: str, tmp_path_factory: pytest.TempPathFactory) -> TransferSet:
    return build(tmp_path_factory.mktemp("once") / "set", tagger)


def test_the_digest_of_single_texts_is_pinned(once: TransferSet) -> None:
    assert once.manifest.digest == GOLDEN["reviews"]


def test_the_digest_of_pairs_is_pinned(tagger: str, tmp_path: Path) -> None:
    made = build(tmp_path / "set", tagger, QUESTIONS, text=["first", "second"], validation=None)
    assert made.manifest.digest == GOLDEN["questions"]


def test_the_digest_of_a_labelled_set_is_pinned(once: TransferSet, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the teacher is right on")
        done = A.label(once.path, StubTeacher(), tmp_path / "labelled", store=tmp_path / "store")
    assert done.set.manifest.digest == GOLDEN["labelled"]


@pytest.mark.parametrize("shard_rows", [10, 21 * 7, 10_000])
def test_the_size_of_a_shard_changes_nothing(
    once: TransferSet, tagger: str, tmp_path: Path, shard_rows: int
) -> None:
    made = build(tmp_path / "set", tagger, shard_rows=shard_rows)
    assert made.manifest.digest == once.manifest.digest
    assert made.read().equals(once.read())
    shards = len(made.manifest.splits["train"])
    assert shards == {10: 39, 147: 6, 10_000: 1}[shard_rows]


def as_csv(folder: Path) -> Path:
    with open(folder / "rows.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text", "label"])
        writer.writeheader()
        writer.writerows(REVIEWS)
    return folder / "rows.csv"


def as_jsonl(folder: Path) -> Path:
    lines = (json.dumps(r, ensure_ascii=False) for r in REVIEWS)
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "rows.jsonl"


def as_parquet(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(REVIEWS), folder / "rows.parquet", row_group_size=9)
    return folder / "rows.parquet"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "list of dicts": lambda folder: REVIEWS,
    "generator": lambda folder: (row for row in REVIEWS),
    "Dataset": lambda folder: datasets.Dataset.from_list(REVIEWS),
    "IterableDataset": lambda folder: datasets.Dataset.from_list(REVIEWS).to_iterable_dataset(4),
    "Arrow table": lambda folder: pa.Table.from_pylist(REVIEWS),
    "Parquet": as_parquet,
    "csv": as_csv,
    "jsonl": as_jsonl,
}


@pytest.mark.parametrize("id", [None, "id"], ids=["by row number", "by id"])
@pytest.mark.parametrize("kind", SOURCES)
def test_the_kind_of_source_changes_nothing(
    once: TransferSet, tagger: str, tmp_path: Path, kind: str, id: str | None
) -> None:
    made = build(tmp_path / "set", tagger, SOURCES[kind](tmp_path), id=id)
    assert made.manifest.digest == once.manifest.digest
    assert made.manifest.source == once.manifest.source


def test_a_shuffled_stream_with_ids_gives_every_row_the_same_copies(
    once: TransferSet, tagger: str, tmp_path: Path
) -> None:
    stream = datasets.Dataset.from_list(REVIEWS).shuffle(seed=3).to_iterable_dataset(4)
    made = build(tmp_path / "set", tagger, stream, id="id")
    texts = lambda m: {(r["source"], r["copy"]): r["text"] for r in m.read().to_pylist()}
    there, here = texts(made), texts(once)
    both = there.keys() & here.keys()
    assert len(both) > 0.9 * len(here), "which of two equal copies goes depends on the order"
    assert all(there[k] == here[k] for k in both)


def test_an_empty_or_a_warm_store_changes_nothing(
    once: TransferSet, tagger: str, tmp_path: Path
) -> None:
    for name in ("cold", "warm"):
        made = build(tmp_path / name, tagger, store=tmp_path / "store")
        assert made.manifest.digest == once.manifest.digest


def test_the_content_digest_is_free_of_chunks_and_feels_every_cell() -> None:
    table = pa.table({"text": ["ab", "c", ""], "label": [0, 1, None], "x": [0.5, 1.5, 2.5]})
    digest = content_digest([table])
    assert content_digest(table.to_batches(max_chunksize=1)) == digest
    assert content_digest([table.slice(0, 1), table.slice(1)]) == digest
    large = table.set_column(0, "text", table["text"].cast(pa.large_string()))
    assert content_digest([large]) == digest
    others = [
        {"text": ["a", "bc", ""], "label": [0, 1, None], "x": [0.5, 1.5, 2.5]},
        {"text": ["ab", "c", ""], "label": [0, 1, 0], "x": [0.5, 1.5, 2.5]},
        {"text": ["ab", "c", None], "label": [0, 1, None], "x": [0.5, 1.5, 2.5]},
        {"text": ["ab", "c", ""], "label": [0, 1, None], "x": [0.5, 1.5, 2.0]},
        {"text": ["ab", "c", ""], "label": [0, 1, None], "y": [0.5, 1.5, 2.5]},
        {"text": ["c", "ab", ""], "label": [0, 1, None], "x": [0.5, 1.5, 2.5]},
    ]
    digests = {content_digest([pa.table(o)]) for o in others}
    assert len(digests | {digest}) == len(others) + 1
