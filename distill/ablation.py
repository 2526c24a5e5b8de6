"""Which gain comes from what: students that differ in one thing, at equal steps, over seeds.

A BiLSTM's cells are {hard labels, logits} x {originals, copies}: the paper reports distillation on
augmented text as one gain. Hard labels on copies are the source row's own: no teacher is involved.
The fifth line shows the teacher's argmax as a hard label. A transformer student's are variants of
its recipe; see ``distill.variants``.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from augment.files import begin, claimed, write_atomic
from augment.transferset import TransferSet
from distill.cells import BiLSTMJob, Cell, Data, Target
from distill.errors import AblationError
from distill.evaluation import measured
from distill.examples import read_targets
from distill.figure import draw_cells
from distill.pool import train_cells
from distill.recipe import AblateSettings, StudentSettings, VariantSettings
from distill.runs import Material, prepare, sources
from distill.stages import TinyBERTSettings, TransformerStage
from distill.summary import Choice, Summary, choose, page, summarise, summarise_variants
from distill.variants import StagesJob, VariantCell, points
from distill.worker import Job

SUMMARY = "ablate.json"
FIVE: tuple[tuple[Target, Data], ...] = (
    ("hard", "originals"),
    ("hard", "copies"),
    ("logits", "originals"),
    ("logits", "copies"),
    ("argmax", "copies"),
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ablation:
    """A finished ablation: its folder, its summary, and how many cells were trained now."""

    path: Path
    summary: Summary
    trained: int


def ablate(
    transfer_set: TransferSet | str | Path,
    *,
    out: str | Path,
    student: StudentSettings | TinyBERTSettings | None = None,
    stages: Sequence[TransformerStage] = (),
    settings: AblateSettings | VariantSettings | None = None,
    say: Say = lambda _: None,
) -> Ablation:
    """Train every cell over the seeds, and write ``ablate.json``, ``ablate.md``, ``ablate.png``.

    Cells already in ``out`` are kept, so an interrupted ablation goes on where it stopped.

    Args:
        transfer_set: a labelled set with labels and copies, or its folder.
        out: the ablation's folder.
        student: the students' shape; a BiLSTM by default.
        stages: a transformer student's; its variants are variants of them.
        settings: of the student's kind: seeds, steps, and what varies.
        say: hears of each finished cell.

    Raises:
        AblationError: the set lacks logits, labels, copies or validation rows; the settings are
            another kind's; or ``out`` holds an ablation of something else.
    """
    opened = TransferSet.of(transfer_set)
    student = student or StudentSettings()
    _check_splits(opened)
    folder = Path(out)
    if isinstance(student, StudentSettings):
        if isinstance(settings, VariantSettings) or stages:
            raise AblationError("a bilstm student takes AblateSettings, and no stages")
        settings = settings or AblateSettings()
        with _begun(folder, opened, student, settings, ()):
            return _bilstms(opened, folder, student, settings, say)
    if isinstance(settings, AblateSettings) or not stages:
        raise AblationError(f"a {student.kind} student takes VariantSettings, and its stages")
    settings = settings or VariantSettings()
    with _begun(folder, opened, student, settings, stages):
        return _variants(StagesJob(opened, student, tuple(stages), settings), folder, say)


def _bilstms(
    opened: TransferSet,
    folder: Path,
    student: StudentSettings,
    settings: AblateSettings,
    say: Say,
) -> Ablation:
    material = prepare(opened, student)
    _check_rows(material)
    rate = settings.learning_rate
    choice: Choice | None = None
    trained = 0
    if settings.choose_learning_rate:
        # Both corners have a say, on rows of train, and all cells abide by it.
        corners: tuple[tuple[Target, Data], ...] = (("hard", "originals"), ("logits", "copies"))
        rates = settings.choose_learning_rate
        trials = [Cell(target, data, 0, rate=r) for r in rates for target, data in corners]
        job = BiLSTMJob(material, student, settings, None)
        records, trained = _finished(trials, job, folder, settings.processes, say)
        choice = choose(records, last_only=not settings.choose_steps)
        rate = choice.learning_rate
        settings = replace(settings, steps=choice.steps, epochs=None)
        say(f"learning rate {rate:g}, {choice.steps:,} steps, chosen on a slice of train")
    kinds = FIVE if opened.task.kind == "classification" else FIVE[:4]
    # Seeds outermost: an interrupted ablation has whole seeds to look at.
    cells = [Cell(target, data, seed) for seed in range(settings.seeds) for target, data in kinds]
    job = BiLSTMJob(material, student, settings, rate)
    records, more = _finished(cells, job, folder, settings.processes, say)
    summary = summarise(records, _teacher(opened), choice, opened.task)
    return _written(folder, summary, records, trained + more)


def _variants(job: StagesJob, folder: Path, say: Say) -> Ablation:
    train = job.rows.splits["train"]
    if train.labels is None or job.rows.splits["validation"].labels is None:
        raise AblationError(f"{job.opened.path}: labels are needed on train and validation rows")
    chosen = [name for name in job.settings.names if job.variant(name) is not None]
    for name in job.settings.names:
        if name not in chosen:
            say(f"{name}: left out, the recipe would stay as it is or the layers do not fit")
    seeds = range(job.settings.seeds)
    cells = [VariantCell(name, seed) for seed in seeds for name in chosen]
    records, trained = _finished(cells, job, folder, job.settings.processes, say)
    summary = summarise_variants(records, _teacher(job.opened), job.opened.task)
    return _written(folder, summary, records, trained)


def _teacher(opened: TransferSet) -> float:
    """The teacher's points on validation, from its cached logits."""
    targets = read_targets(opened, "validation")
    assert targets.logits is not None
    return points(opened.task, measured(opened.task, targets.logits, targets))


