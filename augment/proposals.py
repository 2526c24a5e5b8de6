"""Looking at candidates: what a recipe's substitution may put in each word's place."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from rich.text import Text

from augment.annotate.columns import Annotator
from augment.corpus import first_texts
from augment.errors import SettingsError
from augment.recipe import from_steps, with_resources
from augment.settings import AugmentSettings, CorpusSettings, Recipe, read_recipe
from augment.store import Store


def proposals(
    recipe: str | Path | Recipe,
    texts: Sequence[str] = (),
    *,
    split: str = "train",
    rows: int = 12,
    lm: str | None = None,
    vectors: str | None = None,
    store: str | Path | None = None,
) -> Iterator[Text]:
    """Yield what ``augment candidates`` prints: texts, and every word's candidates, best first.

    Args:
        recipe: one with a ``substitute`` step.
        texts: to look at; the corpus's own when left out.
        split: of the corpus.
        rows: of it, from the first.
        lm: masked language model, instead of the recipe's.
        vectors: word vectors, instead of the recipe's.
        store: folder of the store; the user's cache folder when left out.

    Raises:
        SettingsError: the recipe substitutes nothing, or has no such split.
    """
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    corpus = recipe.section(CorpusSettings, "corpus")
    options = recipe.section(AugmentSettings, "augment")
    steps = from_steps(options.steps, f"{recipe.path}, augment", recipe.model)
    chain = with_resources(steps, model=lm, vectors=vectors)
    if chain.candidate_source is None:
        raise SettingsError(f"{recipe.path}, augment: no step is a substitute = {{}}")
    shown = list(texts) or first_texts(corpus, recipe.path.parent, split, rows)
    kept = Store() if store is None else Store(Path(store))
    annotator = Annotator(corpus.language, None, kept, candidates=chain.candidate_source)
    batch = annotator.batch(pa.array(shown, pa.large_string()))
    found = batch.candidates
    assert found is not None
    words, strings = batch.table.to_pylist(), found.strings.to_pylist()
    for row, text in enumerate(shown):
        yield Text(f"\n{text}", style="bold")
        for token in range(batch.offsets[row], batch.offsets[row + 1]):
            codes = found.pool[found.first[token] :][: found.count[token]].tolist()
            if codes:
                line = Text(f"  {words[batch.words[token]]:>16}  ", style="cyan")
                line.append(", ".join(strings[c] for c in codes), style="default")
                yield line
