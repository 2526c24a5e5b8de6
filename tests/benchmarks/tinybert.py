"""TinyBERT's students beside BERT-base, and what it costs to capture a teacher's inside."""

from typing import Any

import torch
from torch import Tensor

from distill.attention import capturing
from distill.cost import count, flops
from distill.students.tinybert import SIZES, Shape, tinybert
from tests.benchmarks.common import best, line, title

ROWS, TOKENS = 32, 128
BASE = Shape(12, 768, 3072, 12)


def made(shape: Shape) -> Any:
    """A model with random weights, which cost what trained ones do."""
    names = ("negative", "positive")
    return tinybert(shape, classes=names, problem="single_label_classification", seed=0).eval()


def batch() -> dict[str, Tensor]:
    """Full rows: no padding that one model might skip."""
    ids = torch.randint(1000, 30000, (ROWS, TOKENS), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def main() -> None:
    """Print the figures."""
    threads = torch.get_num_threads()
    title(f"TinyBERT, batch {ROWS}, {TOKENS} tokens, fp32, {threads} CPU threads, random weights")
    inputs = batch()
    models = {"BERT-base": made(BASE), "TinyBERT6": made(SIZES[6]), "TinyBERT4": made(SIZES[4])}
    with torch.inference_mode():
        for model in models.values():
            model(**inputs)
        # By turns, so that a change of the clock falls on all of them.
        seconds = {name: float("inf") for name in models}
        for _ in range(3):
            for name, model in models.items():
                seconds[name] = min(seconds[name], best(lambda model=model: model(**inputs), 1))
        for name, model in models.items():
            faster = seconds["BERT-base"] / seconds[name]
            line(name, ROWS / seconds[name], "rows/s", faster, "BERT-base")
            line("  parameters", count(model)[0] / 1e6, "M")
            line("  operations, two a multiply-add", flops(model, TOKENS) / 1e9, "G a row")
        _capture(models["BERT-base"], inputs)


def _capture(teacher: Any, inputs: dict[str, Tensor]) -> None:
    title("A teacher's forward: attention of 4 layers and 5 hidden states")
    plain = best(lambda: teacher(**inputs), 2)
    line("nothing captured", plain, "s")
    with capturing(teacher, attention=(3, 6, 9, 12), hidden=(0, 3, 6, 9, 12)) as capture:
        taken = best(lambda: capture(inputs), 2)
    line("capturing(...)", taken, "s", taken / plain, "as long")
    teacher.set_attn_implementation("eager")
    every = {"output_attentions": True, "output_hidden_states": True}
    eager = best(lambda: teacher(**inputs, **every), 2)
    line("eager, all 12 layers kept", eager, "s", eager / plain, "as long")
    teacher.set_attn_implementation("sdpa")
