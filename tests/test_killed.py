"""Lesson 5: SIGKILL at random moments, resumed and killed again, ends as if nothing had happened.

Two moments each in every run of the tests, fifty in the slow ones; ``tests/killed.py`` is what
gets killed.
"""

import hashlib
import random
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import augment as A
from augment.errors import SetError
from augment.store import Store
from augment.verify import verify
from tests.augment.tiny import save_classifier
from tests.killed import CHAIN, REVIEWS, store_of

MOMENTS = [2, pytest.param(50, marks=pytest.mark.slow)]


class Nursery:
    """Runs jobs that may be killed; see ``tests/killed.py``."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert self._hear() == "ready"

    def run(self, name: str, seconds: float = 0.0) -> tuple[str, float]:
        """Return how the job ended, "killed" or "done", and how long it lived."""
        assert self.process.stdin is not None
        print(name, seconds, file=self.process.stdin, flush=True)
        how, lived = self._hear().split()
        return how, float(lived)

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def nursery(job: str, place: Path) -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.killed", job, str(place)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], **pipes) as process:  # type: ignore[call-overload]
        yield Nursery(process)
        process.stdin.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set, a teacher and a labelled set to start from."""
    place = tmp_path_factory.mktemp("killed")
    store = place / "store"
    save_classifier(place / "teacher", ("negative", "positive"))
    A.build(
        REVIEWS / "train.tsv", CHAIN, out=place / "set", label="label", copies=3, seed=7,
        validation=REVIEWS / "dev.tsv", shard_rows=500, store=store, show=False,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        A.label(place / "set", place / "teacher", place / "labelled", store=store, threads=1)
    return place


def bytes_of(folder: Path) -> dict[str, str]:
    """Return a digest of every file, those aside that tell how long something took."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


def damage(store: Path) -> list[str]:
    return [line for record in Store(store).stats() for line in record["bad"].values()]


@pytest.mark.parametrize("moments", MOMENTS)
@pytest.mark.parametrize(
    "job", ["build", "label", "train", pytest.param("stages", marks=pytest.mark.slow)]
)
def test_lesson_05_killed_at_any_moment_and_resumed_is_byte_for_byte_the_undisturbed(
    job: str, moments: int, place: Path
) -> None:
    draws = random.Random(moments)
    with nursery(job, place) as child:
        how, whole = child.run(f"{job}-calm")
        assert how == "done"
        calm = bytes_of(place / f"{job}-calm")
        assert len(calm) > 3
        killed = 0
        for number in range(moments):
            name = f"{job}-{number}"
            killed += child.run(name, draws.uniform(0.01, whole))[0] == "killed"
            child.run(name, draws.uniform(0.01, whole))
            assert child.run(name)[0] == "done"
            out, store = place / name, store_of(place, name)
            assert bytes_of(out) == calm
            assert not [p for p in out.rglob("*") if p.name.endswith(".tmp")]
            if job in ("build", "label"):
                assert verify(out, store=store) == []
                assert damage(store) == []
            shutil.rmtree(out)
            shutil.rmtree(store, ignore_errors=True)
        assert killed >= moments / 2, "most moments must hit a living process"
    shutil.rmtree(place / f"{job}-calm")


@pytest.mark.parametrize("job", ["build", pytest.param("label", marks=pytest.mark.slow)])
def test_lesson_12_two_at_once_on_one_store_and_one_killed_leave_the_other_whole(
    job: str, place: Path
) -> None:
    with nursery(job, place) as one, nursery(job, place) as other, ThreadPoolExecutor(2) as pool:
        assert one.run("calm")[0] == "done"
        for number, share in enumerate((0.3, 0.6)):
            names = [f"{who}-{number}@shared-{job}-{number}" for who in ("one", "other")]
            whole = one.run("pace")[1]
            shutil.rmtree(place / "pace")
            shutil.rmtree(store_of(place, "pace"))
            killed = pool.submit(one.run, names[0], share * whole)
            calm = pool.submit(other.run, names[1])
            killed.result()
            assert calm.result()[0] == "done"
            assert bytes_of(place / names[1]) == bytes_of(place / "calm")
            assert damage(store_of(place, names[1])) == []
            assert one.run(names[0])[0] == "done"
            assert bytes_of(place / names[0]) == bytes_of(place / "calm")
    shutil.rmtree(place / "calm")
    shutil.rmtree(store_of(place, "calm"))


def test_lesson_12_a_second_build_into_one_folder_is_told_what_it_meets(place: Path) -> None:
    with nursery("build", place) as child, ThreadPoolExecutor(1) as pool:
        whole = child.run("first")[1]
        shutil.rmtree(place / "first")
        shutil.rmtree(store_of(place, "first"))
        running = pool.submit(child.run, "first")
        time.sleep(whole / 3)
        with pytest.raises(SetError, match="another process is at work in it; wait for it"):
            A.build(["a text"], CHAIN, out=place / "first", copies=1, show=False)
        assert running.result()[0] == "done"
        with pytest.raises(SetError, match="begun with other settings"):
            A.build(["a text"], CHAIN, out=place / "first", copies=1, show=False)
    assert verify(place / "first", store=store_of(place, "first")) == []
