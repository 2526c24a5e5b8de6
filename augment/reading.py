"""Annotating a corpus before a build: every distinct text that the store does not know, once.

Texts are worked on in rounds, and what a round left in the store is merged, so neither memory nor
the number of segments grows with the corpus.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augment.annotate.columns import Annotator
from augment.corpus import Corpus
from augment.engines.local import Local, Run
from augment.keys import content_keys
from augment.progress import progress
from augment.store import Namespace, Store

_ROUND_TEXTS = 200_000
_TASK_TEXTS = 2000
_MANY_TASKS = 8


def annotate(
    corpus: Corpus,
    annotator: Annotator,
    engine: Local,
    show: bool,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Annotate the corpus's texts into the annotator's store.

    Args:
        corpus: its train rows are read.
        annotator: has a store.
        engine: runs the rounds.
        show: draw progress on a terminal.
        say: hears how many texts the language model was asked about.
    """
    _read(corpus, annotator, engine, show)
    if annotator.candidates is not None:
        asked = _propose(corpus, annotator, annotator.candidates, show)
        say(f"candidates: {asked:,} texts put to the language model, the rest known to the store")


def _read(corpus: Corpus, annotator: Annotator, engine: Local, show: bool) -> None:
    """Find words and tags, in worker processes."""
    spaces = [space for space in (annotator.words, annotator.tags) if space is not None]
    job = (annotator.language, annotator.tagger_name, str(spaces[0].folder.parent))
    total = corpus.train.num_rows * len(corpus.text)
    with ExitStack() as stack:
        run: Run | None = None
        advance = stack.enter_context(progress("reading words", total, show))
        for rows, missing in _unread(corpus, annotator.last):
            tasks = [_copied(missing, i) for i in range(0, len(missing), _TASK_TEXTS)]
            if run is None and tasks:  # no worker starts for nothing, or for a handful of texts
                run = stack.enter_context((engine if len(tasks) > 1 else Local(1)).running(job))
            for _ in run(_annotate_part, tasks) if run else ():
                pass
            advance(rows, "")
            if len(tasks) > _MANY_TASKS:
                for space in spaces:
                    space.compact()


def _propose(corpus: Corpus, annotator: Annotator, space: Namespace, show: bool) -> int:
    """Make words' candidates, in this process: the model uses all cores, or the accelerator.

    Returns how many texts the model was asked about.
    """
    asked = 0
    total = corpus.train.num_rows * len(corpus.text)
    with progress("asking the language model", total, show) as advance:
        for rows, missing in _unread(corpus, space):
            for done in annotator.propose(missing):
                advance(done, "")
            advance(rows - len(missing), "")
            asked += len(missing)
            if len(missing):
                space.compact()
    return asked


def _unread(corpus: Corpus, space: Namespace | None) -> Iterator[tuple[int, pa.Array]]:
    """Yield numbers of rows, and those of their texts that the store does not know, once."""
    assert space is not None
    rows, found = 0, []
    for column in corpus.text:
        for chunk in corpus.train[column].chunks:
            found.append(chunk.filter(pa.array(~space.has(content_keys([chunk])))))
            rows += len(chunk)
            if sum(map(len, found)) >= _ROUND_TEXTS:
                yield rows, pc.unique(pa.chunked_array(found, pa.large_string()))
                rows, found = 0, []
    yield rows, pc.unique(pa.chunked_array(found, pa.large_string()))


def _copied(text: pa.Array, first: int) -> pa.Array:
    # A slice would send the whole column along with every task.
    return text.take(pa.array(np.arange(first, min(first + _TASK_TEXTS, len(text)))))


def _annotate_part(job: tuple[str, str | None, str], text: pa.Array) -> int:
    language, tagger, root = job
    return sum(_annotator_of(language, tagger, root).prepare(text))


_ANNOTATORS: dict[tuple[str, str | None, str], Annotator] = {}


def _annotator_of(language: str, tagger: str | None, root: str) -> Annotator:
    key = (language, tagger, root)
    if key not in _ANNOTATORS:
        _ANNOTATORS[key] = Annotator(language, tagger, Store(Path(root)))
    return _ANNOTATORS[key]
