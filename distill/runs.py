"""Run folders: a student trained on a transfer set, with everything needed to use and judge it.

A run is a plain transformers folder (weights, config, tokenizer) and ``run.json``, which is
written last: a folder without it is unfinished.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc
import torch

from augment.files import begin, claimed, compare, finish, settle
from augment.rawtext import file_of
from augment.settings import model_folder
from augment.transferset import TransferSet
from distill.curriculum import go_through
from distill.errors import RunError, StageError
from distill.evaluation import evaluate
from distill.examples import Examples, read_examples
from distill.losses import StageResult
from distill.models import teachers
from distill.recipe import DEFAULT_STAGES, StageSettings, StudentSettings
from distill.resume import STATE, read, save
from distill.stages import TinyBERTSettings, TransformerStage
from distill.students.bilstm import BiLSTMForSequenceClassification
from distill.students.build import Vocabulary, bilstm, vocabulary
from distill.trainer import check, run_stage

FORMAT = 1
RUN = "run.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: its folder and what ``run.json`` says."""

    path: Path
    record: dict[str, Any]

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics by held-out split."""
        found: dict[str, dict[str, float]] = self.record["metrics"]
        return found

    @classmethod
    def open(cls, path: str | Path) -> "Run":
        """Open a finished run.

        Raises:
            RunError: no such folder, or its training never finished.
        """
        path = Path(path)
        try:
            record = json.loads((path / RUN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(
                f"{path}: no {RUN}, so this is no finished run; see: distill train"
            ) from None
        except (OSError, ValueError) as error:
            raise RunError(f"{path / RUN}: cannot be read: {error}") from error
        if record.get("format") != FORMAT:
            raise RunError(
                f"{path / RUN}: format {record.get('format')}, this version reads {FORMAT}"
            )
        return cls(path, record)


@dataclass(frozen=True, slots=True)
class Material:
    """A transfer set made ready for students: words, vectors and tokens, read once."""

    source: TransferSet
    words: Vocabulary
    splits: dict[str, Examples]

    @property
    def problem(self) -> Literal["single_label_classification", "regression"]:
        """The task in transformers' words."""
        regression = self.source.task.kind == "regression"
        return "regression" if regression else "single_label_classification"


def prepare(transfer_set: TransferSet, student: StudentSettings) -> Material:
    """Learn the vocabulary of the originals, look vectors up and tokenise every split."""
    pair = len(transfer_set.text) == 2
    table = transfer_set.read("train", columns=[*transfer_set.text, "copy"])
    table = table.filter(pc.equal(table["copy"], 0))  # copies would count every word many times
    texts = [text for name in transfer_set.text for text in table[name].to_pylist()]
    words = vocabulary(
        texts,
        pair=pair,
        vectors=student.vectors,
        dims=student.dims,
        min_count=student.min_count,
        max_words=student.max_words,
    )
    longest = student.max_words * (2 if pair else 1)
    splits = {
        split: read_examples(transfer_set, split, words.tokenizer, max_tokens=longest)
        for split in transfer_set.splits
    }
    return Material(transfer_set, words, splits)


def new_student(
    material: Material, student: StudentSettings, *, seed: int
) -> BiLSTMForSequenceClassification:
    """Return an untrained student for the set; the same seed gives the same weights."""
    task = material.source.task
    return bilstm(
        material.words,
        classes=task.classes,
        problem=material.problem,
        pair=len(material.source.text) == 2,
        hidden=student.hidden,
        head=student.head,
        channels=student.channels,
        dropout=student.dropout,
        seed=seed,
    )


def train(
    transfer_set: TransferSet | str | Path | None,
    *,
    out: str | Path,
    student: StudentSettings | TinyBERTSettings | None = None,
    stages: Sequence[StageSettings] | Sequence[TransformerStage] = DEFAULT_STAGES,
    show: bool | None = None,
) -> Run:
    """Train a student on a transfer set, evaluate it on the held-out splits, write the run.

    A finished run in ``out`` with the same settings and the same set is returned as it is; a
    killed one goes on from its last checkpoint. Where every stage reads raw text, no set is needed:
    the run then has no metrics, and its folder is an encoder that other students start from.

    Args:
        transfer_set: a finished set, or its folder; None where every stage reads raw text.
        out: the run's folder; new, empty, or an earlier run of the same settings.
        student: its shape; a BiLSTM with the paper's sizes by default.
        stages: what to learn from, in order, of the student's kind; by default, for a BiLSTM,
            the teacher's logits, three epochs.
        show: a progress bar; by default on terminals only.

    Raises:
        SetError: the set is unfinished.
        StageError: a stage needs logits or labels that the set lacks, or a set where none is given.
        CorpusError: a raw text cannot be read.
        RunError: ``out`` holds something else.
        StudentError: the word vectors cannot be read.
    """
    opened = None if transfer_set is None else TransferSet.of(transfer_set)
    student = student or StudentSettings()
    _refuse_other_kind(student, stages)
    if opened is None:
        _refuse_setless(stages)
    plan = _plan(opened, student, stages)
    folder = Path(out)
    with claimed(folder, "a run", RUN, RunError):
        if (folder / RUN).exists():
            done = Run.open(folder)
            compare(folder, done.record, plan, RunError)
            settle(folder, STATE)
            return done
        _refuse_early(opened, stages)
        begin(folder, plan, RunError)
        record = plan | _trained(opened, student, stages, folder, show)
        finish(folder / RUN, record)
        settle(folder, STATE)
    return Run(folder, record)


