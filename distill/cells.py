"""The cells of a BiLSTM's ablation and their training: one cell is one student, one JSON file."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from augment.machine import threads
from augment.transferset import TransferSet
from distill.evaluation import evaluate, headline
from distill.examples import Examples
from distill.recipe import AblateSettings, StageSettings, StudentSettings
from distill.runs import Material, new_student, prepare
from distill.trainer import run_stage, steps_of_epochs

LAST = 5
Target = Literal["hard", "logits", "argmax"]
Data = Literal["originals", "copies"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One student: what it is taught by, on what rows, with which seed.

    ``rate`` set makes it a trial of a learning rate: trained without the slice, judged on it.
    """

    target: Target
    data: Data
    seed: int
    rate: float | None = None

    @property
    def name(self) -> str:
        """Name of the cell's file."""
        trial = "" if self.rate is None else f"-rate-{self.rate:g}"
        return f"{self.target}-{self.data}-seed-{self.seed}{trial}"


def stage_of(
    cell: Cell, settings: AblateSettings, *, steps: int, rate: float | None
) -> StageSettings:
    """Return the training of a cell; between cells only target, data and seed differ."""
    return StageSettings(
        steps=steps,
        data="originals" if cell.data == "originals" else "transfer-set",
        objective="logits-mse" if cell.target == "logits" else "hard-cross-entropy",
        target="argmax" if cell.target == "argmax" else "label",
        batch=settings.batch,
        optimiser=settings.optimiser,
        learning_rate=cell.rate if cell.rate is not None else rate,
        seed=cell.seed,
        select="last",
        evaluations=settings.evaluations,
        precision=settings.precision,
    )


def steps_of_cells(settings: AblateSettings, originals: int) -> int:
    """Return the steps every cell is given; by default four epochs of the originals."""
    if settings.steps is not None:
        return settings.steps
    return steps_of_epochs(settings.epochs or 4.0, originals, settings.batch)


def on_slice(examples: Examples, rows: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mark the rows that belong to the slice: ``rows`` source rows, with all their copies.

    The choice depends on the source rows' count alone.
    """
    sources = examples.column("sources")
    found = np.unique(sources)
    chosen = np.random.default_rng(0).permutation(found)[: min(rows, len(found) // 2)]
    return np.isin(sources, chosen)


def train_cell(
    material: Material,
    cell: Cell,
    student: StudentSettings,
    settings: AblateSettings,
    *,
    rate: float | None,
) -> dict[str, Any]:
    """Train one student and return its figures in points (a hundred times the headline)."""
    task = material.source.task
    rows = material.splits["train"]
    splits = material.splits
    held_out: dict[str, Examples] = {k: splits[k] for k in splits if k != "train"}
    held_out = dict(sorted(held_out.items(), reverse=True))  # validation before test
    steps = steps_of_cells(settings, int((rows.column("copies") == 0).sum()))
    if cell.rate is not None:
        inside = on_slice(rows, settings.slice_rows)
        held_out = {"slice": rows.where(inside & (rows.column("copies") == 0))}
        rows = rows.where(~inside)
    watched = held_out.get("validation", held_out.get("slice"))
    with threads(1):
        model = new_student(material, student, seed=cell.seed)
        stage = stage_of(cell, settings, steps=steps, rate=rate)
        result = run_stage(model, rows, stage, task=task, validation=watched, show=False)
        metrics = {name: evaluate(model, part, task) for name, part in held_out.items()}
    points = {name: 100 * (headline(task, found) or 0.0) for name, found in metrics.items()}
    curve = [
        100 * (headline(task, {k.removeprefix("eval_"): v for k, v in check.items()}) or 0.0)
        for check in result.checks
    ]
    return {
        "steps": result.steps,
        "learning_rate": stage.rate,
        "seconds": result.seconds,
        "points": points,
        "last_checks": float(np.mean(curve[-LAST:])) if curve else None,
        "curve": curve,
        "metrics": metrics,
    }


@dataclass(frozen=True, slots=True)
class BiLSTMJob:
    """Trains cells of one set, one shape of student and one rate."""

    material: Material
    student: StudentSettings
    settings: AblateSettings
    rate: float | None

    def train(self, cell: Cell) -> dict[str, Any]:
        """Return the record of a cell's student."""
        return train_cell(self.material, cell, self.student, self.settings, rate=self.rate)

    def facts(self) -> dict[str, Any]:
        """Return, as JSON, what a worker process makes the same job from."""
        return {
            "kind": self.student.kind,
            "set": str(self.material.source.path),
            "student": asdict(self.student),
            "settings": asdict(replace(self.settings, choose_learning_rate=(), choose_steps=False)),
            "rate": self.rate,
        }

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self:
        """Return the job that gave these facts; the set is read again."""
        student = StudentSettings(**facts["student"])
        material = prepare(TransferSet.open(facts["set"]), student)
        return cls(material, student, AblateSettings(**facts["settings"]), facts["rate"])

    @staticmethod
    def cell(facts: dict[str, Any]) -> Cell:
        """Return a cell from its fields."""
        return Cell(**facts)
