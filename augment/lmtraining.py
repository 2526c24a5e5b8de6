"""The loop that trains a masked language model, and what one step of it takes."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from augment.masking import Pieces, batches, only_masked
from augment.progress import progress

_WARMUP = 0.1
_TRIALS = 10


@dataclass(frozen=True, slots=True)
class Training:
    """How steps are made.

    Attributes:
        learning_rate: the highest; it rises over the first tenth of the steps and falls to 0.
        mask_rate: share of the pieces masked.
        tokens: pieces a step.
        seed: of the rows' order and the masks.
        precision: "fp32" or "bf16"; weights are fp32.
    """

    learning_rate: float
    mask_rate: float
    tokens: int
    seed: int
    precision: str


def train_lm(
    model: Any, tokenizer: Any, rows: Pieces, how: Training, steps: int, *, show: bool = False
) -> list[float]:
    """Train in place; return the mean losses, nats a masked piece, of ten even parts of the run."""
    import torch

    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=how.learning_rate,
        betas=(0.9, 0.98),
        eps=1e-6,
        weight_decay=0.01,
        fused=True,
    )
    rising = max(1, round(_WARMUP * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda at: min((at + 1) / rising, (steps - at) / max(1, steps - rising))
    )
    cast = torch.autocast(model.device.type, torch.bfloat16, enabled=how.precision == "bf16")
    stream = batches(rows, tokenizer, rate=how.mask_rate, tokens=how.tokens, seed=how.seed)
    losses: list[float] = []
    # No dropout: minutes are a few passes over the text, and each is masked anew.
    model.eval()
    with only_masked(model) as logits, progress("training", steps, show, "steps") as advance:
        for _ in range(steps):
            batch = next(stream)
            with cast:
                found = logits(batch)
            answers = batch.answers.to(found.device)
            loss: Any = torch.nn.functional.cross_entropy(found.float(), answers)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
            losses.append(loss.item())
            advance(1, f"loss {np.mean(losses[-20:]):.3f}")
    return [round(float(np.mean(part)), 3) for part in np.array_split(losses, 10) if len(part)]


def seconds_a_step(model: Any, tokenizer: Any, rows: Pieces, how: Training) -> float:
    """Return what a step takes, from a few that change nothing: their learning rate is 0."""
    still = replace(how, learning_rate=0.0)
    train_lm(model, tokenizer, rows, still, 1)
    began = time.monotonic()
    train_lm(model, tokenizer, rows, still, _TRIALS)
    return (time.monotonic() - began) / _TRIALS
