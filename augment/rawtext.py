"""Raw text: the lines and columns of files, and what of it is held out from training."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa

from augment.errors import CorpusError, ResourceError, SettingsError
from augment.readers import read_file

GENSIM = "package:gensim"
"""A corpus's name: 300 articles of the Australian Broadcasting Corporation that gensim ships."""
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
_MOST_HELD_OUT = 2_000


def read_texts(
    corpora: Sequence[str], columns: Sequence[str], min_words: Sequence[int]
) -> list[str]:
    """Return the texts of files in order, each once: case and white space make no difference.

    Args:
        corpora: files, or ``package:gensim``. Of csv, tsv, json lines and Parquet the text columns
            are read, of a .txt too when its first line names one of them; of others every line.
        columns: names of text columns; each file has one of them at least.
        min_words: texts with fewer words are left out; one number for all files, or one a file.

    Raises:
        CorpusError: a file cannot be read, has none of the columns, or no text is left.
        SettingsError: ``min_words`` are neither one nor as many as the files.
    """
    if len(min_words) not in (1, len(corpora)):
        raise SettingsError(
            f"min_words is one number for all files or one for each of the {len(corpora)}, "
            f"got {len(min_words)}"
        )
    least = list(min_words) * (len(corpora) if len(min_words) == 1 else 1)
    found: dict[str, str] = {}
    for name, words in zip(corpora, least, strict=True):
        for text in _texts(name, columns):
            if len(text.split()) >= max(1, words):
                found.setdefault(_same(text), text)
    if not found:
        raise CorpusError(f"{', '.join(corpora)}: no text of {min(least)} words or more")
    return list(found.values())


def hold_out(texts: Sequence[str], share: float, seed: int) -> tuple[list[str], list[str]]:
    """Deal texts into training and held-out ones, at most 2,000 of these; both keep their order."""
    count = min(_MOST_HELD_OUT, max(1, round(share * len(texts))))
    out = np.zeros(len(texts), bool)
    out[np.random.default_rng(seed).choice(len(texts), min(count, len(texts)), replace=False)] = (
        True
    )
    train = [text for text, held in zip(texts, out, strict=True) if not held]
    return train, [text for text, held in zip(texts, out, strict=True) if held]


def not_within(held_out: Sequence[str], train: Iterable[str]) -> list[str]:
    """Return the held-out texts that stand in no training text, as a whole or as a part of it."""
    waiting: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for text in held_out:
        words = tuple(_same(text).split())
        waiting.setdefault(words[:3], []).append(words)
    within: set[tuple[str, ...]] = set()
    for text in train:
        words = tuple(_same(text).split())
        if len(words) < 3:
            within.add(words)
        # Whole texts are compared only where one begins with the same three words.
        for at, start in enumerate(zip(words, words[1:], words[2:], strict=False)):
            for wanted in waiting.get(start, ()):
                if words[at : at + len(wanted)] == wanted:
                    within.add(wanted)
    return [text for text in held_out if tuple(_same(text).split()) not in within]


def file_of(name: str) -> Path:
    """Return the file that a corpus is read from, there or not.

    Raises:
        ResourceError: ``package:gensim``, and gensim is not installed.
    """
    return _gensim() if name == GENSIM else Path(name)


def _same(text: str) -> str:
    return " ".join(text.casefold().split())


def _texts(name: str, columns: Sequence[str]) -> Iterator[str]:
    path = file_of(name)
    if not path.is_file():
        raise CorpusError(f"{name}: no such file (gensim's news text is called {GENSIM})")
    if path.suffix.lower() not in _TABLES and not _names_a_column(path, columns):
        yield from _lines(path)
        return
    for table in read_file(path):
        have = [column for column in columns if column in table.column_names]
        if not have:
            raise CorpusError(
                f"{path}: no column {' or '.join(map(repr, columns))}; it has "
                f"{', '.join(table.column_names)}; name the text with columns in a stage, "
                "with --text on the command line"
            )
        for column in have:
            kind = table[column].type
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise CorpusError(f'{path}: column "{column}" holds {kind}, expected text')
            yield from (text for text in table[column].to_pylist() if text is not None)


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            for line in file:
                yield line.strip()
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: not UTF-8 ({error}); convert it first") from error


def _names_a_column(path: Path, columns: Sequence[str]) -> bool:
    """Return whether a .txt is a table, as GLUE's are: its first line has tabs and the names."""
    if path.suffix.lower() != ".txt":
        return False
    header = next(_lines(path), "").split("\t")
    return len(header) > 1 and bool(set(header) & set(columns))


def _gensim() -> Path:
    # By its place, not by gensim.test.utils, whose import takes seconds.
    spec = find_spec("gensim")
    if spec is None or spec.origin is None:
        raise ResourceError(f"{GENSIM}: gensim is not installed; run: pip install gensim")
    return Path(spec.origin).parent / "test" / "test_data" / "lee_background.cor"
