"""Memory of a build: anonymous memory of all its processes, for a corpus and one ten times larger.

``python -m tests.benchmarks memory`` takes 1M and 10M rows and half an hour;
``python -m tests.benchmarks.memory 100000 1000000`` takes others.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import augment as A
from tests.benchmarks.common import ROOT, line, title

SIZES = (1_000_000, 10_000_000)
WORDS = [
    "river",
    "stone",
    "lamp",
    "copper",
    "window",
    "autumn",
    "bread",
    "violin",
    "harbour",
    "paper",
    "signal",
    "garden",
]


def texts(rows: int) -> Iterator[str]:
    """Short distinct texts, made as they are read."""
    for i in range(rows):
        yield f"{WORDS[i % 12]} {WORDS[i // 12 % 12]} number {i} by the {WORDS[i // 144 % 12]}"


def anonymous(process: int) -> int:
    """Bytes of anonymous memory of a process and all its descendants."""
    total, waiting = 0, [process]
    while waiting:
        number = waiting.pop()
        try:
            status = Path(f"/proc/{number}/status").read_text()
            children = Path(f"/proc/{number}/task/{number}/children").read_text()
        except OSError:
            continue
        total += sum(
            int(row.split()[1]) for row in status.splitlines() if row.startswith("RssAnon")
        )
        waiting += map(int, children.split())
    return total * 1024


def measured(rows: int, workers: int) -> tuple[float, float]:
    """Build in a child; returns its largest anonymous memory in MB, and the seconds."""
    with tempfile.TemporaryDirectory(dir=ROOT / "runs") as place:
        command = [sys.executable, "-m", "tests.benchmarks.memory", "build", str(rows), place]
        start, most = time.perf_counter(), 0
        child = subprocess.Popen([*command, str(workers)], cwd=ROOT)
        while child.poll() is None:
            most = max(most, anonymous(child.pid))
            time.sleep(0.05)
        assert child.returncode == 0
        return most / 1e6, time.perf_counter() - start


def main(sizes: tuple[int, ...] = SIZES, workers: int = 2) -> None:
    """Print the figures."""
    title(f"Anonymous memory of a build, {workers} workers, one copy, all texts distinct")
    (ROOT / "runs").mkdir(exist_ok=True)
    first = 0.0
    for rows in sizes:
        most, taken = measured(rows, workers)
        first = first or most
        line(f"{rows:,} rows, {taken:,.0f} s", most, "MB", most / first, f"that of {sizes[0]:,}")


def build(rows: int, place: Path, workers: int) -> None:
    """Build a set of ``rows`` source rows."""
    A.build(
        texts(rows), A.Mask(0.1) >> A.SampleNGram(0.25), out=place / "set", copies=1, seed=1,
        store=place / "store", workers=workers, show=False,
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["build"]:
        build(int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(tuple(map(int, sys.argv[1:])) or SIZES)
