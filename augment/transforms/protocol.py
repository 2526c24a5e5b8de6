"""The algebra of transforms: ``|`` chooses per token with one draw, ``>>`` means "then".

A transform is a frozen record of settings and one pure call on a token batch. ``Choice`` and
``Chain`` are the definition; the operators are sugar for them.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augment import use
from augment.annotate.candidates import CandidateSource
from augment.batch import I32, I64, TokenBatch
from augment.draws import Draws, Place
from augment.errors import SettingsError


class Transform:
    """Base of all transforms; called on a string it gives exactly ``copies`` strings."""

    __slots__ = ()
    needs: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def apply(self, batch: TokenBatch, place: Place) -> TokenBatch:
        """Return the edited batch; the input is untouched."""

    def leaves(self) -> tuple[Transform, ...]:
        """Return the single transforms inside, in the order of their places."""
        return (self,)

    def fitted(self, corpus: Iterable[TokenBatch]) -> Self:
        """Return the transform with what it learns from a corpus; most learn nothing.

        Args:
            corpus: annotated batches of originals; may be read several times.
        """
        return self

    @property
    def tagger_name(self) -> str | None:
        """The spaCy pipeline whose tags the transform reads, if any.

        Raises:
            SettingsError: two transforms of one chain name different pipelines.
        """
        names = {t.tagger for t in self.leaves() if "tags" in t.needs and hasattr(t, "tagger")}
        if len(names) > 1:
            raise SettingsError(f"one chain reads one tagger, got {', '.join(sorted(names))}")
        return names.pop() if names else None

    @property
    def candidate_source(self) -> CandidateSource | None:
        """What decides the candidates the transform reads, if it reads any.

        Raises:
            SettingsError: two transforms of one chain ask different models.
        """
        sources = [t.source for t in self.leaves() if "candidates" in t.needs]  # type: ignore[attr-defined]
        depth = max((source.depth for source in sources), default=0)
        kinds = {dataclasses.replace(source, depth=depth) for source in sources}
        if len(kinds) > 1:
            raise SettingsError(
                "one chain reads one column of candidates; give all its Substitutes the same "
                "model, vectors, mode, context, touch, max_tokens, precision and runtime"
            )
        return kinds.pop() if kinds else None

    def __rshift__(self, other: Transform) -> Chain:
        """``self`` then ``other``."""
        if not isinstance(other, Transform):
            return NotImplemented
        return Chain((self, other))

    def __or__(self, other: Transform) -> Choice:
        """Per token, ``self`` or ``other`` or neither, with one draw."""
        if not isinstance(other, Transform):
            return NotImplemented
        return Choice((self, other))

    def fit(self, texts: Any, *, language: str = "en", store: Any = None) -> Self:
        """Return a new transform that holds what it learns from the texts.

        Args:
            texts: strings: a list, a ``datasets`` column, or an Arrow array.
            language: spaCy language code of the tokenizer.
            store: an ``augment.store.Store`` that keeps the annotations; None keeps nothing.
        """
        fitted: Self = use.fit(self, texts, language=language, store=store)
        return fitted

    @overload
    def __call__(self, data: str, **options: Any) -> list[str]: ...
    @overload
    def __call__(self, data: Any, **options: Any) -> Any: ...
    def __call__(self, data: Any, **options: Any) -> Any:
        """Augment a string (to ``copies`` strings), or a ``Dataset``/``IterableDataset``.

        Options: ``copies`` (1), ``seed`` (0), ``language`` ("en"); for datasets ``text``, the
        column or pair of columns, and ``originals`` (True).

        Raises:
            NotFittedError: the chain learns from a corpus and has not been fitted.
        """
        return use.call(self, data, **options)

    def batched(
        self, text: str | Sequence[str], **options: Any
    ) -> Callable[[Mapping[str, list[Any]], list[int]], dict[str, list[Any]]]:
        """Return the function ``datasets.map`` takes with ``batched=True, with_indices=True``.

        Options: ``copies`` (1), ``seed`` (0), ``language``, ``originals`` (True), ``id`` (a column
        of row ids instead of the index).
        """
        return use.Batched(self, use.names(text), **options)

    def collate(self, text: str | Sequence[str], **options: Any) -> use.Collate:
        """Return a collate step for a torch ``DataLoader`` over rows that are dicts.

        Options: ``seed`` (0), ``language``, ``id`` (a column of row ids; the text's hash when left
        out), ``then`` (the collate function that follows). Set ``.epoch`` for fresh copies, before
        the loader is iterated again; loaders with ``persistent_workers`` keep the old one.
        """
        return use.Collate(self, use.names(text), **options)


class TokenTransform(Transform):
    """Edits single words; ``rate`` is the probability of each word to be picked."""

    __slots__ = ()
    rate: float

    @abstractmethod
    def edit(self, batch: TokenBatch, at: I64, draws: Draws, bit: int) -> TokenBatch:
        """Return the batch with the words at token numbers ``at`` edited.

        Args:
            batch: the rows.
            at: picked token numbers, ascending.
            draws: for anything further to be drawn; ``draws.lane(1)`` is fresh.
            bit: what to mark in ``edits`` (``TokenBatch.with_words`` does it).
        """

    def apply(self, batch: TokenBatch, place: Place) -> TokenBatch:
        """Pick every word with probability ``rate`` and edit the picked ones."""
        return Choice((self,)).apply(batch, place)


class RowTransform(Transform):
    """Edits a row as a whole."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Choice(Transform):
    """Per token, one of several token transforms or none: exclusive, one uniform draw.

    With rates r1, r2, … a draw u picks the first if u < r1, the second if u < r1 + r2, and so on.
    """

    parts: tuple[TokenTransform, ...]

    def __init__(self, parts: Sequence[Transform]) -> None:
        """Flatten nested choices and check the rates.

        Raises:
            TypeError: a part is no token transform.
            ValueError: the rates sum above 1.
        """
        flat: list[TokenTransform] = []
        for part in parts:
            if isinstance(part, Choice):
                flat += part.parts
            elif isinstance(part, TokenTransform):
                flat.append(part)
            else:
                raise TypeError(_cannot_choose(parts, part))
        if not flat:
            raise ValueError("a choice needs at least one transform")
        total = sum(part.rate for part in flat)
        if total > 1 + 1e-9:
            rates = " + ".join(f"{p.rate:g}" for p in flat)
            raise ValueError(f"the rates of a choice sum to at most 1, got {rates} = {total:g}")
        object.__setattr__(self, "parts", tuple(flat))

    def leaves(self) -> tuple[Transform, ...]:
        """Return the parts."""
        return self.parts

    def fitted(self, corpus: Iterable[TokenBatch]) -> Choice:
        """Fit every part."""
        return Choice([part.fitted(corpus) for part in self.parts])

    def apply(self, batch: TokenBatch, place: Place) -> TokenBatch:
        """Draw once per token and hand each part its tokens."""
        picked, u = place.draws(batch).below(batch.offsets, sum(p.rate for p in self.parts))
        low = 0.0
        for number, part in enumerate(self.parts):
            at = picked[(u >= low) & (u < low + part.rate)]
            low += part.rate
            here = place.after(number)
            batch = part.edit(batch, at, here.draws(batch), here.number)
        return batch

    def __repr__(self) -> str:
        """Print the algebra."""
        return " | ".join(map(repr, self.parts))


