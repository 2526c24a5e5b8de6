"""Accuracy and its kin: what a model's outputs on a split are worth.

Letters: N rows, C outputs.
"""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from augment.transferset import Task
from distill.examples import Examples

Array = NDArray[Any]


def predict(model: nn.Module, examples: Examples, *, batch: int = 256) -> NDArray[np.float32]:
    """Return the model's logits, (N, C) float32, in the rows' order; dropout is off."""
    if not len(examples):
        return np.zeros((0, 1), np.float32)
    device = next(model.parameters()).device
    order = np.argsort(-examples.lengths, kind="stable")
    found: list[NDArray[np.float32]] = []
    training = model.training
    model.eval()
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            inputs = examples.batch(order[start : start + batch])
            inputs.pop("labels", None), inputs.pop("logits", None)
            outputs = model(**{name: value.to(device) for name, value in inputs.items()})
            found.append(outputs.logits.float().cpu().numpy())
    model.train(training)
    logits = np.concatenate(found)
    result = np.empty_like(logits)
    result[order] = logits
    return result


def scores(task: Task, logits: Array, labels: Array) -> dict[str, float]:
    """Return the task's metrics of logits (N, C) against labels (N,).

    Classification: accuracy with its 95 % Wilson interval, F1 (of class 1 when there are two
    classes, else the mean over classes), Matthews. Regression: Pearson, Spearman, mean squared
    error. Correlations of a constant are 0.
    """
    if task.kind == "regression":
        values = logits[:, 0]
        error = float(np.mean((values - labels) ** 2))
        return {**_correlations(values, labels), "mse": error}
    from sklearn.metrics import f1_score, matthews_corrcoef  # a second to import

    guesses = logits.argmax(axis=1)
    right = int((guesses == labels).sum())
    low, high = interval(right, len(labels))
    binary = logits.shape[1] == 2
    f1 = f1_score(labels, guesses, average="binary" if binary else "macro", zero_division=0.0)
    return {
        "accuracy": right / len(labels),
        "accuracy_low": low,
        "accuracy_high": high,
        "f1": float(f1),
        "matthews": float(matthews_corrcoef(labels, guesses)),
    }


def agreement(task: Task, logits: Array, teacher: Array) -> float:
    """Share of rows where both argmaxes agree; for a regression, Pearson with the teacher."""
    if task.kind == "regression":
        return _correlations(logits[:, 0], teacher[:, 0])["pearson"]
    return float((logits.argmax(axis=1) == teacher.argmax(axis=1)).mean())


def evaluate(model: nn.Module, examples: Examples, task: Task) -> dict[str, float]:
    """Return every metric the split allows: against labels, and agreement with the teacher."""
    return measured(task, predict(model, examples), examples)


def measured(task: Task, logits: Array, examples: Examples) -> dict[str, float]:
    """Return the metrics of given logits on a split."""
    found: dict[str, float] = {"rows": float(len(examples))}
    if not len(examples):
        return found
    if examples.labels is not None:
        found |= scores(task, logits, examples.column("labels"))
    if examples.logits is not None:
        found["agreement"] = agreement(task, logits, examples.column("logits"))
    return found


def headline(task: Task, metrics: dict[str, float]) -> float | None:
    """Return the one figure by which states are compared, higher is better.

    Accuracy or Pearson; agreement with the teacher where the split has no labels.
    """
    name = "pearson" if task.kind == "regression" else "accuracy"
    return metrics.get(name, metrics.get("agreement"))


def interval(right: int, rows: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of ``right`` successes among ``rows``."""
    from scipy.stats import binomtest

    found = binomtest(right, rows).proportion_ci(confidence_level=0.95, method="wilson")
    return float(found.low), float(found.high)


def _correlations(a: Array, b: Array) -> dict[str, float]:
    from scipy.stats import NearConstantInputWarning, pearsonr, spearmanr

    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    with warnings.catch_warnings():
        # A student's first outputs hardly differ; what they are worth is what is asked.
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return {
            "pearson": float(pearsonr(a, b).statistic),
            "spearman": float(spearmanr(a, b).statistic),
        }
