"""Where words lie in a model's pieces, and which sequences ask about them.

Modes: ``masked`` masks one word a sequence. ``spread`` masks several far-apart words of a sequence
at once, so that fewer are read. ``unmasked`` masks nothing: one sequence answers for all its words,
which the model then sees. A text too long for the model is read through windows: centred on the
word in ``masked``, half overlapping in the others.

Letters: N texts, J words asked about, S sequences, L pieces of a sequence, P places asked about.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from augment.machine import rows_per_batch

I64 = npt.NDArray[np.int64]

_FAR = 8  # pieces between two words masked at once
_CHUNK = 500_000  # pieces laid out at once


@dataclass(frozen=True, slots=True)
class Places:
    """Some words of N texts, in order.

    Attributes:
        text: number of the word's text, (J,).
        start: its first character, (J,).
        end: one past its last, (J,).
    """

    text: I64
    start: I64
    end: I64


@dataclass(frozen=True, slots=True)
class Frame:
    """What a tokenizer puts around a text, and between a text and its companion."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: bool

    @classmethod
    def of(cls, tokenizer: Any, pair: bool) -> "Frame":
        """Read it off a short text."""
        bare = tokenizer("a", add_special_tokens=False)["input_ids"]
        texts = ("a", "a") if pair else ("a",)
        ids = tokenizer(*texts)["input_ids"]
        n = len(bare)
        begins = [i for i in range(len(ids) - n + 1) if ids[i : i + n] == bare]
        first, last = begins[0], begins[-1]
        between = tuple(ids[first + n : last]) if pair else ()
        types = "token_type_ids" in tokenizer.model_input_names
        return cls(tuple(ids[:first]), between, tuple(ids[last + n :]), types)

    def room(self, longest: int, pair: bool) -> int:
        """Return how many pieces of a text fit."""
        free = longest - len(self.before) - len(self.between) - len(self.after)
        return max(1, free // 2 if pair else free)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences of one length and the places asked about.

    Attributes:
        inputs: of the encoder: ``place``, the states wanted, (P,), and (S, L) arrays.
        job: numbers of the single-piece words answered here.
        place: number into the batch's P states of each of them.
    """

    inputs: dict[str, npt.NDArray[Any]]
    job: I64
    place: I64


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The sequences that ask about some words.

    Attributes:
        single: which of the J words are one piece, (J,).
        pieces: number of each single-piece word's piece in the vocabulary, (J',).
        flat: all texts' pieces, end to end.
        begin: where each word's window begins in ``flat``, (J',).
        length: pieces in it, (J',).
        at: the word's place in it, (J',).
        group: which words share one sequence: those of one window and group, (J',).
        mask: the mask's number; None masks nothing.
        frame: what stands around a text.
        pair: whether the original follows the masked text.
    """

    single: npt.NDArray[np.bool_]
    pieces: I64
    flat: I64
    begin: I64
    length: I64
    at: I64
    group: I64
    mask: int | None
    frame: Frame
    pair: bool

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        texts: Sequence[str],
        words: Places,
        longest: int,
        mode: str,
        context: str,
    ) -> "Layout":
        """Tokenise N texts, find the words that are one piece, and plan their sequences."""
        pair = context == "both"
        frame = Frame.of(tokenizer, pair)
        room = frame.room(longest, pair)
        flat, counts, starts, ends = _pieces(tokenizer, texts)
        base = np.append(0, np.cumsum(counts))
        piece = _aligned(texts, words, counts, starts, ends)
        single = piece >= 0
        piece, text = piece[single], words.text[single]
        inside, total = piece - base[text], counts[text]
        if mode == "masked":
            start = np.clip(inside - room // 2, 0, np.maximum(total - room, 0))
        else:
            half = max(1, room // 2)
            start = np.maximum(np.round((inside - half) / half), 0).astype(np.int64) * half
            start = np.minimum(start, np.maximum(total - room, 0))
        begin = base[text] + start
        group = np.zeros(len(piece), np.int64)
        if mode == "masked":
            group = np.arange(len(piece))
        elif mode == "spread":
            group = _far_apart(begin, inside)
        mask = None if mode == "unmasked" else int(tokenizer.mask_token_id)
        length = np.minimum(total, room)
        at = inside - start
        return cls(single, flat[piece], flat, begin, length, at, group, mask, frame, pair)

    def batches(self, device: str) -> Iterator[Batch]:
        """Yield all sequences, each distinct one once, the shortest first."""
        for length in np.unique(self.length).tolist():
            jobs = np.flatnonzero(self.length == length)
            _, first, sequence = np.unique(
                np.stack([self.begin[jobs], self.group[jobs]]),
                axis=1, return_index=True, return_inverse=True,
            )  # fmt: skip
            sort = np.argsort(sequence, kind="stable")
            step = max(1, _CHUNK // length)
            bounds = np.searchsorted(sequence[sort], np.arange(0, len(first) + step, step))
            for number, (low, high) in enumerate(pairwise(bounds.tolist())):
                mine = sort[low:high]
                begin = self.begin[jobs[first[number * step : (number + 1) * step]]]
                yield from self._chunk(jobs[mine], sequence[mine] - number * step, begin, device)

    def _chunk(self, jobs: I64, sequence: I64, begin: I64, device: str) -> Iterator[Batch]:
        """Yield some sequences of one length, which begin at ``begin`` in ``flat``."""
        frame, length = self.frame, int(self.length[jobs[0]])
        original = self.flat[begin[:, None] + np.arange(length)]
        masked = original.copy()
        if self.mask is not None:
            masked[sequence, self.at[jobs]] = self.mask
        ids = self._framed(masked, original)
        ids, inverse = np.unique(ids, axis=0, return_inverse=True)
        sequence = inverse[sequence]
        width = ids.shape[1]
        size = rows_per_batch(width, device)
        sort = np.argsort(sequence, kind="stable")
        bounds = np.searchsorted(sequence[sort], np.arange(0, len(ids) + size, size))
        for number, (low, high) in enumerate(pairwise(bounds.tolist())):
            mine = sort[low:high]
            rows = ids[number * size : (number + 1) * size]
            full = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])
            places = (sequence[mine] - number * size) * width
            places += len(frame.before) + self.at[jobs[mine]]
            wanted, place = np.unique(places, return_inverse=True)
            inputs = {"place": wanted, "input_ids": full}
            if frame.types:
                types = np.arange(width) >= length + len(frame.before) + len(frame.between)
                kinds = (types & self.pair).astype(np.int64)
                inputs["token_type_ids"] = np.repeat(kinds[None], size, axis=0)
            yield Batch(inputs, jobs[mine], place)

    def _framed(self, masked: I64, original: I64) -> I64:
        """Put the special tokens, and the original if wanted, around sequences."""
        rows = len(masked)
        parts = [self.frame.before, masked, self.frame.between]
        parts += [original] if self.pair else []
        parts.append(self.frame.after)
        wide = [
            part if isinstance(part, np.ndarray) else np.tile(np.array(part, np.int64), (rows, 1))
            for part in parts
        ]
        return np.concatenate(wide, axis=1)


def _pieces(tokenizer: Any, texts: Sequence[str]) -> tuple[I64, I64, I64, I64]:
    """Return all pieces, pieces per text, and each piece's first character and end."""
    coded = tokenizer(
        list(texts), add_special_tokens=False, return_offsets_mapping=True,
        return_attention_mask=False, return_token_type_ids=False, verbose=False,
    )  # fmt: skip
    counts = np.array([len(ids) for ids in coded["input_ids"]], np.int64)
    flat = np.array([i for ids in coded["input_ids"] for i in ids], np.int64)
    spans = np.array([s for row in coded["offset_mapping"] for s in row], np.int64).reshape(-1, 2)
    return flat, counts, spans[:, 0], spans[:, 1]


def _aligned(texts: Sequence[str], words: Places, counts: I64, starts: I64, ends: I64) -> I64:
    """Return the piece that is exactly each word, numbered through all texts, or -1, (J,)."""
    if not len(starts) or not len(words.text):
        return np.full(len(words.text), -1, np.int64)
    base = np.append(0, np.cumsum([len(text) + 1 for text in texts]))
    of = np.repeat(np.arange(len(texts)), counts)
    start, end = starts + base[of], ends + base[of]
    joined = "\n".join(texts)
    white = np.fromiter((c.isspace() for c in joined), bool, len(joined))
    # Some tokenizers count the white space before a word as part of its piece.
    leads = (end > start) & white[np.minimum(start, len(white) - 1)]
    start = start + leads
    real = np.flatnonzero(end > start)
    wanted = words.start + base[words.text]
    near = np.minimum(np.searchsorted(start[real], wanted), len(real) - 1)
    found = real[near] if len(real) else np.zeros(len(wanted), np.int64)
    stop = words.end + base[words.text]
    # Pieces of one character (a byte each, or white space and a letter) share its place.
    after = np.append(start[real], len(white) + 1)[near + 1] if len(real) else stop
    fits = (start[found] == wanted) & (end[found] == stop) & (after >= stop)
    return np.where(fits, found, -1)


def _far_apart(begin: I64, inside: I64) -> I64:
    """Deal words to groups so that those of one window and group are ``_FAR`` pieces apart."""
    group = np.zeros(len(begin), np.int64)
    window = -1
    last: list[int] = []  # place of each group's last word
    for number, (first, place) in enumerate(zip(begin.tolist(), inside.tolist(), strict=True)):
        if first != window:
            window, last = first, []
        fit = next((g for g, at in enumerate(last) if place - at >= _FAR), len(last))
        last[fit : fit + 1] = [place]
        group[number] = fit
    return group