@dataclass(frozen=True, slots=True, repr=False)
class Chain(Transform):
    """Transforms one after another."""

    steps: tuple[Transform, ...]

    def __init__(self, steps: Sequence[Transform]) -> None:
        """Flatten nested chains, and choices of one."""
        flat: list[Transform] = []
        for step in steps:
            if isinstance(step, Chain):
                flat += step.steps
            elif isinstance(step, Choice) and len(step.parts) == 1:
                flat.append(step.parts[0])
            else:
                flat.append(step)
        if len(self._leaves(flat)) > 63:
            raise ValueError("a chain holds at most 63 transforms")
        object.__setattr__(self, "steps", tuple(flat))

    @staticmethod
    def _leaves(steps: Sequence[Transform]) -> tuple[Transform, ...]:
        return tuple(leaf for step in steps for leaf in step.leaves())

    def leaves(self) -> tuple[Transform, ...]:
        """Return all single transforms."""
        return self._leaves(self.steps)

    def fitted(self, corpus: Iterable[TokenBatch]) -> Chain:
        """Fit every step on the corpus itself (not on edited text)."""
        return Chain([step.fitted(corpus) for step in self.steps])

    def apply(self, batch: TokenBatch, place: Place) -> TokenBatch:
        """Apply every step to the result of the one before."""
        for step in self.steps:
            batch = step.apply(batch, place)
            place = place.after(len(step.leaves()))
        return batch

    def __repr__(self) -> str:
        """Print the algebra."""
        return " >> ".join(_bracketed(s) for s in self.steps)


