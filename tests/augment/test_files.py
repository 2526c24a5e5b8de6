"""Folders that are claimed: by one process at a time, for one plan, and never over other files."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from augment.errors import SetError
from augment.files import PLAN, begin, claimed, compare, replacing

HOLDER = """
import sys, time
from pathlib import Path
from augment.files import begin, claimed

with claimed(Path(sys.argv[1]), "a transfer set", "manifest.json"):
    begin(Path(sys.argv[1]), {"seed": 1})
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def holder(out: Path) -> Iterator[None]:
    """Another process that has claimed the folder, killed on leaving."""
    command = [sys.executable, "-c", HOLDER, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.kill()


def test_lesson_12_a_second_process_is_told_and_a_killed_one_leaves_the_folder_free(
    tmp_path: Path,
) -> None:
    out = tmp_path / "set"
    with (
        holder(out),
        pytest.raises(SetError, match=r"another process is at work in it; wait for it"),
        claimed(out, "a transfer set", "manifest.json"),
    ):
        pass
    with claimed(out, "a transfer set", "manifest.json"):
        begin(out, {"seed": 1})
        with pytest.raises(SetError, match="seed was 1, is 2"):
            begin(out, {"seed": 2})
    assert [p.name for p in out.iterdir()] == [PLAN]


def test_a_folder_with_something_else_in_it_stays_untouched(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with (
        pytest.raises(SetError, match="not empty and not a run"),
        claimed(tmp_path, "a run", "run.json"),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_a_folder_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="before anything"),
        claimed(tmp_path / "new", "a run", "run.json"),
    ):
        raise RuntimeError("before anything was written")
    assert not (tmp_path / "new").exists()


def test_differences_are_named_down_to_the_part(tmp_path: Path) -> None:
    old = {"teacher": {"epochs": 2, "seed": 0, "gone": 1}, "metrics": 3}
    compare(tmp_path, old, {"teacher": dict(old["teacher"])})  # type: ignore[call-overload]
    with pytest.raises(SetError, match=r"teacher.epochs was 2, is 3; teacher.gone was 1, is null"):
        compare(tmp_path, old, {"teacher": {"epochs": 3, "seed": 0}})


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="full"), replacing(path) as temporary:
        temporary.write_bytes(b"ha")
        raise OSError("full")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_foreign_plan_is_refused_and_nothing_is_swept(tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text("[1]", encoding="utf-8")
    (tmp_path / "src").mkdir()
    for name in (".draft.tmp", "src/.draft.tmp"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    with (
        pytest.raises(SetError, match="not what this library writes; choose another folder"),
        claimed(tmp_path, "a transfer set", "manifest.json"),
    ):
        begin(tmp_path, {"seed": 1})
    (tmp_path / PLAN).write_text("{", encoding="utf-8")
    with (
        pytest.raises(SetError, match="plan.json: cannot be read"),
        claimed(tmp_path, "a transfer set", "manifest.json"),
    ):
        begin(tmp_path, {"seed": 1})
    assert (tmp_path / "src" / ".draft.tmp").exists()
    assert (tmp_path / ".draft.tmp").exists()
