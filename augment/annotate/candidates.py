"""Words that may stand in a word's place: a column beside the tokens, made once a text.

Words that are one piece for the masked language model get its favourites, words of several pieces
their nearest neighbours among word vectors; capitals are carried over. Which words are asked about
says spaCy's vocabulary: alphabetic ones, stop words left out if wanted.

Letters: N texts, T words of theirs.
Source: Jiao et al. 2020, Algorithm 1, https://arxiv.org/abs/1909.10351.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augment import keyed
from augment.annotate.layout import Places
from augment.annotate.masked_lm import MaskedLM
from augment.annotate.neighbours import Neighbours
from augment.arrow import edges
from augment.batch import TokenBatch, cut
from augment.runtimes import RuntimeName
from augment.store import identity
from augment.tokens import Words, flags, tokenizer_identity

I64 = npt.NDArray[np.int64]
CANDIDATES = pa.list_(pa.list_(pa.string()))
FORMAT = 1
NONE = "none"

Mode = Literal["masked", "spread", "unmasked"]
Context = Literal["masked", "both"]
Touched = Literal["content", "alphabetic"]


@dataclass(frozen=True, slots=True)
class CandidateSource:
    """What decides a word's candidates; see ``Substitute`` for the meaning of each.

    Attributes:
        depth: candidates kept of a word.
    """

    model: str
    vectors: str
    mode: Mode
    context: Context
    touch: Touched
    max_tokens: int | None
    precision: str
    runtime: RuntimeName
    depth: int

    def identity(self, language: str) -> str:
        """Return a digest of everything that could change a candidate; loads the model.

        Raises:
            ResourceError: the model or the vectors cannot be had.
        """
        vectors = NONE if self.vectors == NONE else keyed.identity_of(self.vectors)
        facts = {"mode": self.mode, "context": self.context, "touch": self.touch}
        return identity(
            what="candidates",
            model=self.masked_lm().identity,
            vectors=vectors,
            depth=self.depth,
            words=tokenizer_identity(language),
            format=FORMAT,
            **facts,
        )

    def masked_lm(self) -> MaskedLM:
        """Return the model, loaded when first asked for."""
        return MaskedLM.load(
            self.model,
            depth=self.depth,
            max_tokens=self.max_tokens,
            precision=self.precision,
            runtime=self.runtime,
        )


def candidates(text: pa.Array, words: Words, source: CandidateSource, language: str) -> pa.Array:
    """Return for every word of N texts its candidates, best first: ``list<list<string>>``.

    Args:
        text: N texts without nulls.
        words: where their words are.
        source: what decides them.
        language: spaCy code of the tokenizer.
    """
    batch = cut(text, words.bounds, words.counts)
    strings = batch.table.to_pylist()
    used = np.unique(batch.words).tolist()
    touched, style = np.zeros(len(strings), bool), np.zeros(len(strings), np.int64)
    for code, (alpha, stop) in zip(used, flags([strings[c] for c in used], language), strict=True):
        touched[code] = alpha and not (source.touch == "content" and stop)
        style[code] = _style(strings[code])
    asked = np.flatnonzero(touched[batch.words])
    codes = batch.words[asked]
    if not len(asked):
        return _lists_of(batch, np.zeros(len(batch.words), np.int64), pa.array([], pa.string()))
    model = source.masked_lm()
    places = _places(text, words, batch.rows_of(asked), asked)
    single, counts, tops = model.candidates(
        text.to_pylist(), places, mode=source.mode, context=source.context, depth=source.depth
    )
    table = _Table(model.vocabulary.words)
    chosen = table.styled(tops, np.repeat(style[codes], counts))
    if source.vectors != NONE:
        rare = np.flatnonzero(~single)
        kinds, which = np.unique(codes[rare], return_inverse=True)
        near = Neighbours.load(source.vectors).nearest([strings[c] for c in kinds], source.depth)
        lists = [table.added(words, int(style[c])) for c, words in zip(kinds, near, strict=True)]
        counts, chosen = _merged(counts, chosen, rare, which, lists)
    total = np.zeros(len(batch.words), np.int64)
    total[asked] = counts
    return _lists_of(batch, total, table.strings().take(pa.array(chosen)))


def _lists_of(batch: TokenBatch, counts: I64, strings: pa.Array) -> pa.Array:
    """Return strings as one list a word, those as one list a text."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    inner = pa.ListArray.from_arrays(pa.array(offsets), strings)
    return pa.ListArray.from_arrays(pa.array(batch.offsets.astype(np.int32)), inner)


class _Table:
    """Candidates' strings by number: the model's words in three styles, then the neighbours'."""

    def __init__(self, words: list[str]) -> None:
        self.words, self.more = words, list[str]()

    def styled(self, numbers: I64, style: I64) -> I64:
        return numbers + style * len(self.words)

    def added(self, words: list[str], style: int) -> list[int]:
        first = 3 * len(self.words) + len(self.more)
        self.more += [_in_style(word, style) for word in words]
        return list(range(first, first + len(words)))

    def strings(self) -> pa.Array:
        model = [_in_style(word, style) for style in range(3) for word in self.words]
        return pa.array(model + self.more, pa.string())


def _style(word: str) -> int:
    """Return 0 for a word to be left as the model writes it, 1 for a Capital, 2 for CAPITALS."""
    if len(word) > 1 and word.isupper():
        return 2
    return int(word[:1].isupper() and (len(word) == 1 or word[1:].islower()))


def _in_style(word: str, style: int) -> str:
    return (word, word[:1].upper() + word[1:], word.upper())[style]


def _places(text: pa.Array, words: Words, row: I64, at: I64) -> Places:
    """Return words as characters of their texts; the boundaries are bytes."""
    start, end = words.bounds[0::2][at], words.bounds[1::2][at]
    large = text.cast(pa.large_string())
    if not pc.all(pc.string_is_ascii(large)).as_py():
        offsets = edges(large)
        data = np.frombuffer(large.buffers()[2], np.uint8)
        before = np.append(0, np.cumsum((data & 0xC0) != 0x80))  # characters before each byte
        base = offsets[row]
        start, end = (before[base + place] - before[base] for place in (start, end))
    return Places(row, start, end)


def _merged(
    counts: I64, chosen: I64, rare: I64, which: I64, lists: list[list[int]]
) -> tuple[I64, I64]:
    """Put the neighbours of rare words in among the model's candidates, which have none there."""
    sizes = np.array([len(found) for found in lists] or [0], np.int64)
    if not len(rare):
        return counts, chosen
    merged = counts.copy()
    merged[rare] = sizes[which]
    ends = np.cumsum(merged)
    out = np.empty(int(ends[-1]), np.int64)
    of = np.repeat(np.arange(len(merged)), merged)
    rarely = np.zeros(len(merged), bool)
    rarely[rare] = True
    out[~rarely[of]] = chosen
    flat = np.array([number for found in lists for number in found], np.int64)
    first = np.append(0, np.cumsum(sizes))[which]
    inside = np.arange(len(out)) - np.repeat(ends - merged, merged)
    begin = np.zeros(len(merged), np.int64)
    begin[rare] = first
    mine = rarely[of]
    out[mine] = flat[begin[of[mine]] + inside[mine]]
    return merged, out
