"""Spawned workers: answers in order, errors at once, and no need of a ``__main__`` guard."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from augment.engines.local import Local, WorkerError
from augment.errors import CorpusError, TransfersetError
from tests.augment.golden import GOLDEN
from tests.augment.tasks import about


def test_one_worker_is_this_process_and_reads_no_further_than_asked() -> None:
    read: list[int] = []

    def tasks() -> Iterator[int]:
        for i in range(9):
            read.append(i)
            yield i

    answers = Local(1).map(about, "job", tasks())
    assert next(answers)[:3] == ("job", 0, os.getpid())
    assert read == [0]


def test_answers_come_in_the_order_of_the_tasks_from_other_processes() -> None:
    answers = list(Local(2).map(about, "job", range(40)))
    assert [a[1] for a in answers] == list(range(40))
    processes = {a[2] for a in answers}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert {a[3] for a in answers} == {"1"}, "each worker keeps to one thread"


def test_the_parents_environment_is_left_as_it_was() -> None:
    before = dict(os.environ)
    assert len(list(Local(2).map(about, None, range(2)))) == 2
    assert dict(os.environ) == before


def test_no_tasks_give_no_answers() -> None:
    assert list(Local(1).map(about, None, [])) == []


@pytest.mark.parametrize(
    ("task", "kind", "message"),
    [
        ("die", WorkerError, r"a worker process died \(exit code 3\); finished shards are kept"),
        ("refuse", CorpusError, "the corpus is no good"),
        ("fail", WorkerError, "a worker failed: KeyError: 'a bug'"),
    ],
)
def test_what_happens_to_a_worker_is_an_error_here_at_once(
    task: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        list(Local(2).map(about, None, [1, task, *range(30)]))


class Unreadable:
    """Cannot be unpickled by a worker."""

    def __reduce__(self) -> Any:
        return os._exit, (4,)


def test_a_worker_that_dies_as_it_starts_is_an_error_not_a_hang() -> None:
    with pytest.raises(TransfersetError, match="a worker process died"):
        list(Local(2).map(about, Unreadable(), range(30)))


SCRIPT = textwrap.dedent("""
    import sys
    sys.path.insert(0, {root!r})
    import augment as A
    from tests.augment.stub import StubTeacher
    from tests.augment.golden import build

    print("the script runs")
    made = build({out!r}, {tagger!r}, workers={workers}, shard_rows=200)
    done = A.label(made.path, StubTeacher(), {out!r} + "-labelled")
    print(made.manifest.digest, done.set.manifest.digest, done.asked, done.texts)
""")
ROOT = str(Path(__file__).parents[2])


@pytest.mark.parametrize(("way", "workers"), [("script", 2), ("standard input", 3)])
def test_an_unguarded_program_with_workers_builds_and_labels_the_golden_set(
    tmp_path: Path, way: str, workers: int, own_store: Path, tagger: str
) -> None:
    source = SCRIPT.format(root=ROOT, out=str(tmp_path / "set"), tagger=tagger, workers=workers)
    (tmp_path / "plain.py").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::UserWarning", "plain.py" if way == "script" else "-"],
        input=source, capture_output=True, text=True, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ran, result = done.stdout.splitlines()
    assert ran == "the script runs", "and it runs once"
    built, labelled, asked, texts = result.split()
    assert asked == texts
    assert built == GOLDEN["reviews"], "the number of workers changes nothing"
    assert labelled == GOLDEN["labelled"]
