"""Random numbers that depend on place alone: u = f(seed, place, column, row, copy, position).

A counter-based generator evaluated as array arithmetic. Every row gets a 64-bit stream key; token
``t`` of the row reads output ``t`` of the SplitMix64 generator started there (Steele, Lea and
Flood 2014, "Fast splittable pseudorandom number generators", with the finaliser known as
Stafford's variant 13). Nothing depends on the batch a row travels in.

Letters: N rows, T tokens.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from augment.batch import TokenBatch

U64 = npt.NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_BLOCK = 1 << 12


def mix(x: U64) -> U64:
    """Apply the SplitMix64 finaliser, a bijection on 64-bit integers, in place; returns ``x``."""
    scratch = x >> np.uint64(30)
    x ^= scratch
    x *= _MIX1
    np.right_shift(x, np.uint64(27), out=scratch)
    x ^= scratch
    x *= _MIX2
    np.right_shift(x, np.uint64(31), out=scratch)
    x ^= scratch
    return x


def _absorb(key: U64, value: Any) -> U64:
    """Fold one more coordinate into a stream key."""
    with np.errstate(over="ignore"):
        return mix(key + _GAMMA * np.asarray(value).astype(np.uint64))


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of one transform over one batch.

    Attributes:
        keys: stream key of every row, (N,) uint64.
    """

    keys: U64

    @classmethod
    def at(cls, seed: int, place: int, column: int, rows: U64, copies: npt.NDArray[Any]) -> "Draws":
        """Return the draws of transform number ``place`` on text column number ``column``.

        Args:
            seed: the user's seed, any 64-bit integer.
            place: the transform's place in the chain, from 0.
            column: 0 or 1.
            rows: row ids, (N,) uint64.
            copies: copy numbers, (N,) integers.
        """
        key = np.array([seed % 2**64], np.uint64)
        for value in (place + 1, column + 1):
            key = _absorb(key, value)
        return cls(_absorb(_absorb(key ^ mix(rows.astype(np.uint64)), 1), copies))

    def lane(self, number: int) -> "Draws":
        """Return an independent stream for a further draw at the same place."""
        return Draws(_absorb(self.keys, number))

    def rows(self) -> npt.NDArray[np.float64]:
        """Return one uniform in [0, 1) per row, (N,)."""
        return _unit(_absorb(self.keys, 0))

    def tokens(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return one uniform in [0, 1) per token, (T,), for rows starting at ``offsets`` (N+1,)."""
        total = int(offsets[-1]) - int(offsets[0])
        out = np.empty(total, np.float64)
        with np.errstate(over="ignore"):
            starts = self.keys - offsets[:-1].astype(np.uint64) * _GAMMA
            counts = np.diff(offsets)
            for first in range(0, len(counts), _BLOCK):
                part = slice(first, first + _BLOCK)
                a, b = int(offsets[first]), int(offsets[min(first + _BLOCK, len(counts))])
                state = np.repeat(starts[part], counts[part])
                state += np.arange(a + 1, b + 1, dtype=np.uint64) * _GAMMA
                out[a - int(offsets[0]) : b - int(offsets[0])] = _unit(mix(state))
        return out

    def at_positions(
        self, row: npt.NDArray[np.int64], position: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the same uniforms as :meth:`tokens`, only for some (row, position) pairs."""
        with np.errstate(over="ignore"):
            return _unit(mix(self.keys[row] + (position + 1).astype(np.uint64) * _GAMMA))


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run a transform stands: all its randomness follows from it and the rows.

    Attributes:
        seed: the user's seed.
        column: number of the text column.
        number: the transform's number in the chain.
    """

    seed: int
    column: int = 0
    number: int = 0

    def draws(self, batch: TokenBatch) -> Draws:
        """Return the draws of this place for the batch's rows and copies."""
        return Draws.at(self.seed, self.number, self.column, batch.rows, batch.copies)

    def after(self, leaves: int) -> "Place":
        """Return the place ``leaves`` transforms later."""
        return replace(self, number=self.number + leaves)


def _unit(x: U64) -> npt.NDArray[np.float64]:
    x >>= np.uint64(11)
    return x.astype(np.float64) * 2.0**-53
