"""A transfer set of SST-2 with 100 copies, end to end into Parquet, tags cached; and cold tagging."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from augment.annotate.columns import Annotator
from augment.building import build_recipe
from augment.engines.local import Local
from augment.settings import Recipe, read_recipe
from augment.store import Store
from augment.tokens import tokenize
from tests.benchmarks.common import ROOT, SST2, TAGGER, best, line, sentences, skip, title

COPIES = 100


def recipe(copies: int) -> Recipe:
    """The SST-2 recipe with another number of copies."""
    found = read_recipe(ROOT / "tests" / "recipes" / "sst2.toml")
    augment = dict(found.tables["augment"], copies=copies)
    return Recipe(found.path, {**found.tables, "augment": augment})


def main() -> None:
    """Print the figures."""
    title(f"SST-2 with {COPIES} copies into Parquet, dedupe and guard included, tags cached")
    if not SST2.is_dir():
        skip("building", "../shared/data is not here")
    else:
        with tempfile.TemporaryDirectory() as folder:
            _building(Path(folder))
    title("Tagging: a cold build's longest part")
    _tagging()


def _building(folder: Path) -> None:
    def seconds(copies: int, workers: int) -> tuple[float, int]:
        shutil.rmtree(folder / "set", ignore_errors=True)
        start = time.perf_counter()
        made = build_recipe(
            recipe(copies), folder / "set", workers=workers, store=folder / "store", show=False
        )
        counts = made.manifest.counts
        return time.perf_counter() - start, counts["source_rows"] * (1 + copies)

    cold, rows = seconds(0, 2)
    line("cold, no copies, two workers", rows / cold, "rows/s")
    warm, _ = seconds(0, 2)
    line("start-up and reading, no copies", warm, "s")
    for workers in (1, 2):
        taken, rows = seconds(COPIES, workers)
        line(f"{workers} worker{'s'[: workers - 1]}, start-up included", rows / taken, "rows/s")
        line(f"  {rows:,} rows", taken, "s")


def _tag(job: tuple[str, str], text: pa.Array) -> int:
    annotator = Annotator("en", job[0], Store(Path(job[1])))
    return sum(annotator.prepare(text))


def _tagging() -> None:
    texts = sentences()[:8000]
    text = pa.array(texts, pa.large_string())
    annotator = Annotator("en", TAGGER)
    tagger = annotator.tagger
    words = tokenize(text, "en")
    cut = best(lambda: tokenize(text, "en"), 2)
    line("spaCy's tokenizer", len(texts) / cut, "texts/s")
    nlp: Any = tagger.nlp
    import augment.annotate.pos as pos

    kept = pos._BATCH
    for size in (32, 128, kept, 1024):
        pos._BATCH = size
        taken = best(lambda: list(tagger.tag(text, words)), 2)
        line(f"tagging alone, {size} texts a batch", len(texts) / taken, "texts/s")
    pos._BATCH = kept
    docs = list(nlp.pipe([nlp.make_doc(t) for t in texts[:2000]]))
    for name, pipe in nlp.pipeline:
        taken = best(
            lambda pipe=pipe: [pipe.predict(docs[i : i + kept]) for i in range(0, 2000, kept)], 2
        )  # type: ignore[misc]
        line(
            f"  of which {name}",
            100 * taken * len(texts) / 2000 / best(lambda: list(tagger.tag(text, words)), 1),
            "%",
        )
    parts = [text.slice(i, 1000) for i in range(0, len(texts), 1000)]
    parts = [part.take(pa.array(range(len(part)))) for part in parts]
    once: dict[int, float] = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as store, Local(workers).running((TAGGER, store)) as run:
            warm = pa.array(["warm up"], pa.large_string())
            list(run(_tag, [warm] * workers * 2))
            start = time.perf_counter()
            list(run(_tag, parts))
            once[workers] = len(texts) / (time.perf_counter() - start)
    line("tokens, tags and store, one worker", once[1], "texts/s")
    line("two workers", once[2], "texts/s", once[2] / once[1], "one worker")
