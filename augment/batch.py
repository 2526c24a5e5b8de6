"""Token batches: rows of words as columns, and the exact way back to text.

A row is ``lead + word + space + word + space …``: white space belongs to the word before it, or to
``lead``. Words and white space are codes into one Arrow string table, so joining back is a single
gather whose data buffer *is* the joined text.

Letters: N rows, T tokens.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augment.arrow import edges

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list of strings beside every token; the lists themselves are shared, not copied.

    Attributes:
        first: where a token's list begins in ``pool``, (T,) int64.
        count: its length, (T,) int32.
        pool: all lists end to end, codes into ``strings``, (P,) int32.
        strings: each string once, ``pa.large_string``.
    """

    first: I64
    count: I32
    pool: I32
    strings: pa.LargeStringArray

    def take(self, tokens: npt.NDArray[Any]) -> "Lists":
        """Return the lists of some tokens."""
        return replace(self, first=self.first[tokens], count=self.count[tokens])


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Rows of one text column, cut into words.

    Attributes:
        rows: row ids the draws are keyed by, (N,) uint64.
        copies: copy number of every row, (N,) int32; 0 is the original.
        offsets: first token of every row, then T, (N+1,) int64.
        words: code of every word in ``table``, (T,) int32.
        spaces: code of the white space that follows the word, (T,) int32.
        lead: code of the white space before the first word, (N,) int32.
        table: the strings, ``pa.large_string``, each once; codes are numbers into it.
        tags: fine-grained tag of every word, (T,) int32 into ``tag_names``; None until tagged.
        tag_names: names of the tags.
        candidates: words that may stand in each word's place; None until asked for.
        edits: bit p of a row is set when transform p of the chain changed it, (N,) int64.
    """

    rows: npt.NDArray[np.uint64]
    copies: I32
    offsets: I64
    words: I32
    spaces: I32
    lead: I32
    table: pa.LargeStringArray
    tags: I32 | None = None
    tag_names: tuple[str, ...] = ()
    candidates: Lists | None = None
    edits: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.edits) != len(self.rows):
            object.__setattr__(self, "edits", np.zeros(len(self.rows), np.int64))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    @property
    def lengths(self) -> I64:
        """Words per row, (N,)."""
        return np.diff(self.offsets)

    def take(self, index: npt.NDArray[Any], copies: I32 | None = None) -> "TokenBatch":
        """Return rows by number, repeats allowed; ``copies`` renumbers them."""
        tokens, offsets = spans(self.offsets[index], self.lengths[index])
        return replace(
            self,
            rows=self.rows[index],
            copies=self.copies[index] if copies is None else copies,
            offsets=offsets,
            words=self.words[tokens],
            spaces=self.spaces[tokens],
            lead=self.lead[index],
            edits=self.edits[index],
            **self.annotations(tokens),
        )

    def annotations(self, tokens: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the annotation columns of some tokens, by name."""
        return {
            "tags": None if self.tags is None else self.tags[tokens],
            "candidates": None if self.candidates is None else self.candidates.take(tokens),
        }

    def with_words(self, at: I64, codes: I32, table: pa.LargeStringArray, bit: int) -> "TokenBatch":
        """Return the batch with the words at token numbers ``at`` exchanged, edits marked.

        A word exchanged for itself counts as untouched. Annotations of exchanged words stay: they
        describe the source word. ``table`` begins with the batch's own.
        """
        changed = self.words[at] != codes
        at = at[changed]
        words = self.words.copy()
        words[at] = codes[changed]
        edits = self.edits.copy()
        edits[self.rows_of(at)] |= np.int64(1) << bit
        return replace(self, words=words, table=table, edits=edits)

    def rows_of(self, at: I64) -> I64:
        """Return the row that each of some tokens belongs to, (M,)."""
        if 16 * len(at) < len(self.words):
            return np.searchsorted(self.offsets, at, side="right") - 1
        return np.repeat(np.arange(len(self)), self.lengths)[at]

    def text(self) -> pa.LargeStringArray:
        """Join every row back to text, (N,); untouched characters are byte-identical."""
        n, total = len(self), len(self.words)
        lead = self.table.take(pa.array(np.unique(self.lead)))
        if pc.sum(pc.binary_length(lead)).as_py():
            first = 2 * self.offsets + np.arange(n + 1)
            codes = np.empty(2 * total + n, np.int32)
            at = 2 * np.arange(total) + np.repeat(np.arange(1, n + 1), self.lengths)
            codes[at] = self.words
            codes[at + 1] = self.spaces
            codes[first[:-1]] = self.lead
        else:  # hardly a text begins with white space
            first = 2 * self.offsets
            codes = np.stack([self.words, self.spaces], axis=1).ravel()
        pieces = self.table.take(pa.array(codes))
        ends = edges(pieces)[first]
        return pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pieces.buffers()[2])


def spans(starts: I64, lengths: I64) -> tuple[I64, I64]:
    """Return the numbers covered by many runs, one after another, and the runs' new offsets."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    index = np.arange(offsets[-1])
    index += np.repeat(starts - offsets[:-1], lengths)
    return index, offsets


def cut(
    text: pa.Array, bounds: I64, words: I64, rows: npt.NDArray[np.uint64] | None = None
) -> TokenBatch:
    """Cut texts at word boundaries into a batch.

    Args:
        text: N texts, no nulls.
        bounds: start and end of every word in bytes from its row's first byte, (2T,).
        words: words per row, (N,).
        rows: row ids, (N,); the row numbers when left out.

    Returns:
        A batch of originals (copy 0). The string table holds every distinct piece once.
    """
    text = text.cast(pa.large_string())
    n, total = len(text), int(words.sum())
    starts = edges(text)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(words, out=offsets[1:])
    # Pieces of row i: lead, then word and space in turn; each ends where the next one starts.
    places = np.empty(2 * total + n + 1, np.int64)
    first = 2 * offsets[:-1] + np.arange(n)
    places[np.append(first, len(places) - 1)] = starts
    at = 2 * np.arange(total) + np.repeat(np.arange(1, n + 1), words)
    begin = np.repeat(starts[:-1], words)
    places[at] = bounds[0::2] + begin
    places[at + 1] = bounds[1::2] + begin
    pieces = pa.LargeStringArray.from_buffers(
        len(places) - 1, pa.py_buffer(places), text.buffers()[2]
    ).dictionary_encode()
    codes = pieces.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return TokenBatch(
        rows=np.arange(n, dtype=np.uint64) if rows is None else rows,
        copies=np.zeros(n, np.int32),
        offsets=offsets,
        words=codes[at],
        spaces=codes[at + 1],
        lead=codes[first],
        table=pieces.dictionary,
    )
