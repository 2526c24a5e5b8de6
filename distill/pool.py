"""Train cells in this process or in several children, one thread each; same results either way."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from distill.errors import AblationError
from distill.worker import Job, train_one

Done = Callable[[Any], None]


def train_cells(
    cells: Sequence[Any], job: Job, folder: Path, *, processes: int, done: Done
) -> None:
    """Train every cell and write its file into ``folder``; ``done`` hears of each.

    Raises:
        AblationError: a child stopped; finished cells stay finished.
    """
    children = min(processes, len(cells))
    if children < 2:
        for cell in cells:
            train_one(job, cell, folder)
            done(cell)
        return
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for cell in cells:
        waiting.put(cell)
    line = json.dumps({"folder": str(folder), "job": job.facts()})
    failures: list[str] = []
    threads = [
        threading.Thread(target=_serve, args=(waiting, line, done, failures), daemon=True)
        for _ in range(children)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AblationError(
            f"a training process stopped: {failures[0]}\n"
            "finished cells are kept; run the same command again to go on"
        )


def _serve(waiting: "queue.SimpleQueue[Any]", line: str, done: Done, failures: list[str]) -> None:
    # Thread counts are read when the libraries load, so they are set before the child starts.
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path)
    child = subprocess.Popen(
        [sys.executable, "-m", "distill.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | one | {"PYTHONPATH": paths},
    )
    with child:  # closes the pipes, which ends the child, and waits for it
        _feed(child, waiting, line, done, failures)


def _feed(
    child: "subprocess.Popen[str]",
    waiting: "queue.SimpleQueue[Any]",
    line: str,
    done: Done,
    failures: list[str],
) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    said: list[str] = []
    listener = threading.Thread(target=said.extend, args=(child.stderr,), daemon=True)
    listener.start()
    try:
        print(line, file=child.stdin, flush=True)
        while not failures:
            cell = waiting.get_nowait()
            print(json.dumps(asdict(cell)), file=child.stdin, flush=True)
            if child.stdout.readline().strip() != cell.name:
                child.wait()
                listener.join()
                failures.append("".join(said[-8:]).strip() or f"exit code {child.returncode}")
                return
            done(cell)
    except queue.Empty:
        return  # every cell has its trainer
    except OSError as error:
        failures.append(str(error))
    finally:
        with contextlib.suppress(OSError):  # a child that died has closed its end already
            child.stdin.close()
        listener.join()
