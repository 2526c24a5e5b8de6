"""A training augmenter for spaCy, registered as ``transferset.copies.v1``.

In a training config::

    [corpora.train.augmenter]
    @augmenters = "transferset.copies.v1"
    copies = 3
    seed = 7
    steps = [{"mask": {"rate": 0.1}}, {"ngram": {"rate": 0.25}}]
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from augment.recipe import from_steps
from augment.transforms.protocol import Transform


def copies(
    steps: list[dict[str, Any]], copies: int = 1, seed: int = 0, texts: str | None = None
) -> Callable[[Any, Any], Iterator[Any]]:
    """Return an augmenter: every example, then ``copies`` edited copies of it.

    Copies keep the document's categories; annotations of single words do not survive edits and
    are left out, so use it to train text categorizers.

    Args:
        steps: the chain, as in a recipe.
        copies: per example.
        seed: of all draws.
        texts: a file with one text a line, for steps that learn from the corpus.
    """
    chain: Transform = from_steps(steps, "transferset.copies.v1")
    fitted: dict[str, Transform] = {}

    def augmenter(nlp: Any, example: Any) -> Iterator[Any]:
        from spacy.training import Example

        if nlp.lang not in fitted:
            lines = Path(texts).read_text(encoding="utf-8").splitlines() if texts else None
            fitted[nlp.lang] = chain.fit(lines, language=nlp.lang) if lines else chain
        yield example
        options = {"copies": copies, "seed": seed, "language": nlp.lang}
        for text in fitted[nlp.lang](example.reference.text, **options):
            doc = nlp.make_doc(text)
            yield Example.from_dict(doc, {"cats": dict(example.reference.cats)})

    return augmenter
