"""From texts to annotated token batches, every distinct text worked on once, ever."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augment.annotate.pos import Tagger
from augment.batch import TokenBatch, cut
from augment.keys import Keys, content_keys, first_of_each
from augment.store import Namespace, Store
from augment.tokens import Words, tokenize, tokenizer_identity

BOUNDS = pa.list_(pa.int32())
TAGS = pa.list_(pa.string())
_WINDOW = 4096


class Annotator:
    """Reads annotations from the store, and makes and keeps those it lacks.

    spaCy and the tagger are loaded at the first text the store does not know.

    Args:
        language: of the tokenizer.
        tagger: name of a spaCy pipeline, or None when no transform needs tags.
        store: where annotations are kept; None keeps nothing.
        tags_name: the tags' namespace, if known: spares loading the tagger to learn it.
    """

    def __init__(
        self,
        language: str,
        tagger: str | None = None,
        store: Store | None = None,
        tags_name: str | None = None,
    ):
        self.language, self.tagger_name = language, tagger
        self.words: Namespace | None = None
        self.tags: Namespace | None = None
        self.tags_name = tags_name
        if store is None:
            return
        about = {"language": language}
        name = tokenizer_identity(language)
        self.words = store.namespace(name, BOUNDS, {"what": "word boundaries"} | about)
        if tagger is not None:
            self.tags_name = tags_name or self.tagger.identity
            about |= {"what": "tags", "tagger": tagger}
            self.tags = store.namespace(self.tags_name, TAGS, about)

    @property
    def tagger(self) -> Tagger:
        """The tagger, loaded when first asked for."""
        assert self.tagger_name is not None
        return Tagger.load(self.tagger_name, self.language)

    @property
    def last(self) -> Namespace | None:
        """The namespace that is written last: a text found there is fully annotated."""
        return self.tags or self.words

    def batch(self, text: pa.Array, rows: npt.NDArray[np.uint64] | None = None) -> TokenBatch:
        """Return N texts as an annotated batch of originals.

        Args:
            text: N texts without nulls.
            rows: row ids, (N,); row numbers when left out.
        """
        keys = content_keys([text])
        words = Words.from_lists(_cached(self.words, keys, text, BOUNDS, self._bounds))
        batch = cut(text, words.bounds, words.counts, rows)
        if self.tagger_name is None:
            return batch
        tags = _cached(self.tags, keys, text, TAGS, self._tags).flatten().dictionary_encode()
        codes = tags.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        names = tuple(tags.dictionary.to_pylist())
        return replace(batch, tags=codes, tag_names=names)

    def prepare(self, text: pa.Array) -> Iterator[int]:
        """Annotate distinct texts into the store; yields how many more are done."""
        for first in range(0, len(text), _WINDOW):
            part = text.slice(first, _WINDOW)
            self.batch(part)
            yield len(part)

    def _bounds(self, text: pa.Array) -> pa.Array:
        return tokenize(text, self.language).to_lists()

    def _tags(self, text: pa.Array) -> pa.Array:
        keys = content_keys([text])
        words = Words.from_lists(_cached(self.words, keys, text, BOUNDS, self._bounds))
        return pa.array(list(self.tagger.tag(text, words)), TAGS)


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
