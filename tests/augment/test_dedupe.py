"""Which rows stay, whether their keys fit one file or many."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from augment import dedupe
from augment.dedupe import Dedupe, first_or_original


def by_hand(
    keys: npt.NDArray[np.uint64], original: npt.NDArray[np.bool_], alive: npt.NDArray[np.bool_]
) -> list[bool]:
    """The law in plain Python."""
    rows = list(zip(map(tuple, keys.tolist()), original.tolist(), alive.tolist(), strict=True))
    originals = {key for key, is_original, lives in rows if is_original and lives}
    seen: set[tuple[int, int]] = set()
    stays = []
    for key, is_original, lives in rows:
        stays.append(lives and (is_original or (key not in originals and key not in seen)))
        if lives:
            seen.add(key)
    return stays


def drawn(rows: int, distinct: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    rng = np.random.default_rng(rows)
    pool = rng.integers(0, 2**64, (distinct, 2), np.uint64)
    pool[1] = pool[0] + np.array([0, 1], np.uint64)  # equal first halves, different texts
    return pool[rng.integers(0, distinct, rows)], rng.random(rows) < 0.2


def test_first_or_original_by_hand() -> None:
    a, b, c = (1, 1), (1, 2), (2, 1)
    keys = np.array([a, b, a, c, b, c, a], np.uint64)
    original = np.array([0, 0, 0, 1, 0, 0, 0], bool)
    assert first_or_original(keys, original).tolist() == [1, 1, 0, 1, 0, 0, 0]
    original[[2, 6]] = True
    assert first_or_original(keys, original).tolist() == [0, 1, 1, 1, 0, 0, 1]
    assert first_or_original(keys[:1], original[:1]).tolist() == [True]
    assert first_or_original(keys[:0], original[:0]).tolist() == []


@pytest.mark.parametrize("part_rows", [7, 100, 10_000])
@pytest.mark.parametrize("step", [1, 13, 900])
def test_any_number_of_files_and_any_steps_keep_the_same_rows(
    part_rows: int, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "PART_ROWS", part_rows)
    keys, original = drawn(900, 300)
    alive = np.random.default_rng(1).random(900) < 0.9
    made = Dedupe(tmp_path, 900)
    assert 900 >> made.bits <= part_rows
    with made.adding() as add:
        for first in range(0, 900, step):
            part = slice(first, first + step)
            add(keys[part], original[part], alive[part])
    keep = made.keep()
    assert keep.tolist() == by_hand(keys, original, alive)
    assert 0 < keep.sum() < alive.sum()
    assert [p.name for p in tmp_path.iterdir()] == ["keep"]
