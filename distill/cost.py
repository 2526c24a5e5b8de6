"""What a model costs: parameters, operations, bytes, milliseconds.

Timings are of the model alone, on real rows of the held-out split, tokens ready in memory.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from augment.progress import quiet
from augment.transferset import TransferSet
from distill.examples import Examples, read_examples

BATCH = 128


@dataclass(frozen=True, slots=True)
class Cost:
    """One model's cost on one corpus.

    ``flops`` counts two per multiply-add, for one row of the corpus's mean length ``tokens``.
    ``latency_ms`` is the median at batch 1, ``rows_per_second`` is at batch 128.
    """

    parameters: int
    parameters_outside_embeddings: int
    tokens: float
    flops: float
    bytes: int
    latency_ms: float
    rows_per_second: float
    threads: int

    def ratio_to(self, teacher: "Cost") -> dict[str, float]:
        """Return how many times cheaper than the teacher, figure by figure; above 1 is better."""
        mine, other = asdict(self), asdict(teacher)
        ratios = {
            name: other[name] / mine[name]
            for name in (
                "parameters",
                "parameters_outside_embeddings",
                "flops",
                "bytes",
                "latency_ms",
            )
        }
        return ratios | {"rows_per_second": self.rows_per_second / teacher.rows_per_second}


def measure(
    folder: str | Path,
    transfer_set: TransferSet,
    *,
    max_tokens: int = 128,
    repeats: int = 50,
    rows: int = 1024,
    threads: int | None = None,
) -> Cost:
    """Load a model folder, a student's or a teacher's, and measure it on the set's held-out rows.

    Args:
        folder: any transformers classification model with a fast tokenizer.
        transfer_set: gives the rows; its first held-out split, or train without one.
        max_tokens: a row's longest.
        repeats: timings at batch 1.
        rows: how many rows are timed at batch 128.
        threads: CPU threads while timing; by default what torch uses now.
    """
    folder = str(folder)
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        model: Any = AutoModelForSequenceClassification.from_pretrained(
            folder, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
        ).eval()
    split = next((name for name in transfer_set.splits if name != "train"), "train")
    examples = read_examples(transfer_set, split, tokenizer, max_tokens=max_tokens)
    mean = float(examples.lengths.mean())
    with _threads(threads) as used:
        return Cost(
            parameters=count(model)[0],
            parameters_outside_embeddings=count(model)[1],
            tokens=mean,
            flops=flops(model, mean),
            bytes=sum(path.stat().st_size for path in Path(folder).glob("*.safetensors")),
            latency_ms=_latency(model, examples, repeats),
            rows_per_second=_throughput(model, examples, rows),
            threads=used,
        )


def count(model: nn.Module) -> tuple[int, int]:
    """Return the parameters, and those outside embedding tables; a shared one counts once."""
    tables = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    every = list(model.parameters())
    return (
        sum(p.numel() for p in every),
        sum(p.numel() for p in every if id(p) not in tables),
    )


def flops(model: Any, tokens: float) -> float:
    """Return the operations for one row of ``tokens`` tokens, two per multiply-add.

    A student says so itself; any other model is counted by torch on a row of that length.
    """
    if hasattr(model, "flops"):
        return float(model.flops(tokens))
    low, high = int(np.floor(tokens)), int(np.ceil(tokens))
    if low == high:
        return _counted(model, low)
    # Linear between the two whole lengths: the mean length is rarely whole.
    return _counted(model, low) + (tokens - low) * (_counted(model, high) - _counted(model, low))


def _counted(model: Any, tokens: int) -> float:
    ids = torch.full((1, max(tokens, 1)), 1, device=model.device)
    # Torch counts the fused attention of GPUs, and misses the CPU's, 3 to 7 % at 128 tokens.
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    counter = FlopCounterMode(display=False, custom_mapping={fused: _attention_flops})
    with torch.no_grad(), counter:
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return float(counter.get_total_flops())


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    rows, heads, tokens, width = query  # shapes; two products, two operations a multiply-add
    operations: int = 2 * rows * heads * tokens * key[2] * (width + value[3])
    return operations


def _latency(model: Any, examples: Examples, repeats: int) -> float:
    order = np.random.default_rng(0).integers(0, len(examples), repeats + 5)
    seconds = []
    with torch.inference_mode():
        for row in order:
            inputs = _inputs(examples, np.array([row]))
            start = time.perf_counter()
            model(**inputs)
            seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[5:])) * 1e3  # the first few warm caches up


def _throughput(model: Any, examples: Examples, rows: int) -> float:
    chosen = np.arange(rows) % len(examples)
    chosen = chosen[np.argsort(examples.lengths[chosen], kind="stable")]
    batches = [_inputs(examples, chosen[i : i + BATCH]) for i in range(0, rows, BATCH)]
    with torch.inference_mode():
        model(**batches[0])
        start = time.perf_counter()
        for inputs in batches:
            model(**inputs)
        return rows / (time.perf_counter() - start)


def _inputs(examples: Examples, rows: Any) -> dict[str, torch.Tensor]:
    batch = examples.batch(rows)
    return {name: value for name, value in batch.items() if name not in ("labels", "logits")}


@contextlib.contextmanager
def _threads(threads: int | None) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield threads or before
    finally:
        torch.set_num_threads(before)
