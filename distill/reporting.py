"""Teacher, hard-label student and distilled student side by side, as Markdown, JSON and a table."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from augment.errors import SetError
from augment.files import write_atomic
from augment.transferset import Task, TransferSet
from distill.cost import Cost, measure
from distill.errors import RunError
from distill.evaluation import measured
from distill.examples import read_targets
from distill.figure import draw
from distill.recipe import ReportSettings
from distill.runs import Run

_MARKS = {
    "accuracy": "accuracy, %",
    "f1": "F1, %",
    "matthews": "Matthews",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "agreement": "agreement with the teacher",
}
_COSTS = {
    "parameters": "parameters",
    "parameters_outside_embeddings": "outside the embeddings",
    "flops": "FLOPs a sentence",
    "bytes": "bytes on disk",
    "latency_ms": "CPU latency p50, ms",
    "rows_per_second": "CPU rows/s, batch 128",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One model of a report: metrics by split, cost where it could be measured."""

    name: str
    metrics: dict[str, dict[str, float]]
    cost: Cost | None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The columns, the teacher first, and the table's cells as text."""

    columns: tuple[Column, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    path: Path

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def report(
    *runs: str | Path,
    teacher: str | Path | None = None,
    settings: ReportSettings | None = None,
    out: str | Path | None = None,
) -> Report:
    """Compare finished runs of one transfer set with their teacher.

    Writes ``report.md`` and ``report.json`` (and ``report.png`` where matplotlib is installed)
    into the first run's folder, or into ``out``. The teacher's accuracies come from the logits
    that the set's held-out splits carry; its cost is measured if its folder is there.

    Raises:
        RunError: no run given, unfinished, or runs of different sets.
        SetError: the set the runs were trained on is not where it was.
    """
    if not runs:
        raise RunError("name at least one run: distill report RUN [RUN...]")
    settings = settings or ReportSettings()
    opened = [Run.open(path) for path in runs]
    transfer_set = _same_set(opened)
    columns = [_teacher(transfer_set, opened, teacher, settings)]
    columns += [
        Column(_name(run), run.metrics, _cost(run.path, transfer_set, run, settings), str(run.path))
        for run in opened
    ]
    folder = Path(out) if out is not None else opened[0].path
    folder.mkdir(parents=True, exist_ok=True)
    header, rows = _table(transfer_set.task, columns)
    made = Report(tuple(columns), header, rows, folder)
    write_atomic(folder / "report.md", _page(made, transfer_set).encode())
    write_atomic(folder / "report.json", _json(made).encode())
    if settings.figure:
        draw(made.columns, transfer_set.task, folder / "report.png")
    return made


def _same_set(runs: Sequence[Run]) -> TransferSet:
    for run in runs:
        if run.record["set"] is None:
            raise RunError(
                f"{run.path}: trained on raw text alone, so there are no held-out rows to report "
                "on; train a student that starts from it (init) on a set, and report that one"
            )
    digests = {run.record["set"]["digest"] for run in runs}
    tests = [TransferSet.open(str(run.record.get("trained_on", ""))) for run in runs]
    for run, found in zip(runs, tests, strict=True):
        if found.identity != run.record["set"]["digest"]:
            raise RunError(
                f"{run.path}: the set at {found.path} is no longer the one it was trained on; "
                "train again: distill train RECIPE --set SET --out RUN"
            )
    if len(digests) > 1 and len({_held_out(found) for found in tests}) > 1:
        names = ", ".join(str(run.path) for run in runs)
        raise RunError(
            f"{names}: trained on sets with different held-out rows; compare like with like"
        )
    found = next((s for s in tests if s.labelled), tests[0])
    if not any(split != "train" for split in found.splits):
        raise SetError(f"{found.path}: no held-out split, so there is nothing to report")
    return found


def _held_out(transfer_set: TransferSet) -> str:
    """Return the held-out texts as one string: sets to compare may differ in all but these."""
    splits = {
        split: transfer_set.read(split, transfer_set.text).to_pydict()
        for split in transfer_set.splits
        if split != "train"
    }
    return json.dumps(splits)


def _teacher(
    transfer_set: TransferSet,
    runs: Sequence[Run],
    folder: str | Path | None,
    settings: ReportSettings,
) -> Column:
    known = transfer_set.manifest.teacher or {}
    metrics = {}
    for split in transfer_set.splits:
        if split == "train":
            continue
        targets = read_targets(transfer_set, split)
        if targets.logits is not None:
            metrics[split] = measured(transfer_set.task, targets.logits, targets)
            metrics[split].pop("agreement", None)
    place = folder or known.get("folder") or known.get("name")
    cost = None
    if place is not None and (Path(place) / "config.json").is_file():
        tokens = int(known.get("max_tokens") or 128)
        cost = measure(
            place,
            transfer_set,
            max_tokens=tokens,
            repeats=settings.repeats,
            rows=min(settings.rows, 512),
            threads=settings.threads,
        )
    return Column("teacher", metrics, cost, str(place) if cost else None)


def _cost(folder: Path, transfer_set: TransferSet, run: Run, settings: ReportSettings) -> Cost:
    student = run.record["student"]
    tokens = student.get("max_tokens") or int(student["max_words"]) * len(transfer_set.text)
    return measure(
        folder,
        transfer_set,
        max_tokens=tokens,
        repeats=settings.repeats,
        rows=settings.rows,
        threads=settings.threads,
    )


def _name(run: Run) -> str:
    parts = []
    for stage in run.record["stages"]:
        hard = stage.get("objective") == "hard-cross-entropy"
        what = " + ".join(n for n, w in stage.get("objectives", {}).items() if w) or (
            ("hard labels" if stage["target"] == "label" else "teacher's argmax")
            if hard
            else ("logits" if stage["objective"] == "logits-mse" else "soft labels")
        )
        data = stage["data"].replace("-", " ")
        parts.append(f"{what}, {data}")
    return f"{run.path.name} ({' then '.join(dict.fromkeys(parts))})"


def _table(
    task: Task, columns: Sequence[Column]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    header = ("", *(column.name for column in columns))
    rows: list[tuple[str, ...]] = []
    for split in dict.fromkeys(s for column in columns for s in column.metrics):
        for key, label in _MARKS.items():
            cells = [_mark(column.metrics.get(split, {}), key) for column in columns]
            if any(cell != "–" for cell in cells):
                rows.append((f"{split}: {label}", *cells))
    teacher = columns[0].cost
    for key, label in _COSTS.items():
        rows.append((label, *(_price(column, key, teacher) for column in columns)))
    return header, tuple(rows)


def _mark(metrics: dict[str, float], key: str) -> str:
    if key not in metrics:
        return "–"
    value = metrics[key]
    if key == "accuracy":
        low, high = metrics["accuracy_low"], metrics["accuracy_high"]
        return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{100 * value:.1f}" if key == "f1" else f"{value:.3f}"


def _price(column: Column, key: str, teacher: Cost | None) -> str:
    if column.cost is None:
        return "not measured"
    value = asdict(column.cost)[key]
    text = f"{value:,.2f}" if key == "latency_ms" else f"{value:,.0f}"
    if teacher is None or column.cost is teacher:
        return text
    ratio = column.cost.ratio_to(teacher)[key]
    better = "faster" if key in ("latency_ms", "rows_per_second") else "smaller"
    return f"{text} ({ratio:,.1f}× {better})"


def _page(made: Report, transfer_set: TransferSet) -> str:
    threads = next((c.cost.threads for c in made.columns if c.cost), 0)
    notes = ["Accuracies stand with their 95 % Wilson interval."]
    if made.columns[0].cost is None:
        notes.append(
            "The teacher's folder was not at hand, so its cost was not measured; name it with "
            "`--teacher`."
        )
    notes.append(
        f"Latency is the median of one row at a time on {threads} threads, the model alone."
    )
    return (
        f"# Report\n\nTransfer set `{transfer_set.path}`, content digest "
        f"`{transfer_set.manifest.digest}`.\n\n{made.markdown()}\n" + " ".join(notes) + "\n"
    )


def _json(made: Report) -> str:
    teacher = made.columns[0].cost
    columns: list[dict[str, Any]] = []
    for column in made.columns:
        entry = asdict(column)
        entry["ratio_to_teacher"] = (
            column.cost.ratio_to(teacher) if column.cost and teacher else None
        )
        columns.append(entry)
    return json.dumps({"format": 1, "columns": columns}, indent=1, ensure_ascii=False) + "\n"
