"""Objectives: pure, unreduced losses, one value a row, and their weighted sum.

Letters: B rows, C classes. Every function returns (B,) float32, float64 for float64 logits, and
treats the teacher as constant. Nothing here averages: the trainer does, once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Distance = Literal["logits-mse", "soft-cross-entropy", "hard-cross-entropy"]


def logits_mse(student: Tensor, teacher: Tensor) -> Tensor:
    """Squared distance between the two rows of logits, summed over the classes.

    The sum is the paper's ``||z_T - z_S||^2``; a mean over classes would be C times smaller.
    Source: Tang et al. 2019, section 3.2, https://arxiv.org/abs/1903.12136.

    Args:
        student: logits, (B, C).
        teacher: logits, (B, C).

    Returns:
        (B,), squared logits.
    """
    return (wide(student) - wide(teacher).detach()).square().sum(dim=-1)


def soft_cross_entropy(student: Tensor, teacher: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of the softened student under the softened teacher.

    Scaled by ``temperature ** 2`` so gradients keep their size when the temperature changes.
    Source: Hinton et al. 2015, section 2, https://arxiv.org/abs/1503.02531.

    Args:
        student: logits, (B, C).
        teacher: logits, (B, C).
        temperature: divides both rows of logits; above 1 softens.

    Returns:
        (B,), nats times ``temperature ** 2``.
    """
    target = F.softmax(wide(teacher).detach() / temperature, dim=-1)
    logs = F.log_softmax(wide(student) / temperature, dim=-1)
    return -(target * logs).sum(dim=-1) * temperature**2


def hard_cross_entropy(student: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy of the student under one class index a row.

    Args:
        student: logits, (B, C).
        classes: class indices, (B,) int64.

    Returns:
        (B,), nats.
    """
    return F.cross_entropy(wide(student), classes, reduction="none")


def label_mse(student: Tensor, scores: Tensor) -> Tensor:
    """Squared distance between the student's one output and a score: regression's hard term.

    Args:
        student: (B, 1).
        scores: (B,).

    Returns:
        (B,), squared units of the score.
    """
    return (wide(student).squeeze(-1) - scores.to(wide(student).dtype)).square()


@dataclass(frozen=True, slots=True)
class Objective:
    """``alpha * hard + (1 - alpha) * distance``, the composition of Tang et al. 2019.

    The printed equation has a minus sign between its terms, which would reward distance; the
    authors' code adds them. ``target`` says where the hard term's class comes from: the row's own
    (or inherited) label, or the teacher's argmax. In a regression there is no argmax: the teacher's
    score itself is then the hard target.
    """

    distance: Distance = "logits-mse"
    alpha: float = 0.0
    temperature: float = 1.0
    target: Literal["label", "argmax"] = "label"
    regression: bool = False

    @property
    def hard_weight(self) -> float:
        """Weight of the hard term; 1 when the hard term is all there is."""
        return 1.0 if self.distance == "hard-cross-entropy" else self.alpha

    @property
    def needs_logits(self) -> bool:
        """Whether any term with weight reads the teacher's logits."""
        return self.hard_weight < 1 or self.target == "argmax"

    @property
    def needs_labels(self) -> bool:
        """Whether any term with weight reads the rows' labels."""
        return self.hard_weight > 0 and self.target == "label"

    def terms(self, student: Tensor, targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weighted terms by name, each (B,); terms without weight are left out.

        Args:
            student: logits, (B, C).
            targets: ``labels`` (B,) and ``logits`` (B, C), as far as the objective needs them.
        """
        terms: dict[str, Tensor] = {}
        if self.hard_weight > 0:
            hard = self._hard(student, targets)
            terms["label-mse" if self.regression else "hard-cross-entropy"] = (
                self.hard_weight * hard
            )
        if self.hard_weight < 1:
            teacher = targets["logits"]
            if self.distance == "logits-mse":
                distance = logits_mse(student, teacher)
            else:
                distance = soft_cross_entropy(student, teacher, temperature=self.temperature)
            terms[self.distance] = (1 - self.hard_weight) * distance
        return terms

    def _hard(self, student: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        if self.regression:
            own = self.target == "label"
            return label_mse(student, targets["labels"] if own else targets["logits"].squeeze(-1))
        own = self.target == "label"
        return hard_cross_entropy(
            student, targets["labels"] if own else targets["logits"].argmax(dim=-1)
        )


def wide(values: Tensor) -> Tensor:
    """Return ``values`` in float32, float64 as it is: losses are summed so, whatever ran before."""
    return values if values.dtype == torch.float64 else values.float()
