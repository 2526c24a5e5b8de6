"""Variants of a transformer student's recipe: what each of its parts is worth, at equal steps.

Every variant starts from the recipe's own initialisation unless that is what it leaves out, gets
as many optimiser steps in all as the recipe's stages together, and keeps its last state. Source of
the questions: Jiao et al. 2020 (TinyBERT), tables 3 to 5, https://arxiv.org/abs/1909.10351.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from augment.machine import threads
from augment.transferset import Task, TransferSet
from distill.curriculum import Rows, go_on, read_raw, read_rows
from distill.errors import AblationError, StageError
from distill.evaluation import evaluate, headline
from distill.examples import Examples
from distill.models import check_map, new_student, reading
from distill.recipe import VariantSettings
from distill.stages import INSIDE, ON_LOGITS, RULES, TinyBERTSettings, TransformerStage
from distill.trainer import steps_of

LAST = 5
Stages = tuple[TransformerStage, ...]
Weights = Mapping[str, float]

HARD: Weights = {"hard-cross-entropy": 1.0}
_TERMS = {
    "without-attention": ("attention", "attention-kl"),
    "without-hidden": ("hidden", "cosine", "patience"),
    "without-embedding": ("embedding",),
}


@dataclass(frozen=True, slots=True)
class VariantCell:
    """One student: a variant and a seed."""

    variant: str
    seed: int

    @property
    def name(self) -> str:
        """Name of the cell's file."""
        return f"{self.variant}-seed-{self.seed}"


def varied(
    name: str,
    student: TinyBERTSettings,
    stages: Sequence[TransformerStage],
    steps: Sequence[int],
    *,
    fits: Callable[[TransformerStage], bool] = lambda _: True,
) -> tuple[TinyBERTSettings, Stages] | None:
    """Return student and stages of a variant; None where it would be the recipe once more.

    Args:
        name: one of :data:`distill.recipe.VARIANTS`.
        student: the recipe's.
        stages: the recipe's.
        steps: of each stage.
        fits: whether a stage's layer map fits both depths.
    """
    timed = tuple(replace(s, steps=n, epochs=None) for s, n in zip(stages, steps, strict=True))
    total = sum(steps)
    originals = tuple(s if s.raw else replace(s, data="originals") for s in timed)
    if name == "full":
        return student, timed
    if name == "without-augmentation":
        return student, originals
    if name == "hard":
        return student, _alone(originals, HARD, total)
    if name in ("logits", "without-transformer"):
        inside = any(stage.inside and not stage.raw for stage in timed)
        chosen = originals if name == "logits" else timed
        return (student, _alone(chosen, None, total)) if inside else None
    if name == "without-general":
        return _not_general(student, timed)
    if name == "without-prediction":
        made = tuple(_on_labels(stage) for stage in timed)
    elif name in _TERMS:
        made = _without(timed, _TERMS[name])
    else:
        rule = name.removeprefix("map-")
        assert rule in RULES
        made = tuple(
            stage if stage.layer_map is None else replace(stage, layer_map=rule) for stage in timed
        )
        if not all(fits(stage) for stage in made):
            return None
    return (student, made) if made and made != timed else None


def _not_general(
    student: TinyBERTSettings, stages: Stages
) -> tuple[TinyBERTSettings, Stages] | None:
    """Start from random weights, and leave stages on raw text out; the next gets their steps."""
    if student.init == "random" and not any(stage.raw for stage in stages):
        return None
    task = tuple(stage for stage in stages if not stage.raw)
    spare = sum(stage.steps or 0 for stage in stages if stage.raw)
    first = replace(task[0], steps=(task[0].steps or 0) + spare)
    return replace(student, init="random"), (first, *task[1:])


def _alone(stages: Stages, weights: Weights | None, total: int) -> Stages:
    """The stages that train predictions, with the steps of the others that read the set."""
    general = tuple(stage for stage in stages if stage.raw)
    chosen = [stage for stage in stages if stage.predicts]
    if not chosen:
        raise AblationError(
            "no stage of the recipe trains predictions, so there is no student to compare; "
            'add a [[stage]] with objectives = { "soft-cross-entropy" = 1 }'
        )
    left = total - sum(stage.steps or 0 for stage in general)
    steps = shared(left, [stage.steps or 1 for stage in chosen])
    return general + tuple(
        _outside(replace(stage, steps=own), weights)
        for stage, own in zip(chosen, steps, strict=True)
    )


def _outside(stage: TransformerStage, weights: Weights | None) -> TransformerStage:
    """Leave out the terms inside the transformer, with the settings that they alone read."""
    kept = weights or {k: v for k, v in stage.objectives.items() if k not in INSIDE}
    cold = "soft-cross-entropy" not in kept
    temperature = 1.0 if cold else stage.temperature
    return replace(
        stage, objectives=dict(kept), teacher=None, layer_map=None, temperature=temperature
    )


def _on_labels(stage: TransformerStage) -> TransformerStage:
    """Match labels, a copy's being its source's, where the stage matched the teacher's logits."""
    if not stage.needs_logits:
        return stage
    others = {k: v for k, v in stage.objectives.items() if k not in ON_LOGITS}
    return replace(stage, objectives=others | dict(HARD), temperature=1.0)


