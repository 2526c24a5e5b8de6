"""A word's nearest neighbours in a table of word vectors, by cosine.

The table is normalised once and its duplicate rows are put together: pruned tables map many words
to one row, and such twins are no neighbours. The search is a product of blocks, for the words
asked about alone.

Letters: R distinct rows, D width, W words asked about, K neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import xxhash

from augment.keyed import read

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

        Left out as neighbours are rows of zeros, keys of several words (``new_york``) and
        punctuation.
        """
        norms = np.linalg.norm(vectors, axis=1)
        usable = np.flatnonzero((norms > 0) & np.isfinite(norms))
        unit = (vectors[usable] / norms[usable, None]).astype(np.float32)
        hashes = np.array([xxhash.xxh3_64_intdigest(row) for row in unit], np.uint64)
        _, first, row = np.unique(hashes, return_index=True, return_inverse=True)
        single = np.array([_single(words[usable[i]]) for i in first.tolist()], bool)
        offered = single & (usable[first] < ROWS)
        # Rows keep the table's order; what is never offered stands behind what is.
        place = np.lexsort([first, ~offered])
        number = np.empty_like(place)
        number[place] = np.arange(len(place))
        known: dict[str, int] = {}
        for index, at in zip(usable.tolist(), number[row].tolist(), strict=True):
            known.setdefault(words[index], at)
        ordered = unit[first[place]]
        count = int(offered.sum())
        names = [words[usable[i]] for i in first[place][:count].tolist()]
        return cls(names, ordered[:count], known, ordered[count:])

    @classmethod
    def load(cls, name: str) -> "Neighbours":
        """Load vectors: a file in word2vec or GloVe format, or a ``gensim.downloader`` name.

        Raises:
            ResourceError: no such file or name, or it cannot be read.
        """
        return _load(str(name))

    def nearest(self, words: Sequence[str], k: int) -> list[list[str]]:
        """Return up to ``k`` neighbours of each word, nearest first; none for unknown words.

        A word is looked up as it is, then in lower case. Neighbours that differ from it in case
        alone are left out.
        """
        found: list[list[str]] = [[] for _ in words]
        rows = [self.known.get(w, self.known.get(w.lower(), -1)) for w in words]
        asked = [i for i, row in enumerate(rows) if row >= 0]
        if not asked or not len(self.rows):
            return found
        numbers = self._search(np.array([rows[i] for i in asked]), k + _SPARE)
        for i, near in zip(asked, numbers.tolist(), strict=True):
            folded = words[i].casefold()
            others = [self.words[n] for n in near if n != rows[i]]
            found[i] = [word for word in others if word.casefold() != folded][:k]
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
    return "_" not in word and word.split() == [word] and any(map(str.isalnum, word))


@lru_cache(maxsize=2)
def _load(name: str) -> Neighbours:
    table = read(name)
    return Neighbours.of(table.index_to_key, table.vectors)
