"""Files of word vectors: word2vec's formats, text and binary, and GloVe's text without a header.

``KeyedVectors.load`` is not used: it unpickles, and a file of vectors must not be able to run code.
Of ``gensim.downloader`` only the file is taken: its own loading runs code that it fetched.
"""

import gzip
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import xxhash

from augment.errors import ResourceError


def find(name: str | Path) -> Path:
    """Return the file of some vectors: a path, or a name that ``gensim.downloader`` knows.

    Raises:
        ResourceError: no such file, and no such name or no network.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix or path.name != str(name):
        raise ResourceError(f"{name}: no such file of word vectors; make one with: augment vectors")
    from gensim import downloader

    try:
        return Path(downloader.load(str(name), return_path=True))
    except (OSError, ValueError) as error:
        raise ResourceError(
            f"vectors {str(name)!r}: no such file, and gensim's downloader says: {error}; get them "
            f"with: python -m gensim.downloader --download {name} (offline: augment vectors)"
        ) from error


def read(name: str | Path, rows: int | None = None) -> Any:
    """Return gensim's ``KeyedVectors`` of a file, its first ``rows`` words or all.

    Raises:
        ResourceError: no such file, or no vectors in it.
    """
    from gensim.models import KeyedVectors

    path = find(name)
    header, binary = _format(path)
    try:
        with warnings.catch_warnings():
            # Without a header gensim opens the file twice and leaves one handle to the collector.
            warnings.simplefilter("ignore", ResourceWarning)
            return KeyedVectors.load_word2vec_format(
                str(path), binary=binary, no_header=not header, limit=rows
            )
    except (ValueError, EOFError, IndexError, MemoryError) as error:  # a torn header claims much
        raise ResourceError(
            f"{path}: neither word2vec's format (text or binary) nor GloVe's text: {error}"
        ) from error


def stamp(name: str | Path) -> tuple[Path, int, int]:
    """Return a vectors file, its size and when it changed (ns): what tells it from its next."""
    path = find(name)
    about = path.stat()
    return path, about.st_size, about.st_mtime_ns


def identity_of(name: str | Path) -> str:
    """Return a digest of some vectors' file."""
    return _digest(*stamp(name))


@lru_cache(maxsize=4)
def _digest(path: Path, size: int, changed: int) -> str:
    state = xxhash.xxh3_128()
    with path.open("rb") as file:
        while part := file.read(1 << 24):
            state.update(part)
    return state.hexdigest()


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
