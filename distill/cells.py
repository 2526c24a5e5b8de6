"""The cells of an ablation and their training: one cell is one student, one JSON file.

Also a worker: ``python -m distill.cells`` reads cell names from standard input and trains them. It
is a plain child process, so no main module is imported again and nothing is forked. A cell is
always trained on one thread, hence its result does not depend on how many cells run at once.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from augment.files import write_atomic
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
    with one_thread():
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
        "cell": asdict(cell),
        "steps": result.steps,
        "learning_rate": stage.rate,
        "seconds": result.seconds,
        "points": points,
        "last_checks": float(np.mean(curve[-LAST:])) if curve else None,
        "curve": curve,
        "metrics": metrics,
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Train on one thread: the sum's order, and so the result, depends on the thread count."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def write_cell(folder: Path, cell: Cell, record: dict[str, Any]) -> None:
    """Write a cell's file, whole or not at all."""
    write_atomic(folder / f"{cell.name}.json", (json.dumps(record, indent=1) + "\n").encode())


def job(
    transfer_set: TransferSet, student: StudentSettings, settings: AblateSettings, folder: Path
) -> str:
    """Return the line that tells a worker what its cells have in common."""
    common = {
        "set": str(transfer_set.path),
        "student": asdict(student),
        "settings": asdict(replace(settings, choose_learning_rate=(), choose_steps=False)),
        "folder": str(folder),
    }
    return json.dumps(common)


def work() -> None:
    """Serve one parent: the job's line, then a cell a line; answers with the cell's name."""
    answers, sys.stdout = sys.stdout, sys.stderr  # a library's print must not look like an answer
    common = json.loads(sys.stdin.readline())
    student = StudentSettings(**common["student"])
    settings = AblateSettings(**common["settings"])
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    material = prepare(TransferSet.open(common["set"]), student)
    while True:
        order = json.loads(orders.get())
        cell = Cell(**order["cell"])
        record = train_cell(material, cell, student, settings, rate=order["rate"])
        write_cell(Path(common["folder"]), cell, record)
        print(cell.name, file=answers, flush=True)


def _listen(orders: "queue.SimpleQueue[str]") -> None:
    """Pass orders on; when the parent is done or gone, end at once, mid-cell or not."""
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)


if __name__ == "__main__":
    work()
