"""Lesson 14: the memory of a build does not grow with its corpus.

Anonymous memory of all processes together. The sizes at which work goes to disk are set low, so
that a small corpus is past them as ten million rows are past the real ones; ``make bench`` measures
those.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.benchmarks.memory import anonymous

ROOT = Path(__file__).parents[1]
BUILD = """
import sys
from pathlib import Path
import augment.dedupe, augment.reading, augment.store
augment.reading._ROUND_TEXTS = 10_000
augment.store.MERGED = 10_000
augment.dedupe.PART_ROWS = 10_000
import augment as A
from tests.benchmarks.memory import texts
place = Path(sys.argv[2])
A.build(
    texts(int(sys.argv[1])), A.Mask(0.1) >> A.SampleNGram(0.25), out=place / "set", copies=1,
    seed=1, store=place / "store", show=False, shard_rows=10_000,
)
"""


def most(rows: int) -> int:
    """Return the largest anonymous memory of a build of ``rows`` rows."""
    with tempfile.TemporaryDirectory() as place:
        child = subprocess.Popen([sys.executable, "-c", BUILD, str(rows), place], cwd=ROOT)
        found = 0
        while child.poll() is None:
            found = max(found, anonymous(child.pid))
            time.sleep(0.01)
        assert child.returncode == 0
        return found


@pytest.mark.slow
def test_lesson_14_ten_times_the_corpus_takes_at_most_a_tenth_more_memory() -> None:
    small, large = most(30_000), most(300_000)
    assert large <= 1.1 * small, f"{small / 1e6:.0f} MB, then {large / 1e6:.0f} MB"
