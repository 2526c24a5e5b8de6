"""What the cells of an ablation say: means, the gap, and how the gain splits up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from augment.transferset import Task

_TITLES = {
    ("hard", "originals"): "hard labels, originals",
    ("hard", "copies"): "hard labels, copies (inherited label)",
    ("logits", "originals"): "logits, originals",
    ("logits", "copies"): "logits, copies",
    ("argmax", "copies"): "teacher's argmax, copies",
    ("hard", ""): "hard labels, originals (no task distillation)",
    ("logits", ""): "predictions alone, originals",
    ("without-augmentation", ""): "every stage, originals",
    ("full", ""): "every stage, transfer set",
    ("without-transformer", ""): "predictions alone, transfer set",
    ("without-attention", ""): "without attention",
    ("without-hidden", ""): "without hidden states",
    ("without-embedding", ""): "without embeddings",
    ("without-prediction", ""): "labels instead of the teacher's predictions",
    ("without-general", ""): "without general distillation",
    ("map-uniform", ""): "layer map: uniform",
    ("map-top", ""): "layer map: top",
    ("map-bottom", ""): "layer map: bottom",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One cell over its seeds, in points; ``sd`` is None with a single seed."""

    target: str
    data: str
    title: str
    values: dict[str, tuple[float, ...]]
    mean: dict[str, float]
    sd: dict[str, float | None]
    last_checks: float | None


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference between cells in points, with its standard error."""

    name: str
    points: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class Choice:
    """Learning rate and steps that the trials chose; ``tried`` holds each rate's best points."""

    learning_rate: float
    steps: int
    tried: dict[str, float]


def choose(trials: Sequence[dict[str, Any]], *, last_only: bool) -> Choice:
    """Choose the rate, and the check, at which the trials' mean on the slice is best.

    Several trials of one rate (different cells) count equally; of equal means the earlier wins.

    Args:
        trials: records of trained trial cells, each with its ``curve`` on the slice.
        last_only: keep the trials' own number of steps and choose the rate alone.
    """
    best: tuple[float, float, int] | None = None
    tried: dict[str, float] = {}
    for rate in dict.fromkeys(trial["learning_rate"] for trial in trials):
        group = [trial for trial in trials if trial["learning_rate"] == rate]
        steps = int(group[0]["steps"])
        curve = np.mean([trial["curve"] or [trial["points"]["slice"]] for trial in group], axis=0)
        check = len(curve) - 1 if last_only else int(curve.argmax())
        tried[f"{rate:g}"] = float(curve[check])
        if best is None or curve[check] > best[0]:
            best = (float(curve[check]), rate, round(steps * (check + 1) / len(curve)))
    assert best is not None
    return Choice(best[1], best[2], tried)


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything an ablation prints. ``gains`` are on validation, the whole gap first."""

    measure: str
    seeds: int
    steps: int
    learning_rate: float
    trials: dict[str, float]
    lines: tuple[Line, ...]
    gains: tuple[Gain, ...]
    teacher: float


def summarise(
    records: Sequence[dict[str, Any]], teacher: float, choice: Choice | None, task: Task
) -> Summary:
    """Turn the cells' records into lines and gains.

    Args:
        records: of cells.
        teacher: its points on validation.
        choice: what trials chose, if any were made.
        task: what the points are.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        key = (record["cell"]["target"], record["cell"]["data"])
        groups.setdefault(key, []).append(record)
    lines = {key: _line(key, group) for key, group in groups.items()}
    at = {key: line.values["validation"] for key, line in lines.items()}
    base, both = at["hard", "originals"], at["logits", "copies"]
    taught, copied = at["logits", "originals"], at["hard", "copies"]
    gains = (
        _gain("logits x copies - hard x originals", (both, 1), (base, -1)),
        _gain("distillation alone", (taught, 1), (base, -1)),
        _gain("augmentation alone", (copied, 1), (base, -1)),
        _gain("interaction", (both, 1), (taught, -1), (copied, -1), (base, 1)),
    )
    return Summary(
        measure="Pearson x 100" if task.kind == "regression" else "accuracy, %",
        seeds=len(base),
        steps=int(records[0]["steps"]),
        learning_rate=float(records[0]["learning_rate"]),
        trials=choice.tried if choice else {},
        lines=tuple(lines.values()),
        gains=gains,
        teacher=teacher,
    )


