"""Word vectors for a vocabulary, from any file that gensim's ``KeyedVectors`` reads.

Read are the word2vec formats, text and binary, and GloVe's text, which lacks the header line.
``KeyedVectors.load`` is not used: it unpickles, and a file of vectors must not be able to run code.
"""

import gzip
import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    keyed = _keyed_vectors(Path(path))
    places = np.array([keyed.key_to_index.get(word, -1) for word in words], np.int64)
    places[:2] = -1
    have = places >= 0
    known = keyed.vectors[places[have]].astype(np.float32)
    spread = float(known.std()) if have.any() else 0.1
    matrix = random_vectors(words, keyed.vector_size, scale=spread / 2).matrix
    matrix[have] = known
    return Vectors(matrix, int(have.sum()))


def _keyed_vectors(path: Path) -> Any:
    from gensim.models import KeyedVectors  # heavy, and only students with vectors need it

    if not path.is_file() and not path.suffix and path.name == str(path):
        path = _downloaded(path.name)
    if not path.is_file():
        raise StudentError(
            f"{path}: no such file of word vectors; make one with: augment vectors, "
            "or leave [student] vectors out for random ones"
        )
    header, binary = _format(path)
    try:
        with warnings.catch_warnings():
            # Without a header gensim opens the file twice and leaves one handle to the collector.
            warnings.simplefilter("ignore", ResourceWarning)
            return KeyedVectors.load_word2vec_format(str(path), binary=binary, no_header=not header)
    except (ValueError, EOFError, IndexError) as error:
        raise StudentError(
            f"{path}: neither word2vec's format (text or binary) nor GloVe's text: {error}"
        ) from error


def _format(path: Path) -> tuple[bool, bool]:
    """Return whether the file starts with word2vec's header line, and whether it is binary."""
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        first, second = file.readline(4096).split(), file.read(4096)
    header = len(first) == 2 and all(part.isdigit() for part in first)
    if not header:
        return False, False
    try:
        # Only text has a readable number after the first word.
        float(second.split(b" ", 2)[1])
    except (ValueError, IndexError):
        return True, True
    return True, False


def _downloaded(name: str) -> Path:
    """Return the file of one of gensim's published sets; only the file, not its loading code."""
    from gensim import downloader

    try:
        return Path(downloader.load(name, return_path=True))
    except (OSError, ValueError) as error:
        raise StudentError(
            f"vectors {name!r}: no such file, and gensim's downloader says: {error}; "
            "give a file of vectors, made for example with: augment vectors"
        ) from error


def _draw(word: str, dims: int) -> Array:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(dims, dtype=np.float32)