def _trained(
    opened: TransferSet | None,
    student: StudentSettings | TinyBERTSettings,
    stages: Sequence[Any],
    folder: Path,
    show: bool | None,
) -> dict[str, Any]:
    if isinstance(student, StudentSettings):
        assert opened is not None
        return _train(opened, student, stages, folder, show)
    done = go_through(opened, student, stages, folder, show=show)
    place = {} if opened is None else {"trained_on": str(opened.path.resolve())}
    return place | _outcome({"words": done.words}, done.results, done.metrics)


def _train(
    opened: TransferSet,
    student: StudentSettings,
    stages: Sequence[StageSettings],
    folder: Path,
    show: bool | None,
) -> dict[str, Any]:
    material = prepare(opened, student)
    for stage in stages:
        objective = stage.loss(regression=opened.task.kind == "regression")
        check(objective, material.splits["train"], str(opened.path))
    model = new_student(material, student, seed=stages[0].seed)
    # A killed run goes on in the stage of its checkpoint; what came before is in the mark.
    state = folder / STATE
    results = [StageResult(**done) for done in read(state, tensors=False)[0].get("mark", [])]
    for stage in stages[len(results) :]:
        results.append(
            run_stage(
                model,
                material.splits["train"],
                stage,
                task=opened.task,
                validation=material.splits.get("validation"),
                show=show,
                checkpoint=state,
                mark=[asdict(result) for result in results],
            )
        )
    metrics = {
        split: evaluate(model, examples, opened.task)
        for split, examples in material.splits.items()
        if split != "train"
    }
    save(model, material.words.tokenizer, folder)
    vectors = material.words.vectors
    words = {"words": len(vectors.matrix), "found": vectors.found, "coverage": vectors.coverage}
    return {"trained_on": str(opened.path.resolve())} | _outcome(words, results, metrics)


def _refuse_other_kind(
    student: StudentSettings | TinyBERTSettings, stages: Sequence[StageSettings | TransformerStage]
) -> None:
    fitting = StageSettings if isinstance(student, StudentSettings) else TransformerStage
    for number, stage in enumerate(stages, start=1):
        if not isinstance(stage, fitting):
            raise StageError(
                f"stage {number} is a {type(stage).__name__}, which a {student.kind} student does "
                f"not read; give it a {fitting.__name__}"
            )


def _refuse_setless(stages: Sequence[Any]) -> None:
    for number, stage in enumerate(stages, start=1):
        if stage.data != "raw-text":
            raise StageError(
                f'stage {number} reads a transfer set (data = "{stage.data}"), and none is given; '
                "name it with --set, in Python as the first argument"
            )


def _refuse_early(transfer_set: TransferSet | None, stages: Sequence[Any]) -> None:
    """Say what is missing before minutes of tokenising, not after."""
    if not stages:
        raise StageError("there is no stage; give at least one [[stage]]")
    if transfer_set is not None and transfer_set.task.outputs == 0:
        raise StageError(
            f"{transfer_set.path}: neither labels nor a teacher's logits, so nothing to learn; "
            f"add logits with: augment label RECIPE --set {transfer_set.path} "
            "--teacher TEACHER --out LABELLED"
        )


def _plan(
    transfer_set: TransferSet | None,
    student: StudentSettings | TinyBERTSettings,
    stages: Sequence[Any],
) -> dict[str, Any]:
    teacher = transfer_set.manifest.teacher if transfer_set is not None else None
    return {
        "format": FORMAT,
        "set": None if transfer_set is None else _about(transfer_set),
        "teacher": json.loads(json.dumps(teacher)),
        "student": asdict(student),
        **sources(transfer_set, student, stages),
        "stages": [asdict(stage) for stage in stages],
    }


def _about(transfer_set: TransferSet) -> dict[str, Any]:
    task = transfer_set.task
    return {
        "digest": transfer_set.identity,
        "text": list(transfer_set.text),
        "task": {"kind": task.kind, "classes": list(task.classes)},
    }


def sources(
    transfer_set: TransferSet | None,
    student: StudentSettings | TinyBERTSettings,
    stages: Sequence[Any],
) -> dict[str, Any]:
    """Return digests of the files that the student's training reads beside the set."""
    if isinstance(student, StudentSettings):
        return {"vectors": file_digest(student.vectors)}
    weights = [folder / WEIGHTS for folder in teachers(transfer_set, student, stages)]
    begins = [] if student.start is None else [Path(model_folder(student.start), WEIGHTS)]
    # What was deleted since is not compared: what it gave is in the checkpoint.
    return {
        name: [file_digest(str(path)) for path in paths]
        for name, paths in {"teachers": weights, "start": begins, **_raw_texts(stages)}.items()
        if all(path.is_file() for path in paths) and (paths or name == "teachers")
    }


def _raw_texts(stages: Sequence[TransformerStage]) -> dict[str, list[Path]]:
    """Return the files of raw text by stage."""
    return {
        f"texts_of_stage_{number}": [file_of(name) for name in stage.texts]
        for number, stage in enumerate(stages, start=1)
        if stage.raw
    }


def file_digest(path: str | None) -> str | None:
    """Return a digest of a file's bytes: vectors made anew under an old name are other vectors."""
    if path is None or not Path(path).is_file():
        return path
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _outcome(
    vocabulary: dict[str, Any],
    results: Sequence[StageResult],
    metrics: dict[str, dict[str, float]],
) -> dict[str, Any]:
    names = ("transferset", "torch", "transformers", "tokenizers", "numpy")
    return {
        "metrics": metrics,
        "vocabulary": vocabulary,
        "history": [asdict(result) for result in results],
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in names},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
