"""Edits of the Tang chain and joining back to text, beside a per-word Python loop of the same law."""

import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

import augment as A
from augment.batch import TokenBatch, cut
from augment.draws import Place
from augment.transforms.replace import WordsByTag
from augment.variants import variants
from tests.benchmarks.common import best, borrowed, line, skip, title

CORPUS = Path(__file__).parents[2] / "corpora" / "reviews" / "train.tsv"
COPIES = 100
BLOCK = 3000


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


def published(rows: list[list[str]], words: dict[int, list[str]], rng: Any) -> list[str]:
    """The published script's manner: numpy's global draws, one call a word, one list a sentence.

    It draws words uniformly from the tag's list of all its occurrences, which is the unigram law.
    """

    def edited(word: str) -> str:
        x = rng.rand()
        if x < 0.1:
            return "[MASK]"
        if x < 0.2:
            same = words[min(len(word), 8)]
            return same[rng.randint(len(same))]
        return word

    done = []
    for row in rows:
        new = [edited(word) for word in row]
        if rng.rand() < 0.25:
            n = min(rng.randint(1, 6), len(new))
            start = rng.randint(len(new) - n + 1)
            new = new[start : start + n]
        done.append(" ".join(new))
    return done


def tight(rows: list[list[str]], words: dict[int, list[str]], rng: random.Random) -> list[str]:
    """The same law by the fastest loop we could write: no call but the draw, no function."""
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


def main() -> None:
    """Print the figures."""
    title("Edits of the Tang chain, one core")
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
    blocks = [slice(i, i + BLOCK) for i in range(0, len(index), BLOCK)]  # as `variants` does
    expanded = [batch.take(index[part], copies[part]) for part in blocks]

    def edit() -> list[TokenBatch]:
        return [chain.apply(part, Place(7)) for part in expanded]

    edited = edit()
    plain = tokens / best(lambda: published(rows, by_length, np.random.RandomState(7)))
    quick = tokens / best(lambda: tight(rows, by_length, random.Random(7)))
    edits = tokens * COPIES / best(edit)
    join = sum(len(e.words) for e in edited) / best(lambda: [e.text() for e in edited])
    line("loop in the published manner, joined", plain / 1e6, "M tokens/s")
    line("the tightest loop, joined", quick / 1e6, "M tokens/s")
    line("edits", edits / 1e6, "M tokens/s", edits / plain, "the published manner")
    line("  beside", edits / 1e6, "M tokens/s", edits / quick, "the tightest loop")
    line("joining back to text", join / 1e6, "M tokens/s", join / plain, "the published manner")
    text = batch.text()
    ours = (
        len(rows)
        * COPIES
        / best(lambda: variants(chain, [text], [batch], range(1, COPIES + 1), 7), 3)
    )
    line("variants, edited and joined", ours, "variants/s")
    with borrowed("nlpaug") as there:
        if not there:
            skip("nlpaug's random word swap", "it cannot be installed here")
            return
        sys.modules.setdefault("gdown", ModuleType("gdown"))  # its downloader, of no use here
        from nlpaug.augmenter.word import RandomWordAug

        swap = RandomWordAug(action="swap")
        texts = text.to_pylist()[:300]
        theirs = len(texts) / best(lambda: swap.augment(texts, num_thread=1), 3)
        line("nlpaug, random word swap", theirs, "variants/s")
        line("variants, beside it", ours, "variants/s", ours / theirs, "nlpaug")
