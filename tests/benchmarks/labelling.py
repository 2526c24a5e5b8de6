"""Labelling beside ``transformers.pipeline``, its share of the processor's peak, and from the store."""

import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline

import augment as A
from augment.runtimes import RuntimeName
from augment.settings import model_folder
from augment.teacher import Teacher
from tests.benchmarks.common import ENCODER, best, cached, line, sentences, title

TEXTS = 16_000
RUNTIMES: tuple[RuntimeName, ...] = ("torch", "openvino") if find_spec("openvino") else ("torch",)
PIPELINE_TEXTS = 1_500


def classifier(folder: Path) -> None:
    """Write the packaged encoder as a classifier; its head is drawn, its cost is real."""
    base = model_folder(ENCODER)
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(base, num_labels=2)
    AutoModelForSequenceClassification.from_pretrained(base, config=config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)


def operations(teacher: Any, lengths: list[int]) -> float:
    """Operations of the encoder on the real tokens of all rows, two per multiply-add."""
    known: dict[int, float] = {}
    for length in set(lengths):
        ids = torch.ones((1, length), dtype=torch.long)
        counter = FlopCounterMode(display=False)
        with torch.no_grad(), counter:
            teacher.runtime.module(input_ids=ids, attention_mask=torch.ones_like(ids))
        known[length] = float(counter.get_total_flops())
    return sum(known[length] for length in lengths)


def peak(precision: str) -> float:
    """Operations a second of a 4096 x 4096 x 4096 matrix product."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.randn(4096, 4096).to(kind), torch.randn(4096, 4096).to(kind)
    with torch.no_grad():
        return 2 * 4096**3 / best(lambda: a @ b, 5)


def main() -> None:
    """Print the figures."""
    title("Labelling SST-2 with a 6-layer encoder, all cores")
    folder = cached("classifier", classifier)
    texts = sentences()[:TEXTS]
    warnings.simplefilter("ignore")
    lengths: list[int] = []
    work = 0.0
    for precision in ("fp32", "bf16"):
        ask = pipeline(
            "text-classification", str(folder), batch_size=32, device="cpu",
            dtype=torch.bfloat16 if precision == "bf16" else torch.float32,
        )  # fmt: skip
        ask(texts[:64])
        theirs = PIPELINE_TEXTS / best(lambda ask=ask: ask(texts[:PIPELINE_TEXTS]), 2)  # type: ignore[misc]
        line(f"transformers.pipeline, batches of 32, {precision}", theirs, "texts/s")
        for runtime in RUNTIMES:
            teacher = Teacher.from_pretrained(str(folder), precision=precision, runtime=runtime)
            if not work:
                lengths = [len(ids) for ids in teacher.tokenizer(texts)["input_ids"]]
                work = operations(teacher, lengths)
            list(teacher.logits([texts[:500]]))
            taken = best(lambda teacher=teacher: list(teacher.logits([texts])), 2)  # type: ignore[misc]
            ours = len(texts) / taken
            line(f"label, {precision}, {runtime}", ours, "texts/s", ours / theirs, "the pipeline")
            line("  of a 4096-cubed product's peak", 100 * work / taken / peak(precision), "%")
    title("Labelling again, from the store")
    with tempfile.TemporaryDirectory() as place:
        store = Path(place, "store")
        made = A.build(
            texts, A.Mask(0.1), out=Path(place, "set"), copies=10, store=store, show=False
        )
        stub = Teacher.from_pretrained(str(folder))
        done = None
        for turn in range(3):
            start = time.perf_counter()
            done = A.label(made, stub, Path(place, f"labelled-{turn}"), store=store, show=False)
            taken = time.perf_counter() - start
            name = "from the store" if turn else "first time"
            line(f"{name}, {done.asked:,} put to the teacher", made.rows() / taken, "rows/s")
