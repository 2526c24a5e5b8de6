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
from tests.augment.corpus_rows import REVIEWS


def about(job: Any, task: Any) -> Any:
    if task == "die":
        os._exit(3)
    if task == "refuse":
        raise CorpusError("the corpus is no good")
    if task == "fail":
        raise KeyError("a bug")
    return job, task, os.getpid(), os.environ.get("OMP_NUM_THREADS"), "__mp_main__" in sys.modules


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
    assert not any(a[4] for a in answers), "the main module is not imported again"


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


# Line 9 of the acceptance list: no guard, standard input, with workers.

SCRIPT = textwrap.dedent("""
    import sys
    sys.path.insert(0, {root!r})
    import augment as A
    from tests.augment.corpus_rows import REVIEWS
    from tests.augment.stub import StubTeacher

    print("the script runs")
    chain = A.Mask(0.2) >> A.SampleNGram(0.3)
    made = A.build(REVIEWS, chain, label="label", copies=4, seed=7, shard_rows=40, workers=2,
                   out={out!r})
    done = A.label(made.path, StubTeacher(), {out!r} + "-labelled")
    print(made.manifest.digest, done.asked, done.texts)
""")
ROOT = str(Path(__file__).parents[2])


@pytest.mark.parametrize("way", ["script", "standard input"])
def test_build_and_label_work_without_a_main_guard(tmp_path: Path, way: str, own_store: Path) -> None:
    import augment as A

    source = SCRIPT.format(root=ROOT, out=str(tmp_path / "set"))
    (tmp_path / "plain.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "plain.py"] if way == "script" else [sys.executable, "-"]
    done = subprocess.run(
        command, input=source, capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    ran, result = done.stdout.splitlines()
    assert ran == "the script runs", "and it runs once"
    digest, asked, texts = result.split()
    assert asked == texts
    here = A.build(
        REVIEWS, A.Mask(0.2) >> A.SampleNGram(0.3), label="label", copies=4, seed=7, out=tmp_path / "here"
    )
    assert here.manifest.digest == digest