def _without(stages: Stages, terms: Sequence[str]) -> Stages:
    """Drop terms; a stage left with none gives its steps to the next one, or the last to before."""
    made: list[TransformerStage] = []
    spare = 0
    for stage in stages:
        kept = {k: v for k, v in stage.objectives.items() if k not in terms and v > 0}
        if not kept:
            spare += stage.steps or 0
            continue
        reads = any(k in INSIDE and k != "embedding" for k in kept)
        inside = any(k in INSIDE for k in kept)
        made.append(
            replace(
                stage,
                objectives=kept,
                steps=(stage.steps or 0) + spare,
                layer_map=stage.layer_map if reads else None,
                teacher=stage.teacher if inside else None,
            )
        )
        spare = 0
    if made and spare:
        made[-1] = replace(made[-1], steps=(made[-1].steps or 0) + spare)
    return tuple(made)


class StagesJob:
    """Trains cells of one set and one recipe.

    Args:
        opened: a labelled set.
        student: the recipe's student.
        stages: the recipe's stages.
        settings: how long, on how many rows.
    """

    def __init__(
        self,
        opened: TransferSet,
        student: TinyBERTSettings,
        stages: Stages,
        settings: VariantSettings,
    ) -> None:
        self.opened, self.student, self.stages, self.settings = opened, student, stages, settings

    @cached_property
    def rows(self) -> Rows:
        """What the stages read, train cut down to the rows asked for; read once for all cells."""
        tokenizer, limit = reading(self.opened, self.student, self.stages)
        found = read_rows(self.opened, read_raw(self.stages), tokenizer, limit)
        if self.settings.rows is not None:
            found.splits["train"] = some_sources(found.splits["train"], self.settings.rows)
        return found

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Steps of each of the recipe's stages; the settings' total is shared in proportion."""
        own = []
        for stage in self.stages:
            rows = self.rows.of(stage)
            originals = int((rows.column("copies") == 0).sum())
            own.append(steps_of(stage, originals if stage.data == "originals" else len(rows)))
        return shared(self.settings.steps or sum(own), own)

    def variant(self, name: str) -> tuple[TinyBERTSettings, Stages] | None:
        """Return student and stages of a variant; None where the recipe has no such part."""
        return varied(name, self.student, self.stages, self.steps, fits=self._fits)

    def _fits(self, stage: TransformerStage) -> bool:
        try:
            check_map(self.opened, self.student, self.stages, stage)
        except StageError:
            return False
        return True

    def train(self, cell: VariantCell) -> dict[str, Any]:
        """Return a cell's figures in points (a hundred times the headline)."""
        found = self.variant(cell.variant)
        assert found is not None
        settings, stages = found
        seeded = [
            replace(
                stage,
                seed=cell.seed,
                select="last" if stage.predicts else None,
                evaluations=self.settings.evaluations if stage.predicts else None,
            )
            for stage in stages
        ]
        task = self.opened.task
        with threads(1):
            student, _ = new_student(self.opened, settings, seeded)
            results = go_on(self.opened, settings, seeded, student, self.rows, show=False)
            metrics = {
                name: evaluate(student, self.rows.splits[name], task)
                for name in sorted(self.rows.splits, reverse=True)  # validation before test
                if name != "train"
            }
        checks = [check for result in results for check in result.checks]
        curve = [
            points(task, {k.removeprefix("eval_"): v for k, v in check.items()}) for check in checks
        ]
        return {
            "steps": sum(result.steps for result in results),
            "learning_rate": seeded[-1].rate,
            "seconds": sum(result.seconds for result in results),
            "points": {name: points(task, found) for name, found in metrics.items()},
            "last_checks": float(np.mean(curve[-LAST:])) if curve else None,
            "curve": curve,
            "metrics": metrics,
            "stages": [asdict(stage) for stage in seeded],
        }

    def facts(self) -> dict[str, Any]:
        """Return, as JSON, what a worker process makes the same job from."""
        return {
            "kind": self.student.kind,
            "set": str(self.opened.path),
            "student": asdict(self.student),
            "stages": [asdict(stage) for stage in self.stages],
            "settings": asdict(self.settings),
        }

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self:
        """Return the job that gave these facts; the set is read again."""
        return cls(
            TransferSet.open(facts["set"]),
            TinyBERTSettings(**facts["student"]),
            tuple(_stage(stage) for stage in facts["stages"]),
            VariantSettings(**_tuples(facts["settings"])),
        )

    @staticmethod
    def cell(facts: dict[str, Any]) -> VariantCell:
        """Return a cell from its fields."""
        return VariantCell(**facts)


def shared(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Deal ``total`` steps in proportion to ``weights``, at least one each."""
    ends = np.round(np.cumsum([0, *weights]) * (total / sum(weights)))
    return tuple(max(1, int(steps)) for steps in np.diff(ends))


def some_sources(rows: Examples, count: int) -> Examples:
    """Return the rows of ``count`` source rows, with all their copies; the draw has one seed."""
    chosen = np.random.default_rng(0).permutation(np.unique(rows.column("sources")))[:count]
    return rows.where(np.isin(rows.column("sources"), chosen))


def points(task: Task, metrics: Mapping[str, float]) -> float:
    """Return a hundred times the figure by which students are compared."""
    return 100 * (headline(task, dict(metrics)) or 0.0)


def _stage(facts: dict[str, Any]) -> TransformerStage:
    return TransformerStage(**_tuples(facts))


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where settings have tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
