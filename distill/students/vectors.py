"""Word vectors for a vocabulary, from any file that ``augment.keyed`` reads."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from augment.errors import ResourceError
from augment.keyed import read
from distill.errors import StudentError

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vectors:
    """``matrix`` (words, dims) float32 in the vocabulary's order; ``found`` words had a vector."""

    matrix: Array
    found: int

    @property
    def coverage(self) -> float:
        """Share of the vocabulary's words that had a vector, padding and unknown left out."""
        return self.found / max(len(self.matrix) - 2, 1)


def random_vectors(words: Sequence[str], dims: int, *, scale: float = 0.1) -> Vectors:
    """Return small random vectors; a word's depends on its spelling alone, padding's is zero."""
    matrix = np.stack([_draw(word, dims) for word in words]) * np.float32(scale)
    matrix[0] = 0.0
    return Vectors(matrix.astype(np.float32), 0)


def read_vectors(path: str | Path, words: Sequence[str]) -> Vectors:
    """Return the file's vectors for ``words`` (padding first, then unknown).

    Words absent from the file get random vectors with half the spread of the file's own values.

    Raises:
        StudentError: no such file, or no vectors in it.
    """
    try:
        keyed = read(path)
    except ResourceError as error:
        raise StudentError(f"{error}; or leave [student] vectors out for random ones") from error
    places = np.array([keyed.key_to_index.get(word, -1) for word in words], np.int64)
    places[:2] = -1
    have = places >= 0
    known = keyed.vectors[places[have]].astype(np.float32)
    spread = float(known.std()) if have.any() else 0.1
    matrix = random_vectors(words, keyed.vector_size, scale=spread / 2).matrix
    matrix[have] = known
    return Vectors(matrix, int(have.sum()))


def _draw(word: str, dims: int) -> Array:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(dims, dtype=np.float32)
