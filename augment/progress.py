"""Progress bars on long work: rows per second, time left, and a word of context.

Shown on a terminal only; logs and pipes stay clean.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' own bars off while a model loads or is saved; logs stay clean."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def progress(
    title: str, total: int, show: bool = True, unit: str = "rows"
) -> Iterator[Callable[[int, str], None]]:
    """Yield ``advance(rows, note)``; nothing is drawn unless standard error is a terminal."""
    if not (show and sys.stderr.isatty()):
        yield lambda rows, note: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, speed="", note="")

        def advance(rows: int, note: str) -> None:
            bar.update(task, advance=rows, note=note)
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed or 0.0
            bar.update(task, speed=f"{speed:,.{0 if speed >= 10 else 1}f} {unit}/s")

        yield advance
