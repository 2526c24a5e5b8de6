"""Masked-language-model training on raw text, in minutes: an encoder that learns to fill gaps.

The number of steps is fixed before the first one, from the time that one takes, so the learning
rate can rise and fall to zero inside a budget of minutes.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from augment.digest import content_digest
from augment.errors import CorpusError
from augment.files import begin, claimed, compare, read_json, settle, write_atomic
from augment.lmhead import load, save, start_bias, start_head
from augment.lmtraining import Training, seconds_a_step, train_lm
from augment.machine import resolve, steady_memory, threads
from augment.masking import Pieces, accuracy, pieces
from augment.rawtext import hold_out, not_within, read_texts
from augment.settings import parse

RECORD = "adaptation.json"
_MINUTES = 9.0
# Saving the folder, and what a clock is off by.
_SPARE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class AdaptSettings:
    """What ``adapt_lm`` is asked for, in its words."""

    model: str
    corpus: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    held_out_share: float = 0.05
    text: tuple[str, ...] = ("text",)
    min_words: tuple[int, ...] = (1,)
    minutes: float | None = None
    steps: int | None = None
    learning_rate: float = 7e-4
    mask_rate: float = 0.2
    tokens_per_step: int = 2000
    max_tokens: int = 128
    seed: int = 0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("corpus", 1), ("text", 1), ("min_words", 1)):
            if len(getattr(self, name)) < least:
                raise ValueError(f"{name} names one at least, got none")
        if self.minutes is not None and self.steps is not None:
            raise ValueError("either minutes or steps says how long; leave one of them out")
        for name in ("minutes", "steps", "learning_rate", "tokens_per_step", "threads"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is a number above 0, got {value}")
        for name in ("mask_rate", "held_out_share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is a share in (0, 1), got {getattr(self, name)}")
        if self.max_tokens < 8:
            raise ValueError(f"max_tokens is a count of at least 8, got {self.max_tokens}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is a whole number from 0 to 2**63 - 1, got {self.seed}")
        if min(self.min_words) < 1:
            raise ValueError(f"min_words is a count of at least 1, got {min(self.min_words)}")


@dataclass(frozen=True, slots=True)
class Adapted:
    """An adapted model: its folder and what ``adaptation.json`` says."""

    path: Path
    record: dict[str, Any]


def adapt_lm(
    model: str | Path,
    corpus: Sequence[str | Path],
    out: str | Path,
    *,
    held_out: Sequence[str | Path] = (),
    held_out_share: float = 0.05,
    text: Sequence[str] = ("text",),
    min_words: int | Sequence[int] = 1,
    minutes: float | None = None,
    steps: int | None = None,
    learning_rate: float = 7e-4,
    mask_rate: float = 0.2,
    tokens_per_step: int = 2000,
    max_tokens: int = 128,
    seed: int = 0,
    precision: str = "auto",
    threads: int | None = None,
    show: bool = True,
) -> Adapted:
    """Train an encoder to fill masked pieces of raw text; write an ``AutoModelForMaskedLM`` folder.

    A model without a masked-LM head gets one, tied to its input embeddings. A finished folder of
    the same settings and texts is returned as it is. The same ``steps`` and ``seed`` give the same
    weights on the same CPU.

    Args:
        model: a folder, a hub name or ``package:<module>``.
        corpus: files, or ``package:gensim``; see ``augment.rawtext.read_texts``.
        out: the folder to write: new, empty, or an earlier one of the same settings.
        held_out: files to measure on; texts that occur in the corpus are left out of them.
        held_out_share: of the corpus's texts, measured on instead when ``held_out`` is empty.
        text: names of the text columns of csv, tsv, json lines and Parquet files.
        min_words: leave out shorter texts; one number, or one for each file of the corpus.
        minutes: for the whole run, measuring before and after included; 9 when left out. Steps are
            planned from the speed at the start: a machine that gets busy later takes longer.
        steps: exactly, instead of ``minutes``.
        learning_rate: the highest, after a tenth of the steps; it then falls to 0.
        mask_rate: share of the pieces masked in training.
        tokens_per_step: pieces a step reads.
        max_tokens: pieces a row, special tokens included; longer texts become several rows.
        seed: of the head's weights, the order of rows, the masks and the held-out share.
        precision: "auto", "fp32" or "bf16"; weights are kept in fp32.
        threads: of the CPU; all cores when left out.
        show: draw progress on a terminal.

    Raises:
        SettingsError: a setting is out of range.
        CorpusError: a file cannot be read, or nothing is left to train or to measure on.
        ResourceError: the model cannot be had, or is no encoder that fills masks.
        SetError: ``out`` holds something else.
        MachineError: the disk refuses.
    """
    started = time.monotonic()
    table = {
        "model": str(model),
        "corpus": [str(name) for name in corpus],
        "held_out": [str(name) for name in held_out],
        "held_out_share": held_out_share,
        "text": list(text),
        "min_words": [min_words] if isinstance(min_words, int) else list(min_words),
        "minutes": minutes,
        "steps": steps,
        "learning_rate": learning_rate,
        "mask_rate": mask_rate,
        "tokens_per_step": tokens_per_step,
        "max_tokens": max_tokens,
        "seed": seed,
        "precision": precision,
        "threads": threads,
    }
    settings = parse(AdaptSettings, table, "adapt-lm")
    train, held, dropped = _texts(settings)
    digest = content_digest([pa.table({"text": train}), pa.table({"text": held})])
    folder = Path(out)
    plan = {"settings": asdict(settings), "texts": digest}
    with claimed(folder, "an adapted model", RECORD):
        if (folder / RECORD).exists():
            compare(folder, read_json(folder / RECORD), plan)
        else:
            begin(folder, plan)
            counts = {"train": len(train), "held_out": len(held), "held_out_in_train": dropped}
            done = _adapt(settings, train, held, folder, started, show)
            noted = json.dumps(plan | {"counts": counts} | done, indent=1, ensure_ascii=False)
            write_atomic(folder / RECORD, f"{noted}\n".encode())
        settle(folder)
    return Adapted(folder, read_json(folder / RECORD))


def _texts(settings: AdaptSettings) -> tuple[list[str], list[str], int]:
    """Return training texts, held-out texts, and how many of the latter were dropped.

    Raises:
        CorpusError: one of them is empty.
    """
    train = read_texts(settings.corpus, settings.text, settings.min_words)
    if settings.held_out:
        held = read_texts(settings.held_out, settings.text, (1,))
    else:
        train, held = hold_out(train, settings.held_out_share, settings.seed)
    kept = not_within(held, train)
    if not kept or not train:
        raise CorpusError(
            f"{', '.join(settings.held_out or settings.corpus)}: no text is left to measure on "
            "that does not occur in the training text; name others with --held-out"
        )
    return train, kept, len(held) - len(kept)


def _adapt(
    settings: AdaptSettings,
    train: list[str],
    held: list[str],
    folder: Path,
    started: float,
    show: bool,
) -> dict[str, Any]:
    import torch
    import transformers

    precision = resolve(settings.precision)
    with threads(settings.threads or os.cpu_count() or 1), steady_memory():
        model, tokenizer, headless = load(settings.model, settings.seed)
        longest = _longest(model, tokenizer, settings.max_tokens)
        rows, test = (_pieces(texts, tokenizer, longest) for texts in (train, held))
        if headless:
            start_bias(model, rows)
        began = time.monotonic()
        before = accuracy(model, test, tokenizer, precision=precision)
        measuring = time.monotonic() - began
        if headless:
            start_head(model, rows, tokenizer, seed=settings.seed, precision=precision)
        how = Training(
            learning_rate=settings.learning_rate,
            mask_rate=settings.mask_rate,
            tokens=settings.tokens_per_step,
            seed=settings.seed,
            precision=precision,
        )
        steps = settings.steps
        if steps is None:
            each = seconds_a_step(model, tokenizer, rows, how)
            spent = time.monotonic() - started + measuring + _SPARE_SECONDS
            steps = max(1, int(((settings.minutes or _MINUTES) * 60 - spent) / each))
        losses = train_lm(model, tokenizer, rows, how, steps, show=show)
        after = accuracy(model, test, tokenizer, precision=precision)
    save(model, tokenizer, folder)
    return {
        "head": "new" if headless else "kept",
        "precision": precision,
        "steps": steps,
        "passes": round(steps * settings.tokens_per_step / len(rows.ids), 2),
        "losses": losses,
        "before": before,
        "after": after,
        "seconds": round(time.monotonic() - started, 1),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def _longest(model: Any, tokenizer: Any, wanted: int) -> int:
    limits = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
    return min([wanted, *(int(limit) for limit in limits if limit)])


def _pieces(texts: list[str], tokenizer: Any, longest: int) -> Pieces:
    found = pieces(texts, tokenizer, longest)
    if not len(found):
        raise CorpusError(f"the model's tokenizer knows no piece of the {len(texts):,} texts")
    return found
