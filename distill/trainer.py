"""One stage of training: a thin ``transformers.Trainer`` with a composed objective.

The loop, mixed precision, several processes and loggers are the Trainer's. Added here: the
objective over rows with logits, length-bucketed batches whose order depends on seed and epoch
alone, each loss term logged by name, and the best state kept in memory.
"""

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from augment.progress import quiet
from augment.transferset import Task
from distill.adadelta import AdaDelta
from distill.errors import StageError
from distill.examples import Examples
from distill.losses import StageResult, TermTrainer, training_arguments
from distill.objectives import Objective
from distill.recipe import StageSettings
from distill.stages import TransformerStage


def steps_of(stage: StageSettings | TransformerStage, rows: int) -> int:
    """Return the optimiser steps of a stage over ``rows`` rows an epoch."""
    if stage.steps is not None:
        return stage.steps
    assert stage.epochs is not None
    return steps_of_epochs(stage.epochs, rows, stage.batch)


def steps_of_epochs(epochs: float, rows: int, batch: int) -> int:
    """Return the steps of ``epochs`` passes over ``rows`` rows, at least one.

    Of processes that train together each takes a batch of its own at every step.
    """
    together = batch * int(os.environ.get("WORLD_SIZE", "1"))  # set by torchrun and accelerate
    return max(1, round(epochs * -(-rows // together)))


def check(objective: Objective, examples: Examples, where: str) -> None:
    """Refuse a stage whose objective needs a column that the rows lack.

    Raises:
        StageError: names the column and the command that adds it.
    """
    if not len(examples):
        raise StageError(f"{where}: there are no rows to train on")
    if objective.needs_logits and examples.logits is None:
        raise StageError(
            f"{where}: the objective matches a teacher, but these rows have no logits; "
            f"add them with: augment label RECIPE --set {where} --teacher TEACHER --out LABELLED, "
            'or train on labels with objective = "hard-cross-entropy"'
        )
    if objective.needs_labels and examples.labels is None:
        raise StageError(
            f"{where}: the hard term needs a label on every row, and there is none; "
            'use alpha = 0 (logits alone) or target = "argmax" (the teacher\'s class)'
        )


def run_stage(
    model: nn.Module,
    examples: Examples,
    stage: StageSettings,
    *,
    task: Task,
    validation: Examples | None = None,
    show: bool | None = None,
    checkpoint: Path | None = None,
    mark: Any = None,
) -> StageResult:
    """Train ``model`` in place for one stage.

    Args:
        model: a student; it is left in its kept state, in eval mode.
        examples: rows of the set; the stage's ``data`` chooses among them.
        stage: what to match, and for how long.
        task: what labels and logits mean.
        validation: rows for the checks; without them the last state is kept.
        show: a progress bar; by default on terminals only.
        checkpoint: a file to keep the state in meanwhile, and to go on from.
        mark: JSON facts that tell this stage's checkpoint from another's.

    Raises:
        StageError: the objective needs labels or logits that the rows lack.
    """
    if stage.data == "originals":
        examples = examples.where(examples.column("copies") == 0)
    objective = stage.loss(regression=task.kind == "regression")
    check(objective, examples, "the transfer set")
    steps = steps_of(stage, len(examples))
    with own_randomness(), tempfile.TemporaryDirectory() as scratch, quiet():
        trainer = StageTrainer(
            model, examples, stage, objective, task, validation, steps, scratch,
            show=sys.stderr.isatty() if show is None else show,
            checkpoint=checkpoint, mark=mark,
        )  # fmt: skip
        result = trainer.result()
    model.eval()
    return result


class StageTrainer(TermTrainer):
    """The Trainer of one stage; use :func:`run_stage`."""

    def __init__(
        self,
        model: nn.Module,
        examples: Examples,
        stage: StageSettings,
        objective: Objective,
        task: Task,
        validation: Examples | None,
        steps: int,
        scratch: str,
        *,
        show: bool,
        checkpoint: Path | None,
        mark: Any,
    ) -> None:
        self.stage, self.objective = stage, objective
        super().__init__(
            model,
            training_arguments(
                scratch,
                steps=steps,
                batch=stage.batch,
                rate=stage.rate,
                precision=stage.precision,
                seed=stage.seed,
            ),
            examples,
            checkpoint=checkpoint,
            mark=mark,
            title="train" if show else None,
            task=task,
            validation=validation,
            evaluations=stage.evaluations,
            select=stage.select,
        )

    def create_optimizer(self, model: Any = None) -> Any:
        """Return AdaDelta (sparse where that is faster) or AdamW over the trained parameters."""
        if self.optimizer is not None:
            return self.optimizer
        student: Any = self.model
        parameters = [p for p in student.parameters() if p.requires_grad]
        if self.stage.optimiser == "adadelta":
            # Row-sparse gradients pay on a CPU; collectives of several processes refuse them.
            alone = self.args.device.type == "cpu" and self.args.world_size == 1
            if hasattr(student, "sparse_gradients"):
                student.sparse_gradients = alone
            self.optimizer = AdaDelta(parameters, lr=self.stage.rate)
        else:
            if hasattr(student, "sparse_gradients"):
                student.sparse_gradients = False
            self.optimizer = torch.optim.AdamW(parameters, lr=self.stage.rate)
        return self.optimizer

    def terms(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
        """Return the objective's weighted terms, and the student's outputs."""
        targets: dict[str, Tensor] = {
            name: inputs.pop(name) for name in ("labels", "logits") if name in inputs
        }
        outputs = model(**inputs)
        return self.objective.terms(outputs.logits, targets), outputs


@contextmanager
def own_randomness() -> Iterator[None]:
    """Seed as the Trainer likes, and give the caller its torch and numpy state back."""
    state = np.random.get_state()  # noqa: NPY002 - the Trainer seeds the global generators
    plain = random.getstate()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(plain)
