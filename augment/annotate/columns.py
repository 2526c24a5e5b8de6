"""From texts to annotated token batches, every distinct text worked on once, ever."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augment.annotate.candidates import CANDIDATES, CandidateSource, candidates
from augment.annotate.pos import Tagger
from augment.batch import Lists, TokenBatch, cut
from augment.keys import Keys, content_keys, first_of_each
from augment.store import Namespace, Store
from augment.tokens import Words, tokenize, tokenizer_identity

BOUNDS = pa.list_(pa.int32())
TAGS = pa.list_(pa.string())
_WINDOW = 4096
_PROPOSED = 8192
_PROPOSED_BYTES = 2_000_000


class Reads(Protocol):
    """What a transform says of the annotations it reads."""

    @property
    def tagger_name(self) -> str | None:
        """The spaCy pipeline whose tags it reads, if any."""

    @property
    def candidate_source(self) -> CandidateSource | None:
        """What decides the candidates it reads, if any."""


@dataclass(frozen=True, slots=True)
class Names:
    """The namespaces of annotations, for who would otherwise load a model to learn them."""

    tags: str | None = None
    candidates: str | None = None


class Annotator:
    """Reads annotations from the store, and makes and keeps those it lacks.

    spaCy is loaded at the first text the store does not know; the tagger and the language model
    also where their namespaces have to be learnt.

    Args:
        language: of the tokenizer.
        tagger: name of a spaCy pipeline, or None when no transform needs tags.
        store: where annotations are kept; None keeps nothing.
        candidates: what decides words' candidates, or None when no transform reads any.
        names: the namespaces, if known.
    """

    def __init__(
        self,
        language: str,
        tagger: str | None = None,
        store: Store | None = None,
        *,
        candidates: CandidateSource | None = None,
        names: Names | None = None,
    ):
        self.language, self.tagger_name, self.source = language, tagger, candidates
        self.words: Namespace | None = None
        self.tags: Namespace | None = None
        self.candidates: Namespace | None = None
        self.names = names or Names()
        if store is None:
            return
        about = {"language": language}
        name = tokenizer_identity(language)
        self.words = store.namespace(name, BOUNDS, {"what": "word boundaries"} | about)
        if tagger is not None:
            self.names = replace(self.names, tags=self.names.tags or self.tagger.identity)
            note = about | {"what": "tags", "tagger": tagger}
            self.tags = store.namespace(str(self.names.tags), TAGS, note)
        if candidates is not None:
            given = self.names.candidates or candidates.identity(language)
            self.names = replace(self.names, candidates=given)
            note = about | {"what": "candidates", "name": candidates.model} | asdict(candidates)
            self.candidates = store.namespace(given, CANDIDATES, note)

    @classmethod
    def of(
        cls, transform: Reads, language: str, store: Store | None, names: Names | None = None
    ) -> "Annotator":
        """Return the annotator of what a transform reads."""
        source = transform.candidate_source
        return cls(language, transform.tagger_name, store, candidates=source, names=names)

    @property
    def tagger(self) -> Tagger:
        """The tagger, loaded when first asked for."""
        assert self.tagger_name is not None
        return Tagger.load(self.tagger_name, self.language)

    @property
    def last(self) -> Namespace | None:
        """The namespace of words and tags that is written last: a text found there has both."""
        return self.tags or self.words

    def batch(self, text: pa.Array, rows: npt.NDArray[np.uint64] | None = None) -> TokenBatch:
        """Return N texts as an annotated batch of originals.

        Args:
            text: N texts without nulls.
            rows: row ids, (N,); row numbers when left out.
        """
        keys = content_keys([text])
        words = self._words(text, keys)
        batch = cut(text, words.bounds, words.counts, rows)
        if self.tagger_name is not None:
            tags = _cached(self.tags, keys, text, TAGS, self._tags).flatten().dictionary_encode()
            codes = tags.indices.to_numpy(zero_copy_only=False).astype(np.int32)
            names = tuple(tags.dictionary.to_pylist())
            batch = replace(batch, tags=codes, tag_names=names)
        if self.source is not None:
            lists = _cached(self.candidates, keys, text, CANDIDATES, self._candidates)
            batch = replace(batch, candidates=_lists(lists.flatten()))
        return batch

    def prepare(self, text: pa.Array) -> Iterator[int]:
        """Make words and tags of distinct texts into the store; yields how many more are done."""
        for first in range(0, len(text), _WINDOW):
            part = text.slice(first, _WINDOW)
            keys = content_keys([part])
            self._words(part, keys)
            if self.tagger_name is not None:
                _cached(self.tags, keys, part, TAGS, self._tags)
            yield len(part)

    def propose(self, text: pa.Array) -> Iterator[int]:
        """Make candidates of distinct texts into the store; yields how many more are done."""
        for part in _windows(text):
            _cached(self.candidates, content_keys([part]), part, CANDIDATES, self._candidates)
            yield len(part)

    def _words(self, text: pa.Array, keys: Keys) -> Words:
        return Words.from_lists(_cached(self.words, keys, text, BOUNDS, self._bounds))

    def _bounds(self, text: pa.Array) -> pa.Array:
        return tokenize(text, self.language).to_lists()

    def _tags(self, text: pa.Array) -> pa.Array:
        words = self._words(text, content_keys([text]))
        return pa.array(list(self.tagger.tag(text, words)), TAGS)

    def _candidates(self, text: pa.Array) -> pa.Array:
        assert self.source is not None
        made = [pa.array([], CANDIDATES)]
        for part in _windows(text):
            words = self._words(part, content_keys([part]))
            made.append(candidates(part, words, self.source, self.language))
        return pa.concat_arrays(made)


def _windows(text: pa.Array) -> Iterator[pa.Array]:
    """Cut texts where the language model's memory would grow: by their number and their size."""
    sizes = pc.binary_length(text).to_numpy(zero_copy_only=False)
    first, total = 0, 0
    for number, size in enumerate(sizes.tolist()):
        total += size
        if number - first + 1 >= _PROPOSED or total >= _PROPOSED_BYTES:
            yield text.slice(first, number + 1 - first)
            first, total = number + 1, 0
    if first < len(text):
        yield text.slice(first)


def _lists(lists: pa.Array) -> Lists:
    """Return one list of strings a token as a column beside them."""
    ends = lists.offsets.to_numpy().astype(np.int64)
    strings = lists.flatten().dictionary_encode()
    return Lists(
        ends[:-1] - ends[0],
        np.diff(ends).astype(np.int32),
        strings.indices.to_numpy(zero_copy_only=False).astype(np.int32),
        strings.dictionary.cast(pa.large_string()),
    )


def _cached(
    space: Namespace | None,
    keys: Keys,
    text: pa.Array,
    kind: pa.DataType,
    make: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    """Return the value of every text: from the store where known, else made and put there."""
    if space is None:
        return make(text).cast(kind)
    known, values = space.get(keys)
    if known.all():
        return values
    missing = np.flatnonzero(~known)
    unique = missing[first_of_each(keys[missing])]
    space.put(keys[unique], make(text.take(pa.array(unique))))
    return space.get(keys)[1]
