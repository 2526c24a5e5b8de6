"""Which gain comes from what: {hard labels, logits} x {originals, copies}, and argmax labels.

The paper reports distillation on augmented text as one gain. Here every cell gets the same steps,
batch, learning rate, seeds and starting weights; only what is learned from, and on which rows,
differs. Hard labels on copies are the source row's own: no teacher is involved. The fifth line
shows the teacher's argmax as a hard label.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from augment.files import begin, claimed, write_atomic
from augment.transferset import TransferSet
from distill.cells import Cell, Data, Target
from distill.errors import AblationError
from distill.pool import train_cells
from distill.recipe import AblateSettings, StudentSettings
from distill.runs import Material, file_digest, prepare
from distill.stages import TinyBERTSettings
from distill.summary import Choice, Summary, choose, page, summarise

SUMMARY = "ablate.json"
FIVE: tuple[tuple[Target, Data], ...] = (
    ("hard", "originals"),
    ("hard", "copies"),
    ("logits", "originals"),
    ("logits", "copies"),
    ("argmax", "copies"),
)


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
    settings: AblateSettings | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Ablation:
    """Train every cell over the seeds, and write ``ablate.json`` and ``ablate.md``.

    Cells already in ``out`` are kept, so an interrupted ablation goes on where it stopped.

    Args:
        transfer_set: a labelled set with labels and copies, or its folder.
        out: the ablation's folder.
        student: the students' shape.
        settings: seeds, steps and the choice of the learning rate.
        say: hears of each finished cell.

    Raises:
        AblationError: the set lacks logits, labels, copies or validation rows; or ``out`` holds
            an ablation of something else.
    """
    opened = TransferSet.of(transfer_set)
    student, settings = student or StudentSettings(), settings or AblateSettings()
    if not isinstance(student, StudentSettings):
        raise AblationError(
            f"the cells of an ablation are bilstm students so far, not {student.kind}; "
            'write kind = "bilstm" in [student]'
        )
    _check_splits(opened)
    folder = Path(out)
    with claimed(folder, "an ablation", SUMMARY, AblationError):
        begin(folder, _plan(opened, student, settings), AblationError)
        (folder / "cells").mkdir(exist_ok=True)
        return _ablate(opened, folder, student, settings, say)


def _ablate(
    opened: TransferSet,
    folder: Path,
    student: StudentSettings,
    settings: AblateSettings,
    say: Callable[[str], None],
) -> Ablation:
    material = prepare(opened, student)
    _check_rows(material)
    trained = 0

    def finish(
        cells: Sequence[Cell], rate: float | None, how: AblateSettings
    ) -> list[dict[str, Any]]:
        nonlocal trained
        missing = [cell for cell in cells if not (folder / "cells" / f"{cell.name}.json").exists()]
        trained += len(missing)
        train_cells(
            missing,
            material,
            student,
            how,
            folder / "cells",
            rate=rate,
            done=lambda cell: say(f"{cell.name}: done"),
        )
        return [json.loads((folder / "cells" / f"{cell.name}.json").read_text()) for cell in cells]

    rate = settings.learning_rate
    choice: Choice | None = None
    if settings.choose_learning_rate:
        # Both corners have a say, on rows of train, and all cells abide by it.
        corners: tuple[tuple[Target, Data], ...] = (("hard", "originals"), ("logits", "copies"))
        rates = settings.choose_learning_rate
        trials = [Cell(target, data, 0, rate=r) for r in rates for target, data in corners]
        choice = choose(finish(trials, None, settings), last_only=not settings.choose_steps)
        rate = choice.learning_rate
        settings = replace(settings, steps=choice.steps, epochs=None)
        say(f"learning rate {rate:g}, {choice.steps:,} steps, chosen on a slice of train")
    kinds = FIVE if opened.task.kind == "classification" else FIVE[:4]
    # Seeds outermost: an interrupted ablation has whole seeds to look at.
    cells = [Cell(target, data, seed) for seed in range(settings.seeds) for target, data in kinds]
    records = finish(cells, rate, settings)
    summary = summarise(records, choice, opened.task)
    text = json.dumps(asdict(summary) | {"cells": records}, indent=1) + "\n"
    write_atomic(folder / SUMMARY, text.encode())
    write_atomic(folder / "ablate.md", page(summary).encode())
    return Ablation(folder, summary, trained)


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
    transfer_set: TransferSet, student: StudentSettings, settings: AblateSettings
) -> dict[str, Any]:
    teacher = transfer_set.manifest.teacher or {}
    # How many processes train, and how many seeds, change no finished cell: both may grow.
    free = ("processes", "seeds")
    return {
        "set": transfer_set.identity,
        "teacher": teacher.get("fingerprint") or teacher.get("name"),
        "student": asdict(student),
        "vectors": file_digest(student.vectors),
        "settings": {k: v for k, v in asdict(settings).items() if k not in free},
    }
