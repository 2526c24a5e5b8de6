"""One small picture of a report, where matplotlib is installed; without it there is none."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from augment.transferset import Task


class _Column(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def metrics(self) -> dict[str, dict[str, float]]: ...


def draw(columns: Sequence[_Column], task: Task, path: Path) -> Path | None:
    """Draw each model's main figure on the first held-out split, with its interval."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    key = "pearson" if task.kind == "regression" else "accuracy"
    split = next((s for c in columns for s in c.metrics), None)
    shown = [c for c in columns if split is not None and key in c.metrics.get(split, {})]
    if not shown:
        return None
    figure = Figure(figsize=(6, 0.7 + 0.5 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: no display, no global state
    axes: Any = figure.add_subplot()
    for place, column in enumerate(reversed(shown)):
        found = column.metrics[split or ""]
        value = found[key]
        low, high = found.get(f"{key}_low", value), found.get(f"{key}_high", value)
        axes.errorbar(
            value, place, xerr=[[value - low], [high - value]], fmt="o", capsize=4, color="#2a6f97"
        )
    axes.set_yticks(range(len(shown)), [column.name for column in reversed(shown)])
    axes.set_xlabel(f"{split}: {key}")
    axes.margins(y=0.3)
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=150)
    return path
