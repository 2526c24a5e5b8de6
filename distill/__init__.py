"""Train small students from transfer sets: ``import distill as D``.

Importing it is cheap; torch and transformers load with the first name that needs them. Saved runs
open with ``AutoModelForSequenceClassification.from_pretrained`` and ``pipeline``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from distill.registration import register

if TYPE_CHECKING:
    from augment.settings import TeacherSettings as Teacher
    from distill.ablation import ablate as ablate
    from distill.evaluation import evaluate as evaluate
    from distill.examples import Examples as Examples
    from distill.objectives import Objective as Objective
    from distill.recipe import AblateSettings as Ablation
    from distill.recipe import ReportSettings as Report
    from distill.recipe import StageSettings as Stage
    from distill.recipe import StudentSettings as BiLSTM
    from distill.reporting import report as report
    from distill.runs import Run as Run
    from distill.runs import train as train
    from distill.stages import TinyBERTSettings as TinyBERT
    from distill.stages import TransformerStage as TransformerStage
    from distill.teacher import fine_tune as fine_tune

_HOMES = {
    "Ablation": ("distill.recipe", "AblateSettings"),
    "BiLSTM": ("distill.recipe", "StudentSettings"),
    "Examples": ("distill.examples", "Examples"),
    "Objective": ("distill.objectives", "Objective"),
    "Report": ("distill.recipe", "ReportSettings"),
    "Run": ("distill.runs", "Run"),
    "Stage": ("distill.recipe", "StageSettings"),
    "TinyBERT": ("distill.stages", "TinyBERTSettings"),
    "TransformerStage": ("distill.stages", "TransformerStage"),
    "Teacher": ("augment.settings", "TeacherSettings"),
    "ablate": ("distill.ablation", "ablate"),
    "evaluate": ("distill.evaluation", "evaluate"),
    "fine_tune": ("distill.teacher", "fine_tune"),
    "report": ("distill.reporting", "report"),
    "train": ("distill.runs", "train"),
}

__all__ = [
    "Ablation",
    "BiLSTM",
    "Examples",
    "Objective",
    "Report",
    "Run",
    "Stage",
    "Teacher",
    "TinyBERT",
    "TransformerStage",
    "ablate",
    "evaluate",
    "fine_tune",
    "report",
    "train",
]

register()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'distill' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
