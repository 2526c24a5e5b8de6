"""Edits of the Tang chain and joining back to text, beside a per-word Python loop of the same law."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import augment as A
from augment.batch import TokenBatch, cut
from augment.draws import Place
from augment.transforms.replace import WordsByTag

CORPUS = Path(__file__).parents[2] / "corpora" / "reviews" / "train.tsv"
COPIES = 100


def corpus() -> tuple[list[list[str]], TokenBatch]:
    """The bundled reviews cut at white space, with a tag by word length: no tagger is timed."""
    lines = CORPUS.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t")[0].split(" ") for line in lines]
    bounds = []
    for words in rows:
        at = 0
        for word in words:
            size = len(word.encode())
            bounds += [at, at + size]
            at += size + 1
    text = pa.array([" ".join(words) for words in rows], pa.large_string())
    batch = cut(text, np.array(bounds), np.array([len(words) for words in rows]))
    tags = np.array([min(len(w), 8) - 1 for words in rows for w in words], np.int32)
    names = tuple(f"length-{n}" for n in range(1, 9))
    return rows, TokenBatch(
        batch.rows, batch.copies, batch.offsets, batch.words, batch.spaces, batch.lead,
        batch.table, tags, names,
    )  # fmt: skip


def loop(rows: list[list[str]], words: dict[int, list[str]], rng: random.Random) -> list[str]:
    """The published script's manner: one Python step a word."""
    done = []
    for row in rows:
        new = []
        for word in row:
            u = rng.random()
            if u < 0.1:
                new.append("[MASK]")
            elif u < 0.2:
                new.append(rng.choice(words[min(len(word), 8)]))
            else:
                new.append(word)
        if rng.random() < 0.25:
            n = min(rng.randint(1, 5), len(new))
            start = rng.randint(0, len(new) - n)
            new = new[start : start + n]
        done.append(" ".join(new))
    return done


def best(action: Callable[[], object], turns: int = 5) -> float:
    """Seconds of the fastest turn."""
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    rows, batch = corpus()
    tokens = len(batch.words)
    by_length: dict[int, list[str]] = {}
    for row in rows:
        for word in row:
            by_length.setdefault(min(len(word), 8), []).append(word)
    replace = A.ReplacePOS(0.1, words=WordsByTag.count([batch]))
    chain = (A.Mask(0.1) | replace) >> A.SampleNGram(0.25)
    index = np.repeat(np.arange(len(batch)), COPIES)
    copies = np.tile(np.arange(1, COPIES + 1, dtype=np.int32), len(batch))
    expanded = batch.take(index, copies)
    edited = chain.apply(expanded, Place(7))
    plain = tokens / best(lambda: loop(rows, by_length, random.Random(7)))
    edits = tokens * COPIES / best(lambda: chain.apply(expanded, Place(7)))
    join = len(edited.words) / best(edited.text)
    print(f"per-word Python loop, joined           {plain / 1e6:6.2f} M tokens/s")
    print(
        f"Tang chain, edits                      {edits / 1e6:6.2f} M tokens/s  {edits / plain:5.1f} x"
    )
    print(
        f"joining back to text                   {join / 1e6:6.2f} M tokens/s  {join / plain:5.1f} x"
    )