def as_chain(transform: Transform) -> Chain:
    """Return any transform as a chain."""
    return transform if isinstance(transform, Chain) else Chain((transform,))


def _bracketed(step: Transform) -> str:
    return f"({step!r})" if isinstance(step, Choice | Chain) else repr(step)


def _cannot_choose(parts: Sequence[Transform], wrong: Transform) -> str:
    """Explain why ``|`` refuses a part, and write what was probably meant."""
    if not isinstance(wrong, Chain):
        return f"| chooses between token transforms; {wrong!r} works on whole rows, chain it: >>"
    if wrong is parts[0]:
        *steps, last = wrong.steps
        after = " | ".join(repr(p) for p in parts[1:])
        meant = "".join(f"{_bracketed(s)} >> " for s in steps) + f"({last!r} | {after})"
        return f"| does not take a chain: this reads as (a >> b) | c; write {meant}"
    before = " | ".join(repr(p) for p in parts if p is not wrong)
    first, *rest = wrong.steps
    meant = f"({before} | {first!r})" + "".join(f" >> {_bracketed(s)}" for s in rest)
    return f"Python reads a | b >> c as a | (b >> c), and | does not take a chain; write {meant}"


def show(transform: Transform) -> str:
    """Return the constructor call: the rate first, then settings that differ from the default."""
    parts: list[str] = []
    for f in dataclasses.fields(transform):  # type: ignore[arg-type]
        value = getattr(transform, f.name)
        if f.name == "rate":
            parts.append(f"{value:g}")
        elif f.repr and value != f.default:
            parts.append(f"{f.name}={value!r}")
    return f"{type(transform).__name__}({', '.join(parts)})"


def check_rate(rate: float) -> None:
    """Refuse what is no probability.

    Raises:
        ValueError: outside [0, 1], with the value that was probably meant.
    """
    if not 0 <= rate <= 1:
        meant = f"; write {rate / 100:g}" if 1 < rate <= 100 else ""
        raise ValueError(f"rate is a probability in [0, 1], got {rate:g}{meant}")


def extend(table: pa.LargeStringArray, strings: pa.Array) -> tuple[I32, pa.LargeStringArray]:
    """Return the code of every string and the string table that holds them all, each once.

    Remembered for the last few tables: the blocks of a large batch share theirs.
    """
    key = (id(table), id(strings))
    if (found := _EXTENDED.get(key)) is not None:
        return found[2:]
    wanted = strings.cast(pa.large_string())
    new = pc.unique(wanted.filter(pc.invert(pc.is_in(wanted, table))))
    whole = pa.concat_arrays([table, new]) if len(new) else table
    codes = pc.index_in(wanted, whole).to_numpy(zero_copy_only=False).astype(np.int32)
    with _EXTENDING:
        # The arrays live on in here, so their ids stay theirs.
        _EXTENDED[key] = (table, strings, codes, whole)
        if len(_EXTENDED) > _REMEMBERED:
            del _EXTENDED[next(iter(_EXTENDED))]
    return codes, whole


_EXTENDED: dict[tuple[int, int], tuple[pa.Array, pa.Array, I32, pa.Array]] = {}
_REMEMBERED = 16
_EXTENDING = Lock()
