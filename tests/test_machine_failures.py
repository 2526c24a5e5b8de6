"""When the machine fails, not the input: a clear sentence, exit code 1, and the same command goes on.

Limits are set in the child that runs the command; what this machine does not allow is skipped.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import augment as A
from augment.batch import TokenBatch
from augment.draws import Place
from augment.errors import MachineError
from augment.terminal import run
from augment.transferset import TransferSet
from tests.augment.corpus_rows import REVIEWS

ROOT = Path(__file__).parents[1]
RECIPE = f"""
[corpus]
train = "{ROOT}/corpora/reviews/train.tsv"
text = ["text"]
label = "label"

[augment]
copies = 10
seed = 7
shard_rows = 1500
steps = [{{ mask = {{ rate = 0.1 }} }}]
"""


def build(
    place: Path, out: str = "set", before: Callable[[], None] | None = None
) -> "subprocess.CompletedProcess[str]":
    (place / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "augment.cli", "build", "recipe.toml", "--out", out],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "400"},
        preexec_fn=before,
        capture_output=True,
        text=True,
    )


def told(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    return last


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def test_a_file_size_limit_is_named_and_the_build_goes_on(tmp_path: Path) -> None:
    message = told(build(tmp_path, before=limited))
    assert "raise the limit on file sizes (ulimit -f); finished work is kept" in message
    assert not (tmp_path / "set" / "manifest.json").exists()
    assert build(tmp_path).returncode == 0
    assert build(tmp_path, out="calm").returncode == 0
    opened = [TransferSet.open(tmp_path / name).manifest.digest for name in ("set", "calm")]
    assert opened[0] == opened[1]
    assert not [p for p in (tmp_path / "set").rglob("*") if p.name.startswith(".")]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine lets us mount no small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_the_build_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "250k"):
        message = told(build(tmp_path, out="disk/set"))
        assert "make room; finished work is kept" in message
        assert not (tmp_path / "disk" / "set" / "manifest.json").exists()
        grown = ["mount", "-o", "remount,size=50m", str(tmp_path / "disk")]
        subprocess.run(grown, check=True)
        assert build(tmp_path, out="disk/set").returncode == 0
        assert TransferSet.open(tmp_path / "disk" / "set").rows() > 5000


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    if os.getuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        before = None
    else:
        (tmp_path / "closed").mkdir()
        (tmp_path / "closed").chmod(0o500)
        mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(tmp_path / "closed")]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("root writes everywhere here")
        before = None
    try:
        message = told(build(tmp_path, out="closed/set", before=before))
    finally:
        if not os.getuid():
            subprocess.run(["umount", str(tmp_path / "closed")], check=True)
    assert "closed/set" in message
    assert "choose another folder" in message or "may write to" in message


class Greedy(A.Mask):
    """Asks for more memory than there is."""

    __slots__ = ()

    def apply(self, batch: TokenBatch, place: Place) -> TokenBatch:
        raise MemoryError("a petabyte")


def test_a_worker_without_memory_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"label": "label", "copies": 2, "show": False, "shard_rows": 20}

    def app() -> None:
        A.build(REVIEWS, Greedy(0.1), out=tmp_path / "set", workers=2, **options)

    with pytest.raises(MachineError, match="out of memory.*fewer workers"):
        app()
    with pytest.raises(SystemExit) as end:
        run(app)
    assert end.value.code == 1
    assert "out of memory" in capsys.readouterr().err
