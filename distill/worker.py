"""Trains the cells of an ablation in a process of its own: ``python -m distill.worker``.

A plain child, so no main module is imported again and nothing is forked. It reads a job and then
its cells from standard input, a line of JSON each, and answers with the name of each finished one.
A cell is always trained on one thread, hence its result does not depend on how many run at once.
"""

import json
import os
import queue
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from augment.files import write_atomic
from distill.cells import BiLSTMJob
from distill.variants import StagesJob


class Job(Protocol):
    """What cells have in common, and the training of one."""

    def train(self, cell: Any) -> dict[str, Any]:
        """Return a cell's record."""

    def facts(self) -> dict[str, Any]:
        """Return what :func:`job_of` makes the same job from, as JSON."""

    def cell(self, facts: dict[str, Any]) -> Any:
        """Return a cell from its fields."""


def job_of(facts: dict[str, Any]) -> Job:
    """Return the job that gave these facts."""
    kinds: dict[str, Any] = {"bilstm": BiLSTMJob, "tinybert": StagesJob}
    job: Job = kinds[facts["kind"]].of(facts)
    return job


def train_one(job: Job, cell: Any, folder: Path) -> None:
    """Train a cell and write its file, whole or not at all."""
    record = json.dumps({"cell": asdict(cell)} | job.train(cell), indent=1)
    write_atomic(folder / f"{cell.name}.json", (record + "\n").encode())


def main() -> None:
    """Serve one parent: the folder and the job, then a cell a line."""
    answers, sys.stdout = sys.stdout, sys.stderr  # a library's print must not look like an answer
    common = json.loads(sys.stdin.readline())
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    job = job_of(common["job"])
    while True:
        cell = job.cell(json.loads(orders.get()))
        train_one(job, cell, Path(common["folder"]))
        print(cell.name, file=answers, flush=True)


def _listen(orders: "queue.SimpleQueue[str]") -> None:
    """Pass orders on; when the parent is done or gone, end at once, mid-cell or not."""
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
