"""Words: spaCy's tokenizer of the corpus's language, as byte boundaries into the text.

White-space tokens are not words. Boundaries, not strings, so the text itself stays the only copy
of its characters and joining back is exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augment.arrow import edges
from augment.errors import SettingsError
from augment.store import identity

I64 = npt.NDArray[np.int64]
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, slots=True)
class Words:
    """Word boundaries of N texts.

    Attributes:
        bounds: start and end of every word, bytes from its text's first byte, (2T,).
        counts: words per text, (N,).
    """

    bounds: I64
    counts: I64

    def to_lists(self) -> pa.ListArray:
        """Return the boundaries as one ``list<int32>`` a text: the form the store keeps."""
        offsets = np.zeros(len(self.counts) + 1, np.int32)
        np.cumsum(2 * self.counts, out=offsets[1:])
        values = pa.array(self.bounds.astype(np.int32))
        return pa.ListArray.from_arrays(pa.array(offsets), values)

    @classmethod
    def from_lists(cls, lists: pa.Array) -> "Words":
        """Read boundaries back from the store's form."""
        counts = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64) // 2
        return cls(lists.flatten().to_numpy().astype(np.int64), counts)


@lru_cache(maxsize=8)
def blank(language: str) -> Any:
    """Return spaCy's blank pipeline of a language: a tokenizer, no model.

    Raises:
        SettingsError: spaCy knows no such language.
    """
    import spacy

    try:
        return spacy.blank(language)
    except (ImportError, ValueError) as error:
        raise SettingsError(
            f"language {language!r}: spaCy has no tokenizer for it; use a code such as en, de, xx"
        ) from error


def tokenizer_identity(language: str) -> str:
    """Return the namespace of this tokenizer's boundaries in the store; imports no spaCy."""
    return identity(what="words", language=language, spacy=metadata.version("spacy"), format=1)


def tokenize(text: pa.Array, language: str) -> Words:
    """Cut N texts (no nulls) into words."""
    with _ONE_AT_A_TIME:
        nlp = _tokenizer(language, len(text))
        with nlp.memory_zone():  # it belongs to the vocabulary that all threads share
            parts = [_characters(nlp, t) for t in text.to_pylist()]
    counts = np.array([len(p) for p in parts], np.int64)
    spans = np.concatenate(parts) if parts else np.zeros((0, 2), np.int64)
    return Words(_bytes(text, spans.ravel(), counts), counts)


def flags(words: Sequence[str], language: str) -> list[tuple[bool, bool]]:
    """Return of each word whether it is alphabetic and whether it is a stop word, by spaCy."""
    with _ONE_AT_A_TIME:
        nlp = _tokenizer(language, 0)
        with nlp.memory_zone():
            return [(nlp.vocab[word].is_alpha, nlp.vocab[word].is_stop) for word in words]


def _tokenizer(language: str, texts: int) -> Any:
    """Return a pipeline of the language, a new one every so many texts.

    spaCy's tables of strings keep a place for every word that was ever in them, even once a memory
    zone has let it go.
    """
    nlp, used = _USED.get(language, (None, 0))
    if nlp is None or used + texts > _RENEWED:
        blank(language)  # says what is wrong with an unknown language
        import spacy

        nlp, used = spacy.blank(language), 0
    _USED[language] = (nlp, used + texts)
    return nlp


_RENEWED = 200_000
_USED: dict[str, tuple[Any, int]] = {}


def _characters(nlp: Any, text: str) -> I64:
    """Return start and end of every word of one text in characters, (words, 2)."""
    table = nlp.tokenizer(text).to_array(["IDX", "LENGTH", "IS_SPACE"]).astype(np.int64)
    table = table.reshape(-1, 3)
    table = table[table[:, 2] == 0]
    return np.stack([table[:, 0], table[:, 0] + table[:, 1]], axis=1)


def _bytes(text: pa.Array, places: I64, counts: I64) -> I64:
    """Turn character positions into byte positions (they differ outside ASCII)."""
    large = text.cast(pa.large_string())
    offsets = edges(large)
    data = np.frombuffer(large.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    starts = np.flatnonzero((data & 0xC0) != 0x80)  # a character's first byte
    if len(starts) == len(data):
        return places
    base = (offsets[:-1] - offsets[0]).repeat(2 * counts)
    first_character = np.searchsorted(starts, base)
    moved: I64 = np.append(starts, len(data))[first_character + places] - base
    return moved


def strings(text: pa.Array, words: Words) -> Iterator[tuple[list[str], list[bool]]]:
    """Yield what spaCy's ``Doc`` takes: all tokens, and whether a space follows each."""
    at = 0
    for value, count in zip(text.to_pylist(), words.counts.tolist(), strict=True):
        raw = value.encode()
        bounds = words.bounds[2 * at : 2 * (at + count)].tolist()
        at += count
        tokens: list[str] = []
        flags: list[bool] = []
        end = 0
        for start, stop in [*zip(bounds[::2], bounds[1::2], strict=True), (len(raw), len(raw))]:
            gap = raw[end:start].decode()
            if gap.startswith(" ") and tokens:
                flags[-1], gap = True, gap[1:]
            if gap:
                tokens.append(gap)
                flags.append(False)
            if stop > start:
                tokens.append(raw[start:stop].decode())
                flags.append(False)
            end = stop
        yield tokens, flags
