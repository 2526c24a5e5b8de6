"""Small pictures of reports and ablations, where matplotlib is installed; else there are none."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from augment.files import replacing
from augment.transferset import Task


class _Column(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def metrics(self) -> dict[str, dict[str, float]]: ...


class _Line(Protocol):
    @property
    def title(self) -> str: ...
    @property
    def values(self) -> dict[str, tuple[float, ...]]: ...


def draw(columns: Sequence[_Column], task: Task, path: Path) -> Path | None:
    """Draw each model's main figure on the first held-out split, with its interval."""
    key = "pearson" if task.kind == "regression" else "accuracy"
    split = next((s for c in columns for s in c.metrics), None)
    shown = [c for c in columns if split is not None and key in c.metrics.get(split, {})]
    figure = _empty(len(shown))
    if not shown or figure is None:
        return None
    axes = figure.gca()
    for place, column in enumerate(reversed(shown)):
        found = column.metrics[split or ""]
        value = found[key]
        low, high = found.get(f"{key}_low", value), found.get(f"{key}_high", value)
        axes.errorbar(
            value, place, xerr=[[value - low], [high - value]], fmt="o", capsize=4, color="#2a6f97"
        )
    return _saved(figure, [column.name for column in shown], f"{split}: {key}", path)


def draw_cells(
    lines: Sequence[_Line], teacher: float | None, measure: str, path: Path
) -> Path | None:
    """Draw every seed's points on validation, each line's mean, and the teacher as a rule."""
    figure = _empty(len(lines))
    if figure is None:
        return None
    axes = figure.gca()
    for place, line in enumerate(reversed(lines)):
        values = line.values["validation"]
        axes.plot(values, [place] * len(values), "o", color="#2a6f97", alpha=0.4)
        axes.plot([sum(values) / len(values)], [place], "|", color="#2a6f97", ms=16, mew=2)
    if teacher is not None:
        axes.axvline(teacher, color="#777777", linestyle=":")
        axes.annotate(" teacher", (teacher, len(lines) - 0.6), color="#777777", va="center")
    return _saved(figure, [line.title for line in lines], f"validation: {measure}", path)


def _empty(lines: int) -> Any:
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.8 + 0.45 * lines), layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: no display, no global state
    figure.add_subplot()
    return figure


def _saved(figure: Any, names: Sequence[str], label: str, path: Path) -> Path:
    axes = figure.gca()
    axes.set_yticks(range(len(names)), list(reversed(names)))
    axes.set_xlabel(label)
    axes.margins(y=0.3)
    axes.grid(axis="x", alpha=0.3)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
    return path
