"""A Trainer that may be killed: its whole state is one file, replaced whole, without a pickle.

The Trainer's own checkpoints are folders of pickles written in place. Here weights, optimiser
state, the best state so far and the random generators are tensors of one safetensors file, the
rest is JSON in its header; the file is fsynced and renamed. On the CPU a resumed run ends in the
weights of an undisturbed one.
"""

import copy
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from augment.errors import MachineError
from augment.files import follower, replacing
from augment.progress import quiet
from augment.transferset import Task
from distill.buckets import WINDOW, loader
from distill.errors import RunError
from distill.evaluation import evaluate, headline
from distill.examples import Examples
from distill.progress import Progress

STATE = "state.safetensors"
SECONDS = 60.0
"""Between two checkpoints; each costs about a second per 100 million numbers."""


class ResumableTrainer(Trainer):  # type: ignore[misc]
    """The Trainer, fed bucketed batches, its state kept in ``checkpoint`` while it runs.

    Args:
        model: trained in place.
        arguments: the Trainer's; nothing is saved below their ``output_dir``.
        examples: rows that collate while they are fetched; see ``distill.examples``.
        checkpoint: the file of the state; None keeps none.
        mark: JSON facts kept in the file's header; a state with another mark is another
            training's and not gone on from.
        window: batches that are sorted by length together.
        title: of the progress bar; None shows no bar.
        task: what the model's outputs mean; needed with ``validation``.
        validation: rows for the checks; without them the last state is kept.
        evaluations: checks, spread evenly; the last one comes with the last step.
        select: keep the state of the best check ("validation") or the last state ("last").
    """

    def __init__(
        self,
        model: Any,
        arguments: TrainingArguments,
        examples: Any,
        *,
        checkpoint: Path | None = None,
        mark: Any = None,
        window: int = WINDOW,
        title: str | None = None,
        task: Task | None = None,
        validation: Examples | None = None,
        evaluations: int = 0,
        select: Literal["validation", "last"] = "last",
    ) -> None:
        self.task, self.select = task, select
        self.validation = validation if validation is not None and len(validation) else None
        self.checkpoint, self.window = checkpoint, window
        self.mark = json.loads(json.dumps(mark))
        self.best: tuple[float, int, dict[str, Tensor]] | None = None
        self._found: dict[str, Tensor] = {}
        self._notes: dict[str, Any] = {}
        super().__init__(model, arguments, train_dataset=examples)
        self.pop_callback(transformers.PrinterCallback)
        if title is not None:
            self.add_callback(Progress(arguments.train_batch_size, title))
        if self.validation is not None and evaluations:
            self.add_callback(_Checks(arguments.max_steps, evaluations))
        if checkpoint is not None:
            self.add_callback(_Saves())

    def run(self) -> float:
        """Train to the end, from the checkpoint on if there is one; returns the seconds taken."""
        if self.checkpoint is not None:
            self._notes, self._found = read(self.checkpoint)
        between = self._notes.get("trainer") is None  # no step of this stage was made
        if between or self._notes["mark"] != self.mark:
            self._notes, self._found = {}, {}
            return float(self.train().metrics["train_runtime"])
        if self._notes["best"] is not None:
            value, step = self._notes["best"]
            self.best = (value, step, self._part("best"))
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder, "trainer_state.json")  # what the Trainer learns its step from
            state.write_text(json.dumps(self._notes["trainer"]), encoding="utf-8")
            outcome = self.train(resume_from_checkpoint=folder)
        return float(outcome.metrics["train_runtime"])

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the bucketed batches; the loader starts no worker process."""
        made = loader(self.train_dataset, self.args.train_batch_size, self.args.seed, self.window)
        prepared: DataLoader[Any] = self.accelerator.prepare(made)
        return prepared

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Check the state on validation, and remember it when it is the best so far."""
        assert self.validation is not None
        assert self.task is not None
        model: Any = self.model
        found = evaluate(model, self.validation, self.task)
        value: Any = headline(self.task, found)
        wanted = self.select == "validation" and value is not None
        if wanted and (self.best is None or value > self.best[0]):
            self.best = (value, self.state.global_step, copy.deepcopy(model.state_dict()))
        metrics = {f"eval_{name}": number for name, number in found.items()}
        self.log(dict(metrics))
        self.control.should_evaluate = False  # else the end of the epoch asks again
        return metrics

    def restore(self) -> int:
        """Put the best state back if one was asked for; returns the step of the kept state."""
        if self.best is None:
            return int(self.state.global_step)
        model: Any = self.model
        model.load_state_dict(self.best[2])
        return self.best[1]

    # The Trainer's hooks around its checkpoints.

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        assert self.checkpoint is not None
        if not self.args.should_save:
            return
        optimiser = self.optimizer.state_dict()
        tensors = _named("model", self.model.state_dict())
        for number, values in optimiser["state"].items():
            tensors |= _named(f"optimiser.{number}", values)
        if self.best is not None:
            tensors |= _named("best", self.best[2])
        tensors["random.cpu"] = torch.get_rng_state()
        for number, state in enumerate(_device_random()):
            tensors[f"random.device.{number}"] = state
        notes = {
            "trainer": asdict(self.state),
            "groups": optimiser["param_groups"],
            "scheduler": self.lr_scheduler.state_dict(),
            "best": self.best and self.best[:2],
            "mark": self.mark,
        }
        header = {name: json.dumps(value) for name, value in notes.items()}
        with unwritten(self.checkpoint), replacing(self.checkpoint) as temporary:
            save_file(tensors, temporary, metadata=header)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.model.load_state_dict(self._part("model"))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if not self._found:
            return
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in self._part("optimiser").items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = value
        self.optimizer.load_state_dict({"state": state, "param_groups": self._notes["groups"]})
        self.lr_scheduler.load_state_dict(self._notes["scheduler"])

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if not self._found:
            return
        torch.set_rng_state(self._found["random.cpu"])
        for name, value in self._part("random.device").items():
            torch.cuda.set_rng_state(value, int(name))

    def _part(self, name: str) -> dict[str, Tensor]:
        prefix = f"{name}."
        return {k[len(prefix) :]: v for k, v in self._found.items() if k.startswith(prefix)}


