"""Random numbers that depend on place alone: u = f(seed, place, column, row, copy, position).

A counter-based generator evaluated as array arithmetic. Every row gets a 64-bit stream key; token
``t`` of the row reads output ``t`` of the SplitMix64 generator started there (Steele, Lea and
Flood 2014, "Fast splittable pseudorandom number generators", with the finaliser known as
Stafford's variant 13). Nothing depends on the batch a row travels in.

Letters: N rows, T tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from augment.batch import TokenBatch

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

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


@dataclass(frozen=True)
class Draws:
    """The random numbers of one transform over one batch; nothing is computed before it is asked.

    Attributes:
        make: returns ``keys``.
    """

    make: Callable[[], U64]

    @cached_property
    def keys(self) -> U64:
        """Stream key of every row, (N,) uint64."""
        return self.make()

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

        def keys() -> U64:
            key = np.array([seed % 2**64], np.uint64)
            for value in (place + 1, column + 1):
                key = _absorb(key, value)
            return _absorb(_absorb(key ^ mix(rows.astype(np.uint64)), 1), copies)

        return cls(keys)

    def lane(self, number: int) -> "Draws":
        """Return an independent stream for a further draw at the same place."""
        return Draws(lambda: _absorb(self.keys, number))

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

    def below(self, offsets: npt.NDArray[np.int64], limit: float) -> tuple[I64, F64]:
        """Return which tokens draw a uniform below ``limit``, and those uniforms.

        The same as looking through :meth:`tokens`, but only what is found is made a float.

        Args:
            offsets: first token of every row, then T, (N+1,), from 0.
            limit: in [0, 1].

        Returns:
            Token numbers, ascending, and their draws, (M,) each.
        """
        # u = (x >> 11) / 2**53 is below the limit where the integer x is below this bound.
        bound = np.uint64(min(ceil(limit * 2.0**53) << 11, 2**64 - 1))
        counts = np.diff(offsets)
        places: list[I64] = []
        values: list[U64] = []
        for first in range(0, len(counts), _BLOCK):
            part = slice(first, first + _BLOCK)
            begins = offsets[part] - offsets[first]
            starts = self.keys[part] - begins[: len(counts[part])].astype(np.uint64) * _GAMMA
            state = np.repeat(starts, counts[part])
            state += _steps(len(state))
            found = np.flatnonzero((mix(state) < bound) | (limit >= 1))
            values.append(state[found])
            places.append(found + offsets[first])
        if not places:
            return np.zeros(0, np.int64), np.zeros(0, np.float64)
        return np.concatenate(places), _unit(np.concatenate(values))

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


def _steps(count: int) -> U64:
    """Return the generator's steps 1 to ``count``, times its increment."""
    return _many_steps(max(count - 1, 0).bit_length())[:count]


@lru_cache(maxsize=4)
def _many_steps(bits: int) -> U64:
    return np.arange(1, (1 << bits) + 1, dtype=np.uint64) * _GAMMA


def _unit(x: U64) -> npt.NDArray[np.float64]:
    x >>= np.uint64(11)
    return x.astype(np.float64) * 2.0**-53
