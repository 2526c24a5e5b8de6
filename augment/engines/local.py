"""Spawned local workers, one pipe each, answers in the order of the tasks.

Spawn, never fork: forked tokenizers and CUDA deadlock. The user's main module is not imported
again, so an unguarded script does not start itself over and over. A worker that dies is an error
at once, not a hang.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from augment.errors import MachineError, TransfersetError

Task = TypeVar("Task")
Result = TypeVar("Result")

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LOCK = threading.Lock()
_KEPT = (
    "finished shards are kept: run the same command again, with fewer workers if memory is short"
)


class WorkerError(MachineError):
    """A worker process died or failed; finished work is kept and the run can be resumed."""


@dataclass(frozen=True, slots=True)
class Local:
    """Runs a function over tasks in ``workers`` processes; one worker means this process."""

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers is a count of at least 1, got {self.workers}")

    @contextmanager
    def running(self, job: Any) -> Iterator["Run"]:
        """Start the workers, yield ``run(function, tasks)``, and stop them on leaving.

        ``run`` yields ``function(job, task)`` for every task, in order; it reads tasks a little
        ahead of the answers, and may be used several times, one after another.

        Args:
            job: sent to every worker once.

        Raises:
            WorkerError: a worker died. What a task raises is raised here as it is.
        """
        if self.workers == 1:
            yield lambda function, tasks: (function(job, task) for task in tasks)
            return
        pool = _start(self.workers, job)
        try:
            yield lambda function, tasks: _spread(pool, function, tasks)
        finally:
            for pipe in pool:
                pipe.close()
            for process in pool.values():
                process.terminate()
                process.join()

    def map(
        self, function: Callable[[Any, Task], Result], job: Any, tasks: Iterable[Task]
    ) -> Iterator[Result]:
        """Yield ``function(job, task)`` for every task, in order; see :meth:`running`."""
        with self.running(job) as run:
            yield from run(function, tasks)


Run = Callable[[Callable[[Any, Any], Any], Iterable[Any]], Iterator[Any]]


def _start(workers: int, job: Any) -> dict[Any, Any]:
    """Return the running workers by their pipes."""
    import multiprocess as mp

    context = mp.get_context("spawn")
    pool: dict[Any, Any] = {}
    for _ in range(workers):
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, job), daemon=True)
        with _quiet_start():
            process.start()
        there.close()
        pool[here] = process
    return pool


def _spread(
    pool: dict[Any, Any], function: Callable[[Any, Any], Any], tasks: Iterable[Any]
) -> Iterator[Any]:
    from multiprocess.connection import wait

    queue = enumerate(tasks)
    idle, busy = list(pool), {}
    ready: dict[int, Any] = {}
    due = 0
    while True:
        # Bounded look-ahead: one slow task must not let finished answers pile up.
        while idle and len(ready) < 4 * len(pool):
            item = next(queue, None)
            if item is None:
                break
            pipe = idle.pop()
            busy[pipe] = item[0]
            _send(pipe, pool, (function, item[1]))
        if not busy:
            return
        for pipe in wait(list(busy)):
            try:
                ok, value = pipe.recv()
            except (EOFError, OSError) as error:
                raise _dead(pool[pipe]) from error
            if not ok:
                raise value
            ready[busy.pop(pipe)] = value
            idle.append(pipe)
        while due in ready:
            yield ready.pop(due)
            due += 1


def _send(pipe: Any, pool: dict[Any, Any], message: Any) -> None:
    try:
        pipe.send(message)
    except (BrokenPipeError, OSError) as error:
        raise _dead(pool[pipe]) from error


def _dead(process: Any) -> WorkerError:
    process.join(5)
    return WorkerError(_death(process.exitcode))


def _serve(pipe: Any, job: Any) -> None:
    """Answer tasks until the other end of the pipe closes."""
    while True:
        try:
            function, task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, function(job, task))
        except TransfersetError as error:
            answer = (False, error)
        except MemoryError:
            answer = (False, WorkerError(f"a worker ran out of memory; {_KEPT}"))
        except OSError as error:
            answer = (False, error)  # a full disk: the parent knows what to say
        except Exception as error:
            answer = (False, WorkerError(f"a worker failed: {type(error).__name__}: {error}"))
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            return


def _death(code: int | None) -> str:
    reason = "killed, perhaps for want of memory" if code == -9 else f"exit code {code}"
    return f"a worker process died ({reason}); {_KEPT}"


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Start children single-threaded and without the user's main module."""
    from multiprocess import spawn

    with _LOCK:
        original = spawn.get_preparation_data
        saved = {name: os.environ.get(name) for name in _ONE_THREAD}

        def without_main(name: str) -> dict[str, Any]:
            data: dict[str, Any] = original(name)
            data.pop("init_main_from_path", None)
            data.pop("init_main_from_name", None)
            return data

        spawn.get_preparation_data = without_main
        os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
        try:
            yield
        finally:
            spawn.get_preparation_data = original
            for name, value in saved.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
