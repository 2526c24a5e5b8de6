"""Building a transfer set: corpus in, shards out; resumable, the same bytes however it is run."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from augment.annotate.columns import Annotator
from augment.arrow import whole
from augment.batch import TokenBatch
from augment.corpus import ROWS, Corpus, sources_of, spool
from augment.dedupe import Dedupe
from augment.digest import content_digest
from augment.engines.local import Local, Run
from augment.errors import SetError, SettingsError
from augment.files import begin, claimed, compare, settle
from augment.keys import content_keys, order
from augment.progress import progress
from augment.reading import annotate
from augment.recipe import fingerprint_of, from_steps, to_steps, with_resources
from augment.settings import AugmentSettings, CorpusSettings, Recipe, parse, read_recipe
from augment.store import Store, identity
from augment.tokens import blank, tokenizer_identity
from augment.transferset import (
    FORMAT,
    MANIFEST,
    Manifest,
    Shard,
    TransferSet,
    finish,
    versions,
    write_shard,
)
from augment.transforms.protocol import Transform, as_chain
from augment.unit import Job, Unit, fold, keys_of, letter_sums, narrow, units, write_unit

_CHUNK = 50_000


def build(
    source: Any,
    transform: Transform,
    *,
    out: str | Path,
    text: str | Sequence[str] = "text",
    label: str | None = None,
    task: str = "classification",
    classes: Sequence[str] = (),
    id: str | None = None,
    validation: Any = None,
    test: Any = None,
    copies: int = 20,
    seed: int = 0,
    guard: bool = True,
    language: str = "en",
    shard_rows: int = 100_000,
    workers: int = 1,
    store: str | Path | None = None,
    show: bool = True,
) -> TransferSet:
    """Build a transfer set from a corpus.

    Args:
        source: a ``datasets`` dataset (a ``DatasetDict`` brings its held-out splits), an iterable
            of dicts or strings, an Arrow table, or a csv, tsv, json lines or Parquet file.
        transform: what makes a copy; fitted here on the source if it learns from a corpus.
        out: the set's folder. An unfinished one is gone on with.
        text: the one or two text columns.
        label: the label column, if there is one.
        task: "classification" or "regression".
        classes: class names in index order; found in the labels when left out.
        id: a column of row ids; the row number when left out.
        validation: held-out rows, kept beside the copies and guarded against.
        test: likewise.
        copies: copies of each row, besides the original.
        seed: of all draws.
        guard: drop rows whose text equals a held-out row's.
        language: spaCy code of the tokenizer.
        shard_rows: rows per Parquet file, before duplicates go.
        workers: processes; results do not depend on it.
        store: folder of the annotation store; the user's cache folder when left out.
        show: draw progress on a terminal.

    Raises:
        SettingsError: a setting is wrong; nothing was done.
        CorpusError: the source cannot be read as asked.
        SetError: ``out`` holds another set, or the recipe changed since it was begun.
    """
    columns = (text,) if isinstance(text, str) else tuple(text)
    given = {"text": columns, "label": label, "task": task, "classes": tuple(classes), "id": id}
    settings = parse(CorpusSettings, given | {"language": language}, "build")
    counts = {"steps": (), "copies": copies, "seed": seed, "guard": guard}
    options = parse(AugmentSettings, counts | {"shard_rows": shard_rows}, "build")
    engine = _engine(workers)
    sources = {"train": source}
    if hasattr(source, "keys") and hasattr(source, "items") and "train" in source:
        sources = {k: v for k, v in source.items() if k in ("train", "validation", "test")}
        if ignored := sorted({"train", *source} - set(sources)):
            raise SettingsError(
                f"build: the splits {', '.join(ignored)} would be left out; pass source['train'], "
                "and held-out rows as validation= and test="
            )
    sources |= {k: v for k, v in {"validation": validation, "test": test}.items() if v is not None}
    run = Build(settings, options, as_chain(transform), Path(out), engine, _store(store), show)
    return run.run(sources)


def build_recipe(
    recipe: str | Path | Recipe,
    out: str | Path,
    *,
    workers: int = 1,
    store: str | Path | None = None,
    show: bool = True,
    lm: str | None = None,
    vectors: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> TransferSet:
    """Build the set a recipe describes; see :func:`build`.

    Args:
        recipe: its path.
        out: the set's folder.
        workers: processes.
        store: folder of the annotation store.
        show: draw progress on a terminal.
        lm: masked language model, instead of the recipe's.
        vectors: word vectors of its substitution, instead of the recipe's.
        say: hears what was annotated.
    """
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    settings = recipe.section(CorpusSettings, "corpus")
    options = recipe.section(AugmentSettings, "augment")
    steps = from_steps(options.steps, f"{recipe.path}, augment", recipe.model)
    chain = with_resources(steps, model=lm, vectors=vectors)
    engine = _engine(workers)
    sources = sources_of(settings, recipe.path.parent)
    run = Build(settings, options, chain, Path(out), engine, _store(store), show, say)
    return run.run(sources)


def _engine(workers: int) -> Local:
    try:
        return Local(workers)
    except ValueError as error:
        raise SettingsError(f"build: {error}") from error


def _store(store: str | Path | None) -> Store:
    return Store() if store is None else Store(Path(store))


@dataclass
class Build:
    """One build: its settings, and the steps from spooled corpus to manifest."""

    corpus: CorpusSettings
    options: AugmentSettings
    chain: Transform
    out: Path
    engine: Local
    store: Store
    show: bool
    say: Callable[[str], None] = lambda _: None

    def run(self, sources: Mapping[str, Any]) -> TransferSet:
        """Read, annotate, find duplicates, write; skip what is there already."""
        blank(self.corpus.language)  # a wrong language or tagger shows before anything is written
        self._annotator()
        with claimed(self.out, "a transfer set", MANIFEST):
            return self._run(sources)

    def _run(self, sources: Mapping[str, Any]) -> TransferSet:
        work = self.out / ".work"
        work.mkdir(exist_ok=True)
        try:
            corpus = spool(sources, self.corpus, work)
            plan = self._plan(corpus)
            if (self.out / MANIFEST).exists():
                return self._finished(plan)
            begin(self.out, plan)
            annotate(corpus, self._annotator(), self.engine, self.show, self.say)
            tagged = Annotator(self.corpus.language, self.chain.tagger_name, self.store)
            chain = self.chain.fitted(_Chunks(tagged, corpus))
            job = self._job(chain, corpus, plan, work / ROWS)
            self._write(job, corpus, plan)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        settle(self.out)
        return TransferSet.open(self.out)

    def _plan(self, corpus: Corpus) -> dict[str, Any]:
        """Everything that decides the set's bytes, by name: what resuming compares."""
        names = self._annotator().names
        return fingerprint_of(self.chain) | {
            "source rows": corpus.digest,
            "held-out rows": {k: content_digest([v]) for k, v in corpus.held_out.items()},
            "task": asdict(corpus.task) | {"classes": list(corpus.task.classes)},
            "text columns": list(corpus.text),
            "copies": self.options.copies,
            "seed": self.options.seed,
            "guard": self.options.guard,
            "language": self.corpus.language,
            "tokenizer": tokenizer_identity(self.corpus.language),
            "format": FORMAT,
            "tagger weights": names.tags,
            "candidates": names.candidates,
            "shard_rows": self.options.shard_rows,
        }

    def _finished(self, plan: dict[str, Any]) -> TransferSet:
        done = TransferSet.open(self.out)
        if done.manifest.teacher is not None:
            raise SetError(f"{self.out}: holds a labelled set; build into another folder")
        compare(self.out, done.manifest.recipe.get("plan", {}), plan)
        settle(self.out)
        return done

    def _annotator(self) -> Annotator:
        return Annotator.of(self.chain, self.corpus.language, self.store)

    def _job(self, chain: Transform, corpus: Corpus, plan: dict[str, Any], source: Path) -> Job:
        guarded, sums = np.zeros((0, 2), np.uint64), np.zeros(0, np.uint64)
        if self.options.guard and corpus.held_out:
            texts = [
                [fold(whole(table[name])) for name in corpus.text]
                for table in corpus.held_out.values()
            ]
            keys = np.concatenate([content_keys(columns) for columns in texts])
            guarded = np.unique(keys[order(keys)], axis=0)
            sums = np.unique(np.concatenate([letter_sums(columns[0])[0] for columns in texts]))
        return Job(
            source=source,
            digest=corpus.digest,
            out=self.out,
            store=self.store.root,
            transform=chain,
            text=corpus.text,
            task=corpus.task,
            copies=self.options.copies,
            seed=self.options.seed,
            language=self.corpus.language,
            names=self._annotator().names,
            guarded=guarded,
            sums=sums,
            mark=identity(**plan),
        )

    def _write(self, job: Job, corpus: Corpus, plan: dict[str, Any]) -> None:
        rows, each = corpus.train.num_rows, job.copies + 1
        parts = units(rows, job.copies, self.options.shard_rows)
        with self.engine.running(job) as run:
            keep, guarded = self._keep(job, parts, run)
            tasks = (replace(u, keep=np.array(keep[u.first * each : u.last * each])) for u in parts)
            shards: list[Shard] = []
            with progress("writing", len(keep), self.show) as advance:
                for part, shard in zip(parts, run(write_unit, tasks), strict=True):
                    shards += [shard] if shard else []
                    advance((part.last - part.first) * each, "")
        kept = sum(shard.rows for shard in shards)
        if not shards:
            raise SetError(f"{self.out}: no row is left, all of them equal held-out rows")
        splits: dict[str, tuple[Shard, ...]] = {"train": tuple(shards)}
        for name, table in corpus.held_out.items():
            held_out = narrow(table)
            splits[name] = (write_shard(self.out, f"{name}-00000", held_out, corpus.task),)
        content = {k: v for k, v in plan.items() if k != "shard_rows"}
        draft = Manifest(
            task=corpus.task,
            text=corpus.text,
            splits=splits,
            digest="",
            fingerprint=identity(**content),
            source=corpus.digest,
            seed=job.seed,
            counts={
                "source_rows": rows,
                "copies_per_row": job.copies,
                "duplicates": len(keep) - guarded - kept,
                "guarded": guarded,
                "rows": kept,
            },
            recipe={"chain": repr(self.chain), "steps": to_steps(self.chain), "plan": plan},
            versions=versions(),
        )
        digest = content_digest(TransferSet(self.out, draft).batches("train"))
        finish(self.out, replace(draft, digest=digest))

    def _keep(self, job: Job, parts: Sequence[Unit], run: Run) -> tuple[npt.NDArray[Any], int]:
        """Return which rows of the whole set stay, and how many the guard took."""
        each = job.copies + 1
        total = parts[-1].last * each
        dedupe = Dedupe(job.source.parent / "keys", total)
        guarded = 0
        with dedupe.adding() as add, progress("finding duplicates", total, self.show) as advance:
            for keys, held in run(keys_of, parts):
                add(keys, np.arange(len(keys)) % each == 0, ~held)
                guarded += int(held.sum())
                advance(len(keys), "")
        return dedupe.keep(), guarded


class _Chunks:
    """The source rows as token batches, one chunk in memory; may be read several times."""

    def __init__(self, annotator: Annotator, corpus: Corpus) -> None:
        self.annotator, self.corpus = annotator, corpus

    def __iter__(self) -> Iterator[TokenBatch]:
        for column in self.corpus.text:
            for chunk in self.corpus.train[column].chunks:
                for first in range(0, len(chunk), _CHUNK):
                    yield self.annotator.batch(chunk.slice(first, _CHUNK))
