"""Substitution's candidates beside the published procedure, and nlpaug's contextual augmenter.

``python -m tests.benchmarks substitution``; the masked LM is that of ../shared.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch.utils.flop_counter import FlopCounterMode

import augment as A
from augment.annotate.columns import Annotator
from augment.annotate.masked_lm import MaskedLM
from augment.annotate.neighbours import Neighbours
from augment.batch import TokenBatch
from augment.runtimes import RuntimeName
from augment.tokens import blank
from tests.benchmarks.common import ROOT, borrowed, line, sentences, skip, title
from tests.benchmarks.labelling import RUNTIMES, peak

MODEL = ROOT.parent / "shared" / "models" / "masked-lm-minilm"
LOOP_TEXTS = 40
COPIES = 20
NLPAUG = ("nlpaug==1.1.11", "transformers==4.57.1", "tokenizers==0.22.2", "huggingface-hub==0.36.2")
WAYS = (("masked", "both"), ("masked", "masked"), ("spread", "masked"), ("unmasked", "masked"))
Column = dict[tuple[int, int], set[str]]


def published(texts: Sequence[str], k: int = 15) -> int:
    """The published procedure: one forward pass a word, batch 1, masked and original text.

    Words touched are ours: alphabetic, no stop words, one piece for the model. Returns how many.
    """
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForMaskedLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    lexemes, asked = blank("en").vocab, 0
    with torch.no_grad():
        for text in texts:
            words = text.split()
            for number, word in enumerate(words):
                if not lexemes[word].is_alpha or lexemes[word].is_stop:
                    continue
                if len(tokenizer.tokenize(word)) > 1:
                    continue
                masked = [*words[:number], "[MASK]", *words[number + 1 :]]
                inputs = tokenizer(" ".join(masked), text, return_tensors="pt")
                at = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
                scores = model(**inputs).logits[0, at]
                order = torch.argsort(scores, descending=True)[: k + 40].tolist()
                pieces = tokenizer.convert_ids_to_tokens(order)
                _ = [p for p in pieces if not p.startswith("##") and p != word][:k]
                asked += 1
    return asked


def substitute(mode: str, context: str, precision: str, runtime: RuntimeName) -> A.Substitute:
    """The transform with the masked LM alone."""
    options: Any = {"mode": mode, "context": context, "precision": precision, "runtime": runtime}
    return A.Substitute(0.4, model=str(MODEL), vectors="none", **options)


def column(batch: TokenBatch) -> Column:
    """Candidates by (row, word), where a word has any."""
    found = batch.candidates
    assert found is not None
    strings = found.strings.to_pylist()
    rows = np.repeat(np.arange(len(batch)), batch.lengths)
    return {
        (int(row), t): {strings[c] for c in found.pool[found.first[t] :][: found.count[t]]}
        for t, row in enumerate(rows.tolist())
        if found.count[t]
    }


def operations(transform: A.Substitute, texts: list[str], words: int) -> float:
    """Operations on real tokens, two per multiply-add: every masked sequence, the head a word."""
    model = MaskedLM.load(str(MODEL), precision="fp32")
    lengths: dict[int, float] = {}
    total = 0.0
    asked = column(Annotator.of(transform, "en", None).batch(pa.array(texts, pa.large_string())))
    per_text = np.bincount([row for row, _ in asked], minlength=len(texts))
    for text, count in zip(texts, per_text.tolist(), strict=True):
        length = len(model.tokenizer(text)["input_ids"])
        if length not in lengths:
            ids = torch.ones((1, length), dtype=torch.long)
            batch = {"place": torch.zeros(1, dtype=torch.long), "input_ids": ids}
            batch["token_type_ids"] = torch.zeros_like(ids)
            counter = FlopCounterMode(display=False)
            with torch.no_grad(), counter:
                model.states.module(**batch)  # type: ignore[attr-defined]
            lengths[length] = float(counter.get_total_flops())
        total += count * lengths[length]
    config = model.best.module.model.config  # type: ignore[attr-defined]
    return total + words * 2 * config.hidden_size * (config.vocab_size + config.hidden_size)


def main() -> None:
    """Print the figures."""
    title("Substitution: candidates of SST-2's dev sentences, all cores, stop words left alone")
    if not MODEL.is_dir():
        skip("candidates", "../shared/models is not here")
        return
    texts = sentences("dev")
    published(texts[:2])
    start = time.perf_counter()
    words = published(texts[:LOOP_TEXTS])
    loop = LOOP_TEXTS / (time.perf_counter() - start)
    line(f"published procedure, batch 1, {words} words", loop, "sentences/s")
    text = pa.array(texts, pa.large_string())
    exact: Column = {}
    quickest = 0.0
    for runtime in RUNTIMES:
        for precision in ("fp32", "bf16"):
            for mode, context in WAYS:
                transform = substitute(mode, context, precision, runtime)
                annotator = Annotator.of(transform, "en", None)
                annotator.batch(text.slice(0, 50))
                start = time.perf_counter()
                batch = annotator.batch(text)
                rate = len(texts) / (time.perf_counter() - start)
                name = f"{mode}, {'masked + original' if context == 'both' else 'masked alone'}"
                line(
                    f"{name}, {precision}, {runtime}",
                    rate,
                    "sentences/s",
                    rate / loop,
                    "the procedure",
                )
                if (mode, context) == ("masked", "masked"):
                    exact = exact or column(batch)
                    quickest = max(quickest, rate if runtime == "torch" else 0.0)
                    work = operations(transform, texts, len(exact))
                    share = 100 * work * rate / len(texts) / peak(precision)
                    line("  of a 4096-cubed product's peak", share, "%")
                if context == "masked":
                    overlap = [len(c & exact[w]) / len(exact[w]) for w, c in column(batch).items()]
                    line(
                        "  candidates shared with masked, fp32", 100 * float(np.mean(overlap)), "%"
                    )
    variants = quickest * COPIES
    line(f"variants at {COPIES} copies, masked, torch", variants, "variants/s")
    _neighbours()
    with borrowed(*NLPAUG) as folder:
        if not folder:
            skip("nlpaug's contextual augmenter", "it cannot be installed here")
            return
        theirs = _nlpaug(folder, texts[:60])
        line("nlpaug, contextual substitution", theirs, "variants/s")
        line("variants, beside it", variants, "variants/s", variants / theirs, "nlpaug")


def _neighbours() -> None:
    draws = np.random.default_rng(0)
    vectors = draws.standard_normal((100_000, 300), dtype=np.float32)
    words = [f"w{i}" for i in range(len(vectors))]
    start = time.perf_counter()
    table = Neighbours.of(words, vectors)
    line("vectors, 100,000 x 300, made ready", time.perf_counter() - start, "s")
    asked = [words[i] for i in draws.choice(len(words), 20_000, replace=False)]
    start = time.perf_counter()
    found = table.nearest(asked, 15)
    line("top 15 of 20,000 words among them", time.perf_counter() - start, "s")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    wrong = 0
    for word, near in zip(asked[:500], found, strict=False):
        scores = unit @ unit[int(word[1:])]
        scores[int(word[1:])] = -2
        wrong += {words[i] for i in np.argpartition(-scores, 15)[:15]} != set(near)
    line("  of 500 words otherwise by brute force", wrong, "words")


_CHILD = """
import sys, time
from types import ModuleType
sys.modules.setdefault("gdown", ModuleType("gdown"))
from nlpaug.augmenter.word import ContextualWordEmbsAug
model, texts = sys.argv[1], sys.stdin.read().split(chr(10))
augmenter = ContextualWordEmbsAug(
    model_path=model, model_type="bert", action="substitute", aug_p=0.4, top_k=15, device="cpu"
)
augmenter.augment(texts[:4])
start = time.perf_counter()
augmenter.augment(texts)
print(len(texts) / (time.perf_counter() - start))
"""


def _nlpaug(folder: str, texts: list[str]) -> float:
    """Variants a second of nlpaug, in a process of its own with the transformers it needs."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(MODEL)], input="\n".join(texts), text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": folder}, check=True, cwd=Path(folder),
    )  # fmt: skip
    return float(done.stdout.split()[-1])
