"""Building: the counts add up, the guard guards, and however it is run the bytes are the same."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest

import augment as A
from augment.building import Build, build_recipe
from augment.engines.local import Local
from augment.errors import CorpusError, SetError, SettingsError
from augment.files import PLAN
from augment.settings import AugmentSettings, CorpusSettings
from augment.store import Store
from augment.transferset import MANIFEST, TransferSet
from augment.transforms.protocol import as_chain
from augment.unit import fold, units
from augment.verify import verify
from tests.augment.corpus_rows import QUESTIONS, REVIEWS
from tests.augment.laws import toml_of

CHAIN = A.Mask(0.2) >> A.SampleNGram(0.3)
Builder = Callable[..., TransferSet]


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    def builder(
        source: Any = REVIEWS, transform: A.Transform = CHAIN, **options: Any
    ) -> TransferSet:
        options = {"out": tmp_path / "set", "label": "label", "copies": 4, "seed": 7} | options
        return A.build(source, transform, **options)

    return builder


def rows(made: TransferSet, split: str = "train") -> list[dict[str, Any]]:
    return made.read(split).to_pylist()


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): (p.stat().st_mtime_ns, p.read_bytes()) for p in found}


def test_rows_out_are_rows_in_times_copies_less_duplicates_and_guarded(build: Builder) -> None:
    made = build(validation=REVIEWS[:3], copies=20)
    counts = made.manifest.counts
    assert counts["source_rows"] == 40
    assert counts["copies_per_row"] == 20
    assert counts["guarded"] >= 3
    assert counts["duplicates"] > 0
    assert counts["rows"] == 40 * 21 - counts["duplicates"] - counts["guarded"]
    assert counts["rows"] == made.rows() == len(rows(made))


def test_rows_come_in_the_order_source_then_copy(build: Builder) -> None:
    places = [(r["source"], r["copy"]) for r in rows(build(shard_rows=12))]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


def test_copies_inherit_label_and_source_of_their_row(build: Builder) -> None:
    made = build(id="id")
    label = {r["id"]: r["label"] for r in REVIEWS}
    text = {r["id"]: r["text"] for r in REVIEWS}
    for row in rows(made):
        assert row["label"] == label[row["source"]]
        if row["copy"] == 0:
            assert row["text"] == text[row["source"]]
            assert row["ops"] == ""


def test_ops_say_what_changed_a_row(build: Builder) -> None:
    made = build(transform=A.Mask(0.5) >> A.SampleNGram(0.5), copies=10)
    words = Counter(row["ops"] for row in rows(made))
    assert set(words) == {"", "mask", "ngram", "mask,ngram"}
    for row in rows(made):
        assert ("[MASK]" not in row["text"]) or ("mask" in row["ops"])


def test_pairs_cycle_first_second_both(build: Builder) -> None:
    made = build(QUESTIONS, A.Mask(0.5), text=["first", "second"], copies=6)
    for row in rows(made):
        edited = ("[MASK]" in row["first"], "[MASK]" in row["second"])
        source = QUESTIONS[row["source"]]
        if row["copy"] % 3 == 1:
            assert row["second"] == source["second"]
        elif row["copy"] and row["copy"] % 3 == 2:
            assert row["first"] == source["first"]
        elif row["copy"] == 0:
            assert edited == (False, False)
    assert any("[MASK]" in r["first"] and "[MASK]" in r["second"] for r in rows(made))


def test_originals_are_kept_even_among_themselves(build: Builder) -> None:
    made = build([{"text": "same words", "label": i % 2} for i in range(6)], A.Mask(0.0), copies=3)
    assert [(r["source"], r["copy"]) for r in rows(made)] == [(i, 0) for i in range(6)]
    assert made.manifest.counts["duplicates"] == 18


def test_a_copy_equal_to_a_later_original_is_dropped(build: Builder) -> None:
    source = [{"text": "one two", "label": 0}, {"text": "[MASK] [MASK]", "label": 1}]
    made = build(source, A.Mask(1.0), copies=2)
    places = [(r["source"], r["copy"]) for r in rows(made)]
    assert places == [(0, 0), (1, 0), (1, 1)], (
        "of row 0, whose copies read like row 1, none is left"
    )


def test_of_equal_copies_the_first_stays_whichever_shard_it_is_in(build: Builder) -> None:
    source = [{"text": f"{word} end", "label": i % 2} for i, word in enumerate("abcd")]
    made = build(source, A.Mask(1.0), copies=3, shard_rows=1)
    copies = [(r["source"], r["copy"]) for r in rows(made) if r["copy"]]
    assert copies == [(0, 1)]


def test_held_out_rows_are_dropped_whatever_their_case_and_white_space(build: Builder) -> None:
    planted = [
        {"text": "  not  GOOD at\tall. ", "label": 0},
        {"text": "THE CAFÉ ON THE CORNER MAKES THE BEST CRÊPES IN TOWN 😀", "label": 1},
        {"text": "Works as described", "label": 1},  # lacks the full stop: another text
    ]
    made = build(test=planted)
    originals = {r["text"] for r in rows(made) if r["copy"] == 0}
    assert "Not good at all." not in originals
    assert not any(t.startswith("The café on the corner makes") for t in originals)
    assert "Works as described." in originals
    assert len(originals) == 38
    assert made.manifest.counts["guarded"] >= 2
    assert [r["text"] for r in rows(made, "test")] == [p["text"] for p in planted]


def test_the_copies_of_a_held_out_original_go_with_it(build: Builder) -> None:
    source = [{"text": "a good film", "label": 1}, {"text": "a bad film", "label": 0}]
    made = build(source, A.Mask(0.5), validation=[{"text": "A good film"}], copies=30)
    assert {r["source"] for r in rows(made)} == {1}
    assert made.manifest.counts["guarded"] == 31


def test_a_copy_that_becomes_a_held_out_row_is_dropped_too(build: Builder) -> None:
    source = [{"text": "good film", "label": 1}, {"text": "bad film", "label": 0}]
    made = build(source, A.SampleNGram(1.0, longest=1), validation=[{"text": "FILM"}], copies=40)
    assert {r["text"] for r in rows(made)} == {"good film", "bad film", "good", "bad"}
    assert made.manifest.counts["guarded"] > 10


def test_a_pair_is_guarded_only_when_both_texts_agree(build: Builder) -> None:
    held = [{"first": "HOW do I learn to swim?", "second": "How deep is the pool in the park?"}]
    made = build(QUESTIONS, A.Mask(0.0), text=["first", "second"], validation=held)
    assert made.manifest.counts["guarded"] == 5, "one pair and its four copies"
    assert [r["source"] for r in rows(made)] == [0, *range(2, 12)]


def test_the_guard_can_be_switched_off(build: Builder) -> None:
    made = build(validation=REVIEWS[:5], guard=False)
    assert made.manifest.counts["guarded"] == 0
    assert sum(r["copy"] == 0 for r in rows(made)) == 40


def test_a_guard_that_leaves_no_row_is_an_error(build: Builder) -> None:
    with pytest.raises(SetError, match="no row is left"):
        build(validation=REVIEWS, transform=A.Mask(0.0))


def test_folding_folds_case_and_white_space_of_all_scripts() -> None:
    texts = ["  A\tb\n", "Straße", "ÇA  VA", "\u00a0x\u2003y", "", "  ", "İ", "ΣΑΣ"]
    folded = fold(pa.array(texts)).to_pylist()
    assert folded == [" ".join(t.casefold().split()) for t in texts]
    assert fold(pa.array([], pa.large_string())).to_pylist() == []


def test_units_cover_the_source_once() -> None:
    for count, copies, shard in ((40, 4, 10), (40, 4, 10_000), (1, 0, 1), (7, 20, 3)):
        parts = units(count, copies, shard)
        assert [r for u in parts for r in range(u.first, u.last)] == list(range(count))
        assert [u.number for u in parts] == list(range(len(parts)))


def test_no_copies_make_a_set_of_the_originals(build: Builder) -> None:
    assert [r["text"] for r in rows(build(copies=0))] == [r["text"] for r in REVIEWS]


def test_ids_of_the_users_own_are_the_source(build: Builder) -> None:
    named = [r | {"key": f"row-{r['id']}"} for r in REVIEWS]
    made = build(named, id="key")
    assert rows(made)[0]["source"] == "row-0"
    backwards = build(list(reversed(named)), id="key", out=made.path.parent / "backwards")
    texts = lambda m: {(r["source"], r["copy"]): r["text"] for r in rows(m)}
    there, here = texts(backwards), texts(made)
    both = there.keys() & here.keys()
    assert len(both) > 0.95 * len(here), "which of two equal copies goes depends on the order"
    assert all(there[k] == here[k] for k in both), "copies follow the id, not the order of arrival"


def test_held_out_splits_stand_beside_the_copies_untouched(build: Builder) -> None:
    hidden = [{"text": "Unseen, unlabelled.", "label": -1}, {"text": "Unseen as well.", "label": 1}]
    made = build(validation=REVIEWS[:4], test=hidden)
    assert made.splits == ("train", "test", "validation")
    assert [r["label"] for r in rows(made, "test")] == [None, 1]
    assert [r["text"] for r in rows(made, "validation")] == [r["text"] for r in REVIEWS[:4]]


def test_a_dataset_dict_brings_its_held_out_splits(build: Builder) -> None:
    source = datasets.DatasetDict(
        train=datasets.Dataset.from_list(REVIEWS[:30]),
        test=datasets.Dataset.from_list(REVIEWS[30:]),
    )
    made = build(source)
    assert made.splits == ("train", "test")
    assert made.rows("test") == 10


def test_datasets_reads_the_folder_with_its_features(build: Builder) -> None:
    made = build(validation=REVIEWS[:4], classes=["bad", "good"], shard_rows=50)
    loaded = datasets.load_dataset(str(made.path))
    assert set(loaded) == {"train", "validation"}
    train = loaded["train"]
    assert train.features["label"].names == ["bad", "good"]
    assert train.column_names == ["text", "label", "source", "copy", "ops"]
    assert train.to_list() == rows(made)
    stream = datasets.load_dataset(str(made.path), split="train", streaming=True)
    assert list(stream) == rows(made)
    held_out = loaded["validation"].select_columns(["text", "label"]).to_list()
    assert held_out == rows(made, "validation")


def test_the_manifest_tells_how_the_set_was_made(build: Builder) -> None:
    made = TransferSet.open(build(validation=REVIEWS[:4]).path)
    manifest = made.manifest
    assert manifest.recipe["chain"] == "Mask(0.2) >> SampleNGram(0.3)"
    assert manifest.recipe["steps"] == [{"mask": {"rate": 0.2}}, {"ngram": {"rate": 0.3}}]
    assert manifest.seed == 7
    assert manifest.placeholder == "[MASK]"
    assert manifest.teacher is None
    assert manifest.task.classes == ("0", "1")
    assert "pyarrow" in manifest.versions
    assert "Mask(0.2)" in (made.path / "README.md").read_text(encoding="utf-8")
    assert verify(made.path) == []


def test_a_finished_set_is_untouched_by_a_second_run(build: Builder) -> None:
    made = build(shard_rows=50)
    before = files(made.path)
    again = build(shard_rows=50)
    assert files(made.path) == before
    assert again.manifest == made.manifest


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "copies": ({"copies": 5}, "copies was 4, is 5"),
    "seed": ({"seed": 8}, "seed was 7, is 8"),
    "chain": ({"transform": A.Mask(0.3)}, r'chain was "Mask\(0\.2\) >> .*, is "Mask\(0\.3\)"'),
    "rows": ({"source": REVIEWS[:-1]}, "source rows was"),
    "labels": ({"source": [r | {"label": 1 - r["label"]} for r in REVIEWS]}, "source rows was"),
    "held-out": ({"validation": REVIEWS[:3]}, r"held-out rows\.validation was"),
    "guard": ({"guard": False}, "guard was true, is false"),
    "shards": ({"shard_rows": 51}, "shard_rows was 50, is 51"),
    "classes": ({"classes": ["bad", "good"]}, r"task\.classes was"),
    "language": ({"language": "xx"}, 'language was "en", is "xx"'),
}


@pytest.mark.parametrize("state", ["finished", "begun"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_recipe_is_refused_naming_what_changed(
    build: Builder, change: str, state: str
) -> None:
    made = build(shard_rows=50)
    if state == "begun":
        unfinish(made)
    before = files(made.path)
    options, message = CHANGES[change]
    with pytest.raises(SetError, match=message):
        build(**{"shard_rows": 50} | options)
    assert files(made.path) == before


def unfinish(made: TransferSet) -> None:
    """Put a finished set back into the state of a build that was stopped near its end."""
    plan = made.manifest.recipe["plan"]
    (made.path / MANIFEST).unlink()
    (made.path / PLAN).write_text(json.dumps(plan), encoding="utf-8")


def test_a_build_stopped_near_its_end_goes_on_to_the_same_digest(build: Builder) -> None:
    made = build(shard_rows=20)
    unfinish(made)
    shards = sorted((made.path / "data").glob("*.parquet"))
    shards[1].unlink()
    shards[3].write_bytes(b"torn by hand")
    with pytest.raises(SetError, match="unfinished"):
        TransferSet.open(made.path)
    again = build(shard_rows=20)
    assert again.manifest.digest == made.manifest.digest
    assert verify(again.path) == []
    assert not (again.path / PLAN).exists()


class Stopped(Exception):
    """The power went out."""


@dataclass(frozen=True)
class StopsAfter(Local):
    """An engine that dies after some answers, counted over all passes."""

    answers: int = 0

    @contextmanager
    def running(self, job: Any) -> Iterator[Any]:
        def run(function: Any, tasks: Any) -> Iterator[Any]:
            for task in tasks:
                if len(DONE) >= self.answers:
                    raise Stopped
                DONE.append(1)
                yield function(job, task)

        yield run


DONE: list[int] = []


def run(out: Path, engine: Any) -> TransferSet:
    corpus = CorpusSettings(label="label")
    options = AugmentSettings((), copies=4, seed=7, shard_rows=20)
    return Build(corpus, options, as_chain(CHAIN), out, engine, Store(), False).run(
        {"train": REVIEWS, "validation": REVIEWS[:2]}
    )


@pytest.mark.parametrize("answers", [1, 5, 11, 16])
def test_a_build_that_stops_anywhere_goes_on_to_the_digest_of_an_undisturbed_one(
    tmp_path: Path, answers: int
) -> None:
    undisturbed = run(tmp_path / "whole", Local(1)).manifest
    for later in (answers, answers + 3):  # it dies twice
        DONE.clear()
        with pytest.raises(Stopped):
            run(tmp_path / "set", StopsAfter(answers=later))
        with pytest.raises(SetError, match="unfinished"):
            TransferSet.open(tmp_path / "set")
    resumed = run(tmp_path / "set", Local(1))
    assert resumed.manifest.digest == undisturbed.digest
    assert resumed.manifest.counts == undisturbed.counts
    assert verify(resumed.path) == []
    assert sorted(p.name for p in resumed.path.iterdir()) == ["README.md", "data", MANIFEST]


def test_a_stopped_build_leaves_no_spooled_rows_behind(tmp_path: Path) -> None:
    DONE.clear()
    with pytest.raises(Stopped):
        run(tmp_path / "set", StopsAfter(answers=3))
    assert not (tmp_path / "set" / ".work").exists()


def test_a_folder_that_holds_something_else_is_refused(build: Builder, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "thesis.tex").write_text("years of work")
    with pytest.raises(SetError, match="not empty and not a transfer set"):
        build()
    assert (tmp_path / "set" / "thesis.tex").read_text() == "years of work"


def test_a_failed_build_can_be_run_again_into_the_same_folder(build: Builder) -> None:
    with pytest.raises(CorpusError):
        build(label="gold")
    assert build().rows() > 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"copies": -1}, "copies is a count of at least 0, got -1"),
        ({"workers": 0}, "workers is a count of at least 1, got 0"),
        ({"text": ["a", "b", "c"]}, "one or two columns, got 3"),
        ({"shard_rows": 0}, "shard_rows is a count"),
        ({"seed": 2**64}, "seed is a 64-bit integer"),
        ({"language": "qq"}, "language 'qq'"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_written(
    build: Builder, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        build(**options)
    assert not (tmp_path / "set" / PLAN).exists()


@pytest.mark.parametrize("task", ["regresion", "tagging"])
def test_an_unknown_task_is_refused(build: Builder, task: str) -> None:
    with pytest.raises(SettingsError, match=task):
        build(task=task)


def test_regression_scores_are_inherited(build: Builder) -> None:
    scored = [{"text": r["text"], "score": r["id"] / 4} for r in REVIEWS]
    made = build(scored, label="score", task="regression")
    assert made.task.outputs == 1
    assert all(r["label"] == r["source"] / 4 for r in rows(made))
    assert datasets.load_dataset(str(made.path))["train"].features["label"].dtype == "float64"


def test_replacing_by_tag_is_fitted_on_the_source_by_build_itself(
    build: Builder, tagger: str
) -> None:
    made = build(transform=A.ReplacePOS(0.5, tagger=tagger))
    words = {w for r in REVIEWS for w in A.Mask(0.0)(r["text"])[0].split()}
    copies = [r for r in rows(made) if r["copy"]]
    assert len(copies) > 100
    assert all(set(r["ops"].split(",")) <= {"", "replace_pos"} for r in copies)
    assert words


def test_every_text_is_read_once_however_often_a_set_is_built(
    build: Builder, own_store: Path, tagger: str, tmp_path: Path
) -> None:
    build(transform=A.ReplacePOS(0.5, tagger=tagger))
    before = files(own_store)
    build(transform=A.ReplacePOS(0.2, tagger=tagger), out=tmp_path / "other", seed=9)
    assert files(own_store) == before


def test_a_recipe_builds_what_the_function_builds(build: Builder, tmp_path: Path) -> None:
    lines = [json.dumps(r, ensure_ascii=False) for r in REVIEWS]
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[corpus]\ntrain = "train.jsonl"\nlabel = "label"\n'
        f"[augment]\ncopies = 4\nseed = 7\n{toml_of(A.to_steps(CHAIN))}",
        encoding="utf-8",
    )
    assert build_recipe(recipe, tmp_path / "by-recipe").manifest.digest == build().manifest.digest


def test_verify_names_what_is_wrong(build: Builder) -> None:
    made = build(shard_rows=50)
    shard, other = sorted((made.path / "data").glob("*.parquet"))[:2]
    shard.write_bytes(shard.read_bytes()[:-1] + b"X")
    other.unlink()
    (made.path / "data" / "train-99999.parquet").write_bytes(b"")
    problems = "\n".join(verify(made.path))
    assert f"data/{shard.name}: its bytes are not those" in problems
    assert f"data/{other.name}: missing" in problems
    assert "train-99999.parquet: not in the manifest" in problems
    assert "augment build again" in problems


def test_a_second_build_in_one_process_reads_the_second_corpus(tmp_path: Path) -> None:
    for texts in (["one two three", "four five"], ["six seven eight", "nine ten"]):
        made = A.build(texts, A.Mask(0.5), copies=1, out=tmp_path / "set")
        originals = [r["text"] for r in rows(made) if r["copy"] == 0]
        assert originals == texts
        shutil.rmtree(tmp_path / "set")


def test_shards_an_interrupted_build_left_whole_are_not_made_again(build: Builder) -> None:
    made = build(shard_rows=40)
    shards = sorted((made.path / "data").glob("train-*.parquet"))
    assert len(shards) > 2
    plan = made.manifest.recipe["plan"]
    (made.path / "plan.json").write_text(json.dumps(plan))
    (made.path / "manifest.json").unlink()
    shards[1].unlink()
    before = {p.name: p.stat().st_mtime_ns for p in shards if p.exists()}
    again = build(shard_rows=40)
    after = {p.name: p.stat().st_mtime_ns for p in shards}
    assert {name: after[name] for name in before} == before
    assert again.manifest.digest == made.manifest.digest


def test_a_text_column_may_not_have_a_name_the_set_keeps_for_itself(tmp_path: Path) -> None:
    rows_ = [{"source": "a", "target": "b"}]
    with pytest.raises(SettingsError, match="keeps the name 'source' for itself"):
        A.build(rows_, A.Mask(0.1), text=["source", "target"], out=tmp_path / "set")


def test_a_split_that_would_be_left_out_is_refused(tmp_path: Path) -> None:
    data = datasets.Dataset.from_list(REVIEWS)
    source = datasets.DatasetDict(train=data, validation_matched=data)
    with pytest.raises(SettingsError, match="validation_matched would be left out"):
        A.build(source, A.Mask(0.1), label="label", out=tmp_path / "set")


def test_a_shard_of_another_plan_is_not_taken_over(build: Builder, tmp_path: Path) -> None:
    made = build(shard_rows=40)
    other = build(shard_rows=40, out=tmp_path / "other", seed=8)
    (made.path / "plan.json").write_text(json.dumps(made.manifest.recipe["plan"]))
    (made.path / "manifest.json").unlink()
    for shard in (other.path / "data").glob("train-*.parquet"):
        shutil.copy(shard, made.path / "data" / shard.name)  # as a late worker would leave it
    assert build(shard_rows=40).manifest.digest == made.manifest.digest
