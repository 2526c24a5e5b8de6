"""A training bar with rows per second and the time left, on terminals only."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from transformers import TrainerCallback


class Progress(TrainerCallback):  # type: ignore[misc]
    """Follows one stage; ``batch`` rows are read a step."""

    def __init__(self, batch: int, title: str = "train") -> None:
        self.batch, self.title = batch, title
        self.loss = ""
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
        )

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Show the bar."""
        self.bar.start()
        self.task = self.bar.add_task(self.title, total=state.max_steps, rate="", note="")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Move the bar."""
        speed = self.bar.tasks[0].speed
        rate = f"{speed * self.batch:,.0f} rows/s" if speed else ""
        self.bar.update(self.task, completed=state.global_step, rate=rate)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Show the latest loss and check."""
        shown = {k: v for k, v in (logs or {}).items() if k in ("loss", "eval_accuracy")}
        if shown:
            note = "  ".join(f"{k.removeprefix('eval_')} {v:.3f}" for k, v in shown.items())
            self.bar.update(self.task, note=note)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the bar away."""
        self.bar.stop()
