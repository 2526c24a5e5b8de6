"""Labelling: every distinct text is put to the teacher once, ever, and every row gets its logits."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

import augment as A
from augment.errors import SetError, SettingsError, TeacherError
from augment.files import PLAN
from augment.labelling import Labelling
from augment.store import Store
from augment.teacher import class_order
from augment.transferset import MANIFEST, TransferSet
from augment.verify import verify
from tests.augment.corpus_rows import QUESTIONS, REVIEWS
from tests.augment.stub import StubTeacher

CHAIN = A.Mask(0.2) >> A.SampleNGram(0.3)
PAIR = ("first", "second")

pytestmark = pytest.mark.usefixtures("own_store")


@pytest.fixture
def build(tmp_path: Path, shared_store: Path) -> Callable[..., TransferSet]:
    def builder(name: str = "set", source: Any = REVIEWS, **options: Any) -> TransferSet:
        options = {"label": "label", "copies": 3, "seed": 7, "validation": REVIEWS[:6],
                   "guard": False, "shard_rows": 50, "store": shared_store} | options  # fmt: skip
        return A.build(source, options.pop("transform", CHAIN), out=tmp_path / name, **options)

    return builder


@pytest.fixture
def label(tmp_path: Path) -> Callable[..., Labelling]:
    def labeller(
        made: TransferSet, teacher: Any, name: str = "labelled", **options: Any
    ) -> Labelling:
        with warnings.catch_warnings():
            # A stub knows nothing, so it may well be worse than chance.
            warnings.filterwarnings("ignore", "the teacher is right on")
            return A.label(made.path, teacher, tmp_path / name, **options)

    return labeller


def rows(made: TransferSet, split: str = "train") -> list[dict[str, Any]]:
    return made.read(split).to_pylist()


def test_every_row_of_every_split_gets_the_logits_of_its_text(build: Any, label: Any) -> None:
    teacher = StubTeacher()
    done = label(build(), teacher).set
    for split in ("train", "validation"):
        for row in rows(done, split):
            assert row["logits"] == teacher.opinion((row["text"],)).tolist()


def test_labelling_adds_a_column_and_changes_no_other(build: Any, label: Any) -> None:
    made = build()
    done = label(made, StubTeacher()).set
    for split in made.splits:
        assert done.read(split).drop_columns("logits").to_pylist() == rows(made, split)
    assert done.manifest.counts == made.manifest.counts
    assert done.manifest.digest != made.manifest.digest
    assert verify(done.path) == []


def test_each_distinct_text_is_asked_once(build: Any, label: Any) -> None:
    teacher = StubTeacher()
    done = label(build(), teacher)
    texts = {(r["text"],) for split in ("train", "validation") for r in rows(done.set, split)}
    assert len(teacher.asked) == len(texts) == done.texts == done.asked
    assert set(teacher.asked) == texts


def test_the_second_labelling_calls_the_teacher_zero_times(build: Any, label: Any) -> None:
    first = label(build(), StubTeacher())
    teacher = StubTeacher()
    second = label(build(), teacher, "again")
    assert teacher.asked == []
    assert (second.asked, second.known) == (0, second.texts)
    assert second.set.manifest.digest == first.set.manifest.digest


def test_labelling_into_a_finished_set_asks_and_writes_nothing(build: Any, label: Any) -> None:
    done = label(build(), StubTeacher()).set
    stamps = {p: p.stat().st_mtime_ns for p in done.path.rglob("*")}
    teacher = StubTeacher()
    assert label(build(), teacher).set.manifest == done.manifest
    assert teacher.asked == []
    assert {p: p.stat().st_mtime_ns for p in done.path.rglob("*")} == stamps


def test_a_set_built_with_other_settings_labels_only_its_unseen_texts(
    build: Any, label: Any
) -> None:
    first = label(build(), StubTeacher()).set
    teacher = StubTeacher()
    more = label(build("more", copies=6), teacher, "more-labelled")
    seen = {(r["text"],) for split in first.splits for r in rows(first, split)}
    asked = set(teacher.asked)
    assert not asked & seen
    assert more.asked == len(asked) == more.texts - more.known > 0
    assert {(r["text"],) for s in more.set.splits for r in rows(more.set, s)} == seen | asked


@pytest.mark.parametrize("window", [9, 40, 200_000])
def test_the_window_changes_nothing(build: Any, label: Any, window: int) -> None:
    teacher = StubTeacher()
    done = label(build(), teacher, window=window)
    assert len(teacher.asked) == done.texts
    assert all(r["logits"] == teacher.opinion((r["text"],)).tolist() for r in rows(done.set))


def test_pairs_are_one_question_to_the_teacher(build: Any, label: Any) -> None:
    teacher = StubTeacher()
    made = build(source=QUESTIONS, text=list(PAIR), validation=None)
    done = label(made, teacher).set
    assert all(len(texts) == 2 for texts in teacher.asked)
    for row in rows(done):
        assert row["logits"] == teacher.opinion((row["first"], row["second"])).tolist()


class Interrupted(Exception):
    """The power went out."""


class Failing(StubTeacher):
    def logits(self, columns: Any) -> Any:
        for number, answer in enumerate(super().logits(columns)):
            if number == 1:
                raise Interrupted
            yield answer


def test_a_stopped_labelling_goes_on_and_asks_no_stored_text_again(
    build: Any, label: Any, tmp_path: Path
) -> None:
    made = build()
    for _ in range(2):
        with pytest.raises(Interrupted):
            label(made, Failing(), window=40)
    with pytest.raises(SetError, match="unfinished"):
        TransferSet.open(tmp_path / "labelled")
    teacher = StubTeacher()
    done = label(made, teacher)
    whole = label(made, StubTeacher(), "undisturbed", store=tmp_path / "other-store")
    assert done.set.manifest.digest == whole.set.manifest.digest
    assert done.known + done.asked == done.texts
    assert not (done.set.path / PLAN).exists()


def test_logits_given_before_the_teacher_failed_are_kept(build: Any, label: Any) -> None:
    made = build()
    with pytest.raises(Interrupted):
        label(made, Failing(), window=40)
    space = [r for r in Store().stats() if r["about"].get("what") == "logits"]
    assert sum(r["entries"] for r in space) > 0


def test_another_teacher_is_another_namespace(build: Any, label: Any) -> None:
    label(build(), StubTeacher())
    other = StubTeacher(identity="other weights")
    assert label(build(), other, "other").known == 0
    assert other.asked


def test_a_finished_set_of_another_teacher_is_refused(build: Any, label: Any) -> None:
    label(build(), StubTeacher())
    teacher = StubTeacher(identity="other")
    with pytest.raises(SetError, match=r"begun with other settings \(teacher was"):
        label(build(), teacher)
    assert teacher.asked == []


def test_a_finished_set_of_another_source_is_refused(build: Any, label: Any) -> None:
    label(build(), StubTeacher())
    with pytest.raises(SetError, match=r"begun with other settings \(train rows was"):
        label(build("more", copies=5), StubTeacher())


def test_a_source_whose_held_out_rows_differ_is_another_source(build: Any, label: Any) -> None:
    # The guard is off, so train is the same; the held-out rows are not.
    label(build(), StubTeacher())
    other = build("other", validation=REVIEWS[6:12])
    with pytest.raises(SetError, match="begun with other settings"):
        label(other, StubTeacher())


def test_a_source_whose_classes_are_renamed_is_another_source(build: Any, label: Any) -> None:
    label(build(), StubTeacher())
    other = build("other", classes=["bad", "good"])
    with pytest.raises(SetError, match="begun with other settings"):
        label(other, StubTeacher())


def test_labelling_never_writes_into_its_source(build: Any, label: Any, tmp_path: Path) -> None:
    made, teacher = build(), StubTeacher()
    before = {p: p.read_bytes() for p in made.path.rglob("*") if p.is_file()}
    for name in ("set", "./set/", "x/../set"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(SetError, match="a finished set is never edited"):
            label(made, teacher, name)
    label(made, teacher)
    assert {p: p.read_bytes() for p in made.path.rglob("*") if p.is_file()} == before


def test_labelling_into_a_folder_of_something_else_is_refused(
    build: Any, label: Any, tmp_path: Path
) -> None:
    (tmp_path / "labelled").mkdir()
    (tmp_path / "labelled" / "notes.txt").write_text("mine")
    with pytest.raises(SetError, match="not empty and not a transfer set"):
        label(build(), StubTeacher())


def test_a_labelled_or_unfinished_source_is_refused(build: Any, label: Any) -> None:
    made = build()
    done = label(made, StubTeacher()).set
    with pytest.raises(SetError, match="labelled already"):
        label(done, StubTeacher(), "twice")
    (made.path / MANIFEST).unlink()
    with pytest.raises(SetError, match="unfinished"):
        label(made, StubTeacher(), "never")


NLI = ("entailment", "neutral", "contradiction")
TURNED = ("contradiction", "entailment", "neutral")


@pytest.fixture
def nli(build: Any) -> TransferSet:
    source = [r | {"label": NLI[i % 3]} for i, r in enumerate(REVIEWS)]
    made: TransferSet = build(source=source, classes=NLI, validation=source[:9])
    return made


def test_classes_in_another_order_are_refused_before_the_first_call(
    nli: TransferSet, label: Any
) -> None:
    teacher = StubTeacher(TURNED)
    with pytest.raises(TeacherError) as error:
        label(nli, teacher)
    assert teacher.asked == []
    assert str(error.value) == (
        "teacher 'stub' orders its labels (contradiction, entailment, neutral), the corpus "
        '(entailment, neutral, contradiction); pass label_map = "by-name" to reorder, '
        "or fix the teacher's config"
    )


def test_classes_reordered_by_name_give_each_class_its_own_logit(
    nli: TransferSet, label: Any
) -> None:
    teacher = StubTeacher(TURNED)
    done = label(nli, teacher, label_map="by-name").set
    assert done.task.classes == NLI
    for split in done.splits:
        for row in rows(done, split):
            named = dict(zip(TURNED, teacher.opinion((row["text"],)).tolist(), strict=True))
            assert row["logits"] == [named[c] for c in NLI]


def test_reordering_asks_nothing_again(nli: TransferSet, label: Any) -> None:
    label(nli, StubTeacher(TURNED), label_map="by-name")
    teacher = StubTeacher(TURNED)
    label(nli, teacher, "again", label_map="by-name")
    assert teacher.asked == []


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("0", "1"), "knows 2 classes .* the corpus 3"),
        (("yes", "no", "maybe"), r"names its classes \(yes, no, maybe\)"),
        ((), "gives one number, the corpus has classes"),
    ],
)
def test_a_teacher_of_other_classes_is_refused_before_the_first_call(
    nli: TransferSet, label: Any, classes: tuple[str, ...], message: str
) -> None:
    teacher = StubTeacher(classes)
    for label_map in ("refuse", "by-name"):
        with pytest.raises(TeacherError, match=message):
            label(nli, teacher, label_map=label_map)
    assert teacher.asked == []


def test_a_classifier_is_refused_for_a_regression(build: Any, label: Any) -> None:
    scored = [{"text": r["text"], "score": r["id"] / 4} for r in REVIEWS]
    made = build(source=scored, label="score", task="regression", validation=None)
    teacher = StubTeacher()
    with pytest.raises(TeacherError, match="the corpus is a regression"):
        label(made, teacher)
    assert teacher.asked == []
    done = label(made, StubTeacher(())).set
    assert all(len(r["logits"]) == 1 for r in rows(done))


def test_class_order_by_hand() -> None:
    assert class_order(NLI, NLI, "refuse", "t") == [0, 1, 2]
    assert class_order(TURNED, NLI, "by-name", "t") == [1, 2, 0]
    assert class_order(("LABEL_0", "LABEL_1", "LABEL_2"), NLI, "refuse", "t") == [0, 1, 2]
    assert class_order(NLI, ("0", "1", "2"), "refuse", "t") == [0, 1, 2]
    assert class_order(
        ("Not Entailment", "ENTAILMENT"), ("not_entailment", "entailment"), "refuse", "t"
    ) == [0, 1]
    assert class_order(NLI, (), "refuse", "t") == [0, 1, 2], (
        "a corpus without labels takes them all"
    )


def test_the_same_names_written_as_labels_out_of_order_are_not_taken_as_they_stand() -> None:
    # LABEL_1, LABEL_0 does say something: that the order is turned.
    with pytest.raises(TeacherError):
        class_order(("LABEL_1", "LABEL_0"), ("LABEL_0", "LABEL_1"), "refuse", "t")
    assert class_order(("LABEL_1", "LABEL_0"), ("LABEL_0", "LABEL_1"), "by-name", "t") == [1, 0]


def test_a_teacher_worse_than_chance_is_warned_about(build: Any, tmp_path: Path) -> None:
    made = build(validation=REVIEWS)
    truth = {r["text"]: r["label"] for r in REVIEWS}

    class Contrary(StubTeacher):
        def opinion(self, text: tuple[str, ...]) -> Any:
            right = truth.get(text[0], 0)
            return np.array([right, 1 - right], np.float32)

    with pytest.warns(UserWarning, match=r"right on 0\.0% of validation, below chance"):
        done = A.label(made.path, Contrary(), tmp_path / "labelled")
    assert done.accuracy == {"validation": 0.0}


def test_the_teachers_accuracy_counts_labelled_held_out_rows_only(build: Any, label: Any) -> None:
    hidden = [REVIEWS[0], REVIEWS[1] | {"label": -1}]
    done = label(build(validation=hidden, test=[{"text": "x", "label": -1}]), StubTeacher())
    teacher = StubTeacher()
    right = teacher.opinion((REVIEWS[0]["text"],)).argmax() == REVIEWS[0]["label"]
    assert done.accuracy == {"validation": float(right)}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_refused_and_not_stored(
    build: Any, label: Any, value: float
) -> None:
    class Broken(StubTeacher):
        def opinion(self, text: tuple[str, ...]) -> Any:
            return np.array([value, 0], np.float32)

    with pytest.raises(TeacherError, match="not finite"):
        label(build(), Broken())
    assert StubTeacher().identity
    teacher = StubTeacher()
    assert label(build(), teacher).known == 0


def test_datasets_reads_the_logits_of_every_split(build: Any, label: Any) -> None:
    done = label(build(), StubTeacher()).set
    loaded = datasets.load_dataset(str(done.path))
    for split in done.splits:
        assert loaded[split]["logits"][:] == [r["logits"] for r in rows(done, split)]
    assert loaded["train"].features["logits"].length == 2
    stream = datasets.load_dataset(str(done.path), split="train", streaming=True)
    assert next(iter(stream)) == rows(done)[0]


def test_the_manifest_names_the_teacher_and_its_precision(build: Any, label: Any) -> None:
    done = label(build(), StubTeacher()).set
    taught = json.loads((done.path / MANIFEST).read_text(encoding="utf-8"))["teacher"]
    assert (taught["name"], taught["precision"]) == ("stub", "fp32")
    assert "labelled by `stub`" in (done.path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window is a number above 0, got 0"),
        ({"threads": 0}, "threads is a number above 0, got 0"),
        ({"precision": "fp8"}, "precision.*fp8"),
        ({"label_map": "by_name"}, "label_map.*by_name"),
    ],
)
def test_a_wrong_setting_is_refused_before_the_first_call(
    build: Any, label: Any, options: dict[str, Any], message: str
) -> None:
    teacher = StubTeacher()
    with pytest.raises(SettingsError, match=message):
        label(build(), teacher, **options)
    assert teacher.asked == []
