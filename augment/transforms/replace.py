"""POS-guided replacement: another word of the corpus that carries the same tag."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augment.batch import I32, I64, TokenBatch
from augment.draws import Draws
from augment.errors import NotFittedError
from augment.transforms.protocol import TokenTransform, check_rate, extend, show

_TICKETS = 1 << 24  # 64 MB of entries; a larger corpus is searched instead


@dataclass(frozen=True, eq=False)
class WordsByTag:
    """The corpus's words by tag with their counts, sorted by tag, then word.

    Attributes:
        words: V words, one entry per (tag, word).
        tags: G tag names, ascending.
        first: first entry of every tag, then V, (G+1,) int64.
        total: tokens counted up to and including each entry, (V,) int64.
    """

    words: pa.LargeStringArray
    tags: tuple[str, ...]
    first: I64
    total: I64

    @classmethod
    def count(cls, corpus: Iterable[TokenBatch]) -> "WordsByTag":
        """Count the words of a tagged corpus."""
        parts: list[pa.Table] = []
        for batch in corpus:
            assert batch.tags is not None
            names = pa.array(batch.tag_names, pa.large_string())
            tags, words = names.take(pa.array(batch.tags)), batch.table.take(pa.array(batch.words))
            table = pa.table({"tag": tags, "word": words}).group_by(["tag", "word"])
            parts.append(table.aggregate([([], "count_all")]))
        return cls.of(pa.concat_tables(parts))

    @classmethod
    def of(cls, counts: pa.Table) -> "WordsByTag":
        """Build from a table of ``tag``, ``word``, ``count_all``; rows may repeat, in any order."""
        counts = counts.group_by(["tag", "word"]).aggregate([("count_all", "sum")])
        counts = counts.rename_columns(["tag", "word", "count_all"])
        counts = counts.sort_by([("tag", "ascending"), ("word", "ascending")]).combine_chunks()
        tags = counts["tag"].to_pylist()
        words = counts["word"].cast(pa.large_string()).combine_chunks()
        if isinstance(words, pa.ChunkedArray):
            words = words.chunk(0) if words.num_chunks else pa.array([], pa.large_string())
        names = sorted(set(tags))
        first = np.searchsorted(np.array(tags, object), np.array(names, object)).astype(np.int64)
        total = np.cumsum(counts["count_all"].to_numpy()).astype(np.int64)
        return cls(words, tuple(names), np.append(first, len(tags)), total)

    def draw(self, tag: I64, u: npt.NDArray[np.float64]) -> I32 | I64:
        """Return one entry per draw from the unigram distribution within its tag.

        Args:
            tag: numbers into ``tags``, (M,).
            u: uniforms in [0, 1), (M,).
        """
        before = np.append(0, self.total)[self.first]
        low = before[tag]
        ticket = low + (u * (before[tag + 1] - low)).astype(np.int64)
        if self.holder is not None:
            found: I32 = self.holder[ticket]
            return found
        return np.asarray(np.searchsorted(self.total, ticket, side="right"), np.int64)

    @cached_property
    def holder(self) -> I32 | None:
        """Entry that holds each token's ticket, to be looked up, (tokens,); None for many."""
        tokens = int(self.total[-1]) if len(self.total) else 0
        if tokens > _TICKETS:
            return None
        counts = np.diff(self.total, prepend=0)
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


@dataclass(frozen=True, slots=True, repr=False)
class ReplacePOS(TokenTransform):
    """Replace each word, with probability ``rate``, by a word of the same part-of-speech tag.

    The new word follows the corpus's unigram distribution within the tag, so it may be the same
    word again. Needs ``fit``; ``build`` does it.
    Source: Tang et al. 2019, section 3.3, https://arxiv.org/abs/1903.12136.
    """

    rate: float = 0.1
    tagger: str = field(default="en_core_web_sm", metadata={"resource": True})
    words: WordsByTag | None = field(
        default=None, compare=False, repr=False, metadata={"setting": False}
    )
    needs = ("tags",)

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def fitted(self, corpus: Iterable[TokenBatch]) -> "ReplacePOS":
        """Return the transform holding the corpus's words by tag."""
        return replace(self, words=WordsByTag.count(corpus))

    def edit(self, batch: TokenBatch, at: I64, draws: Draws, bit: int) -> TokenBatch:
        """Draw a word of the same tag for every picked word; words of unseen tags stay.

        Raises:
            NotFittedError: the corpus's words are not known yet.
        """
        if self.words is None:
            raise NotFittedError(
                f"{self!r} does not know the corpus's words yet; "
                "call fit(texts) first (augment build does it by itself)"
            )
        assert batch.tags is not None
        known = {name: number for number, name in enumerate(self.words.tags)}
        numbers = np.array([known.get(n, -1) for n in batch.tag_names] or [-1], np.int64)
        tag = numbers[batch.tags[at]]
        at, tag = at[tag >= 0], tag[tag >= 0]
        row = batch.rows_of(at)
        u = draws.lane(1).at_positions(row, at - batch.offsets[row])
        codes, table = extend(batch.table, self.words.words)
        return batch.with_words(at, codes[self.words.draw(tag, u)], table, bit)

    __repr__ = show
