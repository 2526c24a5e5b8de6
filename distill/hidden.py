"""Objectives inside the transformer: pure, unreduced, blind to padding, one value a row.

Letters: B rows, T tokens, H heads, D width; a dash marks the teacher's. ``mask`` (B, T) is 1 at
real tokens. Every function returns (B,) float32, float64 for float64 states, treats the teacher as
constant, and gives 0 for a row without tokens. Averages run over real positions, so neither padding
nor the rest of the batch changes a row's value.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from distill.errors import StageError
from distill.objectives import wide

Projection = Callable[[Tensor], Tensor]


def attention_mse(student: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
    """Squared distance of attention scores, mean over heads and over pairs of real positions.

    Scores are taken before the softmax and before the mask. Heads are matched in order; where
    H differs from H', both sides are averaged over their heads first.
    Source: Jiao et al. 2020 (TinyBERT), equation 7, https://arxiv.org/abs/1909.10351; the authors'
    code also averages over padding, which makes the loss shrink as padding grows.

    Args:
        student: scores, (B, H, T, T).
        teacher: scores, (B, H', T, T).
        mask: (B, T).

    Returns:
        (B,), squared scores.
    """
    student, teacher = _tokens_agree(student, teacher)
    if student.shape[1] != teacher.shape[1]:
        student, teacher = (side.mean(dim=1, keepdim=True) for side in (student, teacher))
    real = mask > 0
    squares = (student - teacher).masked_fill(~_pairs(real), 0).square().sum(dim=(1, 2, 3))
    return squares / (student.shape[1] * _count(real).square())


def attention_kl(student: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
    """KL(teacher || student) of attention distributions, mean over heads and real queries.

    The distributions are over real keys. Heads are matched in order; where H differs from H', the
    distributions of either side are averaged over its heads first.
    Source: Sun et al. 2020 (MobileBERT), section 3.3, https://arxiv.org/abs/2004.02984.

    Args:
        student: scores before softmax and mask, (B, H, T, T).
        teacher: likewise, (B, H', T, T).
        mask: (B, T).

    Returns:
        (B,), nats.
    """
    student, teacher = _tokens_agree(student, teacher)
    real = mask > 0
    pairs = _pairs(real)
    # The least number instead of -inf: a padded query stays finite on its way to 0.
    logs, targets = (
        F.log_softmax(s.masked_fill(~pairs, torch.finfo(s.dtype).min), dim=-1)
        for s in (student, teacher)
    )
    if logs.shape[1] != targets.shape[1]:
        logs, targets = (_mean_of_heads(side) for side in (logs, targets))
    gaps = (targets - logs).masked_fill(~pairs, 0)
    nats = (targets.exp() * gaps).sum(dim=(1, 2, 3))
    return nats / (logs.shape[1] * _count(real))


def hidden_mse(
    student: Tensor, teacher: Tensor, mask: Tensor, *, project: Projection | None = None
) -> Tensor:
    """Squared distance of projected hidden states, mean over real tokens and width.

    Also the embeddings' objective: hidden state 0 of both sides with its own projection.
    Source: Jiao et al. 2020 (TinyBERT), equations 8 and 9, https://arxiv.org/abs/1909.10351.

    Args:
        student: (B, T, D).
        teacher: (B, T, D').
        mask: (B, T).
        project: W_h or W_e, from D to D'; needed where they differ.

    Returns:
        (B,), squared units of the states.
    """
    student, teacher = _widths_agree(student, teacher, project)
    real = mask > 0
    squares = (student - teacher).masked_fill(~real[..., None], 0).square()
    return squares.mean(dim=-1).sum(dim=-1) / _count(real)


def hidden_cosine(
    student: Tensor, teacher: Tensor, mask: Tensor, *, project: Projection | None = None
) -> Tensor:
    """One minus the cosine between hidden states, mean over real tokens.

    Source: Sanh et al. 2019 (DistilBERT), section 2, https://arxiv.org/abs/1910.01108.

    Args:
        student: (B, T, D).
        teacher: (B, T, D').
        mask: (B, T).
        project: from D to D'; needed where they differ.

    Returns:
        (B,), between 0 and 2.
    """
    student, teacher = _widths_agree(student, teacher, project)
    real = mask > 0
    # Before the norm, whose gradient at a padded zero vector would not be zero.
    student, teacher = (s.masked_fill(~real[..., None], 1) for s in (student, teacher))
    cosines = (F.normalize(student, dim=-1) * F.normalize(teacher, dim=-1)).sum(dim=-1)
    return (1 - cosines).masked_fill(~real, 0).sum(dim=-1) / _count(real)


def patience(student: Tensor, teacher: Tensor, *, project: Projection | None = None) -> Tensor:
    """Squared distance between the two [CLS] states, each scaled to length 1.

    The sum over the width is the paper's squared norm, between 0 and 4; the authors' code takes
    the mean, D' times smaller. [CLS] is position 0, as for the models' own poolers.
    Source: Sun et al. 2019 (BERT-PKD), equation 7, https://arxiv.org/abs/1908.09355.

    Args:
        student: hidden states of one layer, (B, T, D).
        teacher: hidden states of its layer, (B, T', D'); only [CLS] is read.
        project: from D to D'; needed where they differ.

    Returns:
        (B,), without a unit.
    """
    student, teacher = _widths_agree(student[:, :1], teacher[:, :1], project)
    gap = F.normalize(student, dim=-1) - F.normalize(teacher, dim=-1)
    return gap.square().sum(dim=(1, 2))


class Projections(nn.Module):
    """The learnable W_e and W_h that carry a student's states to the teacher's width.

    W_h is one for all layers, W_e the embeddings' own, as in the paper. Where the widths agree
    either is the identity and has no parameters. They are trained with the student and belong to
    the objective: a saved student holds none of them.
    Source: Jiao et al. 2020 (TinyBERT), equations 8 and 9, https://arxiv.org/abs/1909.10351.

    Args:
        student: width D of the student's hidden states.
        teacher: width D' of the teacher's.
        embeddings: the same two widths of hidden state 0, where they differ from the layers'.
        seed: of the first weights.
    """

    def __init__(
        self,
        student: int,
        teacher: int,
        *,
        embeddings: tuple[int, int] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embeddings = _linear(*(embeddings or (student, teacher)))
            self.hidden = _linear(student, teacher)


def _linear(width: int, other: int) -> nn.Module:
    return nn.Identity() if width == other else nn.Linear(width, other, bias=False)


def _tokens_agree(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    if student.shape[0] != teacher.shape[0] or student.shape[2:] != teacher.shape[2:]:
        raise _unlike("scores", student, teacher)
    return wide(student), wide(teacher).detach()


def _widths_agree(
    student: Tensor, teacher: Tensor, project: Projection | None
) -> tuple[Tensor, Tensor]:
    if student.shape[:2] != teacher.shape[:2]:
        raise _unlike("states", student, teacher)
    projected = student if project is None else project(student)
    if projected.shape[-1] != teacher.shape[-1]:
        raise StageError(
            f"the student's states are {projected.shape[-1]} wide, the teacher's "
            f"{teacher.shape[-1]}; pass project = Projections(...).hidden, or .embeddings"
        )
    return wide(projected), wide(teacher).detach()


def _unlike(what: str, student: Tensor, teacher: Tensor) -> StageError:
    return StageError(
        f"the student's {what} are {tuple(student.shape)}, the teacher's {tuple(teacher.shape)}; "
        "objectives on tokens need the same tokens on both sides, so one vocabulary and one batch"
    )


def _mean_of_heads(logs: Tensor) -> Tensor:
    return logs.exp().mean(dim=1, keepdim=True).clamp_min(torch.finfo(logs.dtype).tiny).log()


def _pairs(real: Tensor) -> Tensor:
    return real[:, None, :, None] & real[:, None, None, :]


def _count(real: Tensor) -> Tensor:
    return real.sum(dim=-1).clamp_min(1).float()
