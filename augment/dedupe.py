"""Which rows of a set stay: every original, and of equal copies the first that equals none.

Rows come by their content keys, in set order. Keys are dealt by their first bits into files of
about half a million, which are then settled one at a time: memory does not grow with the set.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from augment.files import mapped
from augment.keys import Keys

PART_ROWS = 500_000
"""Rows per file on average; settling one takes about 60 MB."""
_MOST = 512

Mask = npt.NDArray[np.bool_]


class Dedupe:
    """Takes the keys of a set's rows, then tells which of the rows stay.

    Args:
        folder: where the files go; they are the caller's to remove.
        rows: how many rows will come.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        self.bits = 0
        while (rows >> self.bits) > PART_ROWS and 1 << self.bits < _MOST:
            self.bits += 1
        self.added = 0

    @contextmanager
    def adding(self) -> Iterator[Any]:
        """Yield ``add(keys, original, alive)``: keys (M, 2), and two masks (M,), in set order.

        ``original`` rows stay whatever they equal; rows that are not ``alive`` are gone already.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            files = [stack.enter_context(open(path, "wb")) for path in self._paths()]

            def add(keys: Keys, original: Mask, alive: Mask) -> None:
                at = np.flatnonzero(alive)
                records = np.empty((len(at), 3), np.uint64)
                records[:, :2] = keys[at]
                records[:, 2] = (at.astype(np.uint64) + np.uint64(self.added)) * np.uint64(2)
                records[:, 2] += original[at]
                self.added += len(keys)
                for file, part in zip(files, self._dealt(records), strict=True):
                    file.write(part.tobytes())

            yield add

    def keep(self) -> Mask:
        """Return which rows stay, (rows,), mapped from a file."""
        keep: Mask = mapped(self.folder / "keep", np.bool_, (self.rows,))
        for path in self._paths():
            records = np.fromfile(path, np.uint64).reshape(-1, 3)
            stays = first_or_original(records[:, :2], (records[:, 2] & np.uint64(1)) > 0)
            keep[(records[stays, 2] >> np.uint64(1)).astype(np.int64)] = True
            path.unlink()
        return keep

    def _paths(self) -> list[Path]:
        return [self.folder / f"keys-{number:03d}" for number in range(1 << self.bits)]

    def _dealt(self, records: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.uint64]]:
        """Return the records of every file, in order."""
        if not self.bits:
            return [records]
        part = (records[:, 0] >> np.uint64(64 - self.bits)).astype(np.uint16)
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(1, 1 << self.bits))
        return np.split(records[order], ends)


def first_or_original(keys: Keys, original: Mask) -> Mask:
    """Return which rows stay: all originals, and of equal copies the first that equals none.

    Args:
        keys: content keys in set order, (M, 2).
        original: (M,).
    """
    keep = np.ones(len(keys), bool)
    if len(keys) < 2:
        return keep
    # Most keys are alone: one quick sort by the first half finds them, the rest is sorted whole.
    order = np.argsort(keys[:, 0])
    high = keys[order, 0]
    tie = np.zeros(len(keys) + 1, bool)
    tie[1:-1] = high[1:] == high[:-1]
    some = np.sort(order[tie[1:] | tie[:-1]])
    if not len(some):
        return keep
    some = some[np.lexsort((keys[some, 1], keys[some, 0]))]
    first = np.ones(len(some), bool)
    first[1:] = (keys[some[1:]] != keys[some[:-1]]).any(axis=1)
    has_original = np.maximum.reduceat(original[some].astype(np.uint8), np.flatnonzero(first))
    group = np.cumsum(first) - 1
    keep[some] = original[some] | (first & (has_original[group] == 0))
    return keep