def summarise_variants(records: Sequence[dict[str, Any]], teacher: float, task: Task) -> Summary:
    """Turn the records of a recipe's variants into lines and gains.

    Args:
        records: of cells.
        teacher: its points on validation.
        task: what the points are.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["cell"]["variant"], []).append(record)
    lines = {name: _line((name, ""), group) for name, group in groups.items()}
    at = {name: line.values["validation"] for name, line in lines.items()}
    gains = []
    taught = (teacher,) * max(map(len, at.values()))  # a constant: it adds no variance
    if "full" in at:
        for name, values in at.items():
            if name != "full":
                gains.append(_gain(f"full - {name}", (at["full"], 1), (values, -1)))
        gains.append(_gain("full - teacher", (at["full"], 1), (taught, -1)))
    if {"full", "hard"} <= at.keys():
        gap = teacher - float(np.mean(at["hard"]))
        closed = (float(np.mean(at["full"])) - float(np.mean(at["hard"]))) / gap if gap else 0.0
        parts = ((at["full"], 1.0), (at["hard"], -0.5), (taught, -0.5))
        gains.append(
            _gain(
                f"full beyond half of the gap between hard and teacher ({closed:.0%} closed)",
                *parts,
            )
        )
    return Summary(
        measure="Pearson x 100" if task.kind == "regression" else "accuracy, %",
        seeds=max(map(len, at.values())),
        steps=int(records[0]["steps"]),
        learning_rate=float(records[0]["learning_rate"]),
        trials={},
        lines=tuple(lines.values()),
        gains=tuple(gains),
        teacher=teacher,
    )


def table(summary: Summary) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows, one a cell, as text."""
    splits = list(summary.lines[0].mean)
    header = ("", *(f"{split}, last step" for split in splits), "validation, last checks")
    rows = []
    for line in summary.lines:
        figures = [spread(line.mean[split], line.sd[split]) for split in splits]
        last = "–" if line.last_checks is None else f"{line.last_checks:.2f}"
        rows.append((line.title, *figures, last))
    return header, rows


def sentences(summary: Summary) -> list[str]:
    """Return each gain as a sentence."""
    return [
        f"{gain.name}: {gain.points:+.2f} points"
        + ("" if gain.standard_error is None else f" (standard error {gain.standard_error:.2f})")
        for gain in summary.gains
    ]


def page(summary: Summary) -> str:
    """Return the summary as Markdown."""
    header, rows = table(summary)
    lines = [header, tuple("---" for _ in header), *rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    tried = ", ".join(f"{rate}: {points:.1f}" for rate, points in summary.trials.items())
    chosen = (
        f" Learning rates tried on a slice of train, mean of hard x originals and logits x copies"
        f" ({tried})."
        if tried
        else ""
    )
    gains = "\n".join(f"- {sentence}" for sentence in sentences(summary))
    return (
        f"# Ablation\n\n{summary.measure}; mean ± sd over {summary.seeds} seeds, "
        f"{summary.steps:,} steps a cell, learning rate {summary.learning_rate:g}.{chosen} "
        f"The teacher: {summary.teacher:.2f} on validation.\n\n"
        f"{body}\n\n{gains}\n"
    )


def spread(mean: float, sd: float | None) -> str:
    """Return ``mean ± sd``, or the mean alone of a single seed."""
    return f"{mean:.2f}" if sd is None else f"{mean:.2f} ± {sd:.2f}"


def _line(key: tuple[str, str], group: Sequence[dict[str, Any]]) -> Line:
    splits = list(group[0]["points"])
    values = {s: tuple(float(r["points"][s]) for r in group) for s in splits}
    last = [r["last_checks"] for r in group if r["last_checks"] is not None]
    return Line(
        target=key[0],
        data=key[1],
        title=_TITLES[key],
        values=values,
        mean={s: float(np.mean(v)) for s, v in values.items()},
        sd={s: float(np.std(v, ddof=1)) if len(v) > 1 else None for s, v in values.items()},
        last_checks=float(np.mean(last)) if last else None,
    )


def _gain(name: str, *parts: tuple[tuple[float, ...], float]) -> Gain:
    points = sum(sign * float(np.mean(values)) for values, sign in parts)
    if any(len(values) < 2 for values, _ in parts):
        return Gain(name, points, None)
    # Cells are independent trainings, so the variances of their means add up (Welch).
    variance = sum(w * w * float(np.var(values, ddof=1)) / len(values) for values, w in parts)
    return Gain(name, points, float(np.sqrt(variance)))