class _Checks(TrainerCallback):  # type: ignore[misc]
    """Asks for ``count`` evenly spread evaluations, the last one at the last step."""

    def __init__(self, steps: int, count: int) -> None:
        self.steps = {round(steps * (i + 1) / count) for i in range(count)} - {0}

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step in self.steps:
            control.should_evaluate = True


class _Saves(TrainerCallback):  # type: ignore[misc]
    """Asks for a checkpoint at a log, where the Trainer's running sums are empty."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # Not after the last step: going on from there, the Trainer would make one step too many.
        due = state.global_step < state.max_steps and time.monotonic() - self.last >= SECONDS
        if control.should_log and due:
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.last = time.monotonic()


def read(path: Path, *, tensors: bool = True) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a checkpoint's notes and its tensors, or its notes alone; both empty without a file.

    Raises:
        RunError: the file is damaged.
    """
    if not path.exists():
        return {}, {}
    try:
        with safe_open(path, framework="pt") as file:
            notes = {name: json.loads(value) for name, value in file.metadata().items()}
            names = file.keys() if tensors else ()
            return notes, {name: file.get_tensor(name) for name in names}
    except Exception as error:
        raise RunError(
            f"{path}: not a whole checkpoint ({error}); delete it to train from the start"
        ) from error


def keep(path: Path, model: Any, mark: Any) -> None:
    """Write a checkpoint between two stages: weights, and the mark of the stage to come.

    Raises:
        MachineError: the disk refuses.
    """
    if follower():
        return
    header = {"trainer": "null", "mark": json.dumps(mark)}
    with unwritten(path), replacing(path) as temporary:
        save_file(_named("model", model.state_dict()), temporary, metadata=header)


def kept(path: Path, model: Any) -> bool:
    """Give the model the weights of a checkpoint between two stages, if that is what it is.

    Raises:
        RunError: the file is damaged.
    """
    notes, found = read(path)
    if not notes or notes["trainer"] is not None:
        return False
    model.load_state_dict({name.removeprefix("model."): value for name, value in found.items()})
    return True


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a plain transformers folder.

    Raises:
        MachineError: the disk refuses.
    """
    if follower():
        return
    with quiet(), unwritten(folder):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextmanager
def unwritten(path: Path) -> Iterator[None]:
    """Say what a full disk means; safetensors has an error of its own for it."""
    try:
        yield
    except SafetensorError as error:
        raise MachineError(
            f"{path}: cannot be written ({error}); make room, the same command goes on from there"
        ) from error


def _named(name: str, tensors: dict[str, Any]) -> dict[str, Tensor]:
    # Clones: a safetensors file refuses tensors that share memory.
    return {f"{name}.{k}": v.detach().cpu().clone().contiguous() for k, v in tensors.items()}


def _device_random() -> list[Tensor]:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