def _finished(
    cells: Sequence[Cell] | Sequence[VariantCell],
    job: Job,
    folder: Path,
    processes: int,
    say: Say,
) -> tuple[list[dict[str, Any]], int]:
    """Train what is missing; return every cell's record and how many were trained now."""
    place = folder / "cells"
    missing = [cell for cell in cells if not (place / f"{cell.name}.json").exists()]

    def done(cell: Any) -> None:
        say(f"{cell.name}: done")

    train_cells(missing, job, place, processes=processes, done=done)
    records = [json.loads((place / f"{cell.name}.json").read_text()) for cell in cells]
    return records, len(missing)


def _written(
    folder: Path, summary: Summary, records: Sequence[dict[str, Any]], trained: int
) -> Ablation:
    text = json.dumps(asdict(summary) | {"cells": records}, indent=1) + "\n"
    write_atomic(folder / SUMMARY, text.encode())
    write_atomic(folder / "ablate.md", page(summary).encode())
    draw_cells(summary.lines, summary.teacher, summary.measure, folder / "ablate.png")
    return Ablation(folder, summary, trained)


@contextmanager
def _begun(
    folder: Path,
    opened: TransferSet,
    student: StudentSettings | TinyBERTSettings,
    settings: AblateSettings | VariantSettings,
    stages: Sequence[TransformerStage],
) -> Iterator[None]:
    """Claim the folder for this ablation and no other."""
    with claimed(folder, "an ablation", SUMMARY, AblationError):
        begin(folder, _plan(opened, student, settings, stages), AblationError)
        (folder / "cells").mkdir(exist_ok=True)
        yield


def _check_splits(transfer_set: TransferSet) -> None:
    if "validation" not in transfer_set.splits:
        raise AblationError(
            f"{transfer_set.path}: no validation split; name one in [corpus] validation"
        )
    if not transfer_set.labelled:
        raise AblationError(
            f"{transfer_set.path}: no teacher's logits; add them with: "
            f"augment label RECIPE --set {transfer_set.path} --teacher TEACHER --out LABELLED"
        )


def _check_rows(material: Material) -> None:
    rows, path = material.splits["train"], material.source.path
    if rows.labels is None or material.splits["validation"].labels is None:
        raise AblationError(f"{path}: hard cells need labels on train and validation rows")
    if not (rows.column("copies") > 0).any():
        raise AblationError(
            f"{path}: no copies, so originals and copies are the same rows; "
            "set copies above 0 in [augment] and build again"
        )


def _plan(
    transfer_set: TransferSet,
    student: StudentSettings | TinyBERTSettings,
    settings: AblateSettings | VariantSettings,
    stages: Sequence[TransformerStage],
) -> dict[str, Any]:
    teacher = transfer_set.manifest.teacher or {}
    # How many processes train, how many seeds and which variants change no finished cell: all of
    # these may grow.
    free = ("processes", "seeds", "variants")
    return {
        "set": transfer_set.identity,
        "teacher": teacher.get("fingerprint") or teacher.get("name"),
        "student": asdict(student),
        "stages": [asdict(stage) for stage in stages],
        "settings": {k: v for k, v in asdict(settings).items() if k not in free},
        **sources(transfer_set, student, stages),
    }
