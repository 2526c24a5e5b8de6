"""A word's nearest neighbours in a table of word vectors, by cosine.

The table is normalised once and its duplicate rows are put together: pruned tables map many words
to one row, and such twins are no neighbours. The search is a product of blocks, for the words
asked about alone.

Letters: R distinct rows, D width, W words asked about, K neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from augment.keyed import read, stamp

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

ROWS = 100_000  # the published augmentation looks among so many
_BLOCK = 512


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Word vectors, ready to be searched.

    Attributes:
        words: the first word of each distinct row, R strings.
        rows: the rows, of length 1, (R, D).
        known: row of every word in the table, twins and words beyond the first ``ROWS`` included;
            those beyond have theirs in ``more``.
        more: further rows that are asked about but never found, (R', D).
    """

    words: list[str]
    rows: F32
    known: dict[str, int]
    more: F32

    @classmethod
    def of(cls, words: Sequence[str], vectors: npt.NDArray[np.floating]) -> "Neighbours":
        """Take a table as it is, best known words first.

        Left out as neighbours are rows of zeros, keys of several words (``new_york``), punctuation
        and marks such as ``</s>``.
        """
        norms = np.linalg.norm(vectors, axis=1)
        usable = np.flatnonzero((norms > 0) & np.isfinite(norms))
        unit = (vectors[usable] / norms[usable, None]).astype(np.float32)
        hashes = np.array([xxhash.xxh3_64_intdigest(row) for row in unit], np.uint64)
        _, first, row = np.unique(hashes, return_index=True, return_inverse=True)
        names = [words[i] for i in usable.tolist()]
        single = np.array([_single(name) for name in names], bool)
        offered = np.flatnonzero(single & (usable < ROWS))
        # Each row goes by the first of its words that may be offered; rows keep the table's order.
        found, at = np.unique(row[offered], return_index=True)
        order = np.argsort(offered[at], kind="stable")
        found, speakers = found[order], offered[at][order]
        rest = np.setdiff1d(np.arange(len(first)), found)
        number = np.empty(len(first), np.int64)
        number[found] = np.arange(len(found))
        number[rest] = len(found) + np.arange(len(rest))
        known: dict[str, int] = {}
        for name, place in zip(names, number[row].tolist(), strict=True):
            known.setdefault(name, place)
        return cls([names[i] for i in speakers.tolist()], unit[speakers], known, unit[first[rest]])

    @classmethod
    def load(cls, name: str) -> "Neighbours":
        """Load vectors: a file in word2vec or GloVe format, or a ``gensim.downloader`` name.

        Raises:
            ResourceError: no such file or name, or it cannot be read.
        """
        return _load(*stamp(name))

    def nearest(self, words: Sequence[str], k: int) -> list[list[str]]:
        """Return up to ``k`` neighbours of each word, nearest first; none for unknown words.

        A word is looked up as it is, then in lower case. Of words that differ in case alone the
        nearest counts, and none that differs so from the word itself.
        """
        found: list[list[str]] = [[] for _ in words]
        rows = [self.known.get(w, self.known.get(w.lower(), -1)) for w in words]
        asked = [i for i, row in enumerate(rows) if row >= 0]
        if not asked or not len(self.rows):
            return found
        numbers = self._search(np.array([rows[i] for i in asked]), 2 * k + _SPARE)
        for i, near in zip(asked, numbers.tolist(), strict=True):
            others: dict[str, str] = {}
            for number in near:
                if number != rows[i]:
                    others.setdefault(self.words[number].casefold(), self.words[number])
            others.pop(words[i].casefold(), None)
            found[i] = list(others.values())[:k]
        return found

    def _search(self, rows: I64, k: int) -> I64:
        """Return the ``k`` nearest rows of each, (W, k), nearest first, a word's own last."""
        import torch

        table = torch.from_numpy(self.rows)
        every = (
            torch.from_numpy(np.concatenate([self.rows, self.more])) if len(self.more) else table
        )
        k = min(k, len(self.rows))
        out = np.empty((len(rows), k), np.int64)
        with torch.inference_mode():
            for first in range(0, len(rows), _BLOCK):
                part = torch.from_numpy(rows[first : first + _BLOCK])
                queries = torch.zeros(_BLOCK, table.shape[1])  # one shape, one rounding
                queries[: len(part)] = every[part]
                near = (queries @ table.T)[: len(part)]
                mine = part < len(table)
                near[mine.nonzero()[:, 0], part[mine]] = -2.0
                out[first : first + _BLOCK] = _best(near, k)
        return out


_SPARE = 4  # its own row, and other spellings of the word, may stand among its neighbours
_CHUNK = 64


def _best(scores, k: int):  # type: ignore[no-untyped-def]
    """Return the ``k`` largest of each row, (W, k), largest first.

    The best ``k`` lie in the ``k`` chunks of the largest maxima; whole rows need no sorting.
    """
    import torch

    count, width = scores.shape
    cut = width // _CHUNK * _CHUNK
    if cut // _CHUNK <= k:
        return scores.topk(k).indices.numpy()
    chunks = scores[:, :cut].view(count, -1, _CHUNK).amax(dim=2).topk(k).indices
    inside = (chunks[:, :, None] * _CHUNK + torch.arange(_CHUNK)).flatten(1)
    inside = torch.cat([inside, torch.arange(cut, width).expand(count, -1)], dim=1)
    return inside.gather(1, scores.gather(1, inside).topk(k).indices).numpy()


def _single(word: str) -> bool:
    return word.replace("'", "").isalnum()


@lru_cache(maxsize=2)
def _load(path: Path, size: int, changed: int) -> Neighbours:
    table = read(path)
    return Neighbours.of(table.index_to_key, table.vectors)
