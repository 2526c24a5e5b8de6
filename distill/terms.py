"""What a stage matches with what: the objectives by the names that recipes give them.

====================  =============================  ==========================  =================
name                  of the student                 with                        mean over
====================  =============================  ==========================  =================
embedding             hidden state 0, times W_e      the teacher's               real tokens, width
attention             scores of layer m              the teacher's, layer g(m)   heads, real pairs
attention-kl          their distributions            the teacher's, layer g(m)   heads, real queries
hidden                hidden state m, times W_h      the teacher's, layer g(m)   real tokens, width
cosine                hidden state m, times W_h      the teacher's, layer g(m)   real tokens
patience              [CLS] of state m, length 1     the teacher's, layer g(m)   --
soft-cross-entropy    logits                         the set's logits            --
logits-mse            logits                         the set's logits            --
hard-cross-entropy    logits                         the set's labels            --
====================  =============================  ==========================  =================

Scores are QK^T/sqrt(d), before mask and softmax. Layers count from 1; hidden state 0 is what the
embeddings give. Terms over layers are added up, so six layers weigh half as much again as four. A
row's terms are weighted and added; the Trainer takes the mean over the rows of a batch. The teacher
beside the student gives states and scores alone: predictions are matched with the cached logits.
Letters: B rows, M student layers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from distill.attention import States
from distill.hidden import (
    Projections,
    attention_kl,
    attention_mse,
    hidden_cosine,
    hidden_mse,
    patience,
)
from distill.layers import LayerMap
from distill.objectives import hard_cross_entropy, label_mse, logits_mse, soft_cross_entropy
from distill.stages import INSIDE, ON_SCORES, ON_STATES


@dataclass(frozen=True, slots=True)
class Matching:
    """The two sides of one batch and how their layers, widths and outputs meet.

    ``batch`` carries ``attention_mask``, and ``labels`` and ``logits`` (the teacher's, cached) as
    far as they are asked for. ``teacher``, ``layers`` and ``projections`` are None in a stage
    without objectives inside the transformer.
    """

    student: States
    batch: Mapping[str, Tensor]
    teacher: States | None = None
    layers: LayerMap | None = None
    projections: Projections | None = None
    temperature: float = 1.0
    regression: bool = False

    def terms(self, weights: Mapping[str, float]) -> dict[str, Tensor]:
        """Return every term with weight, weighted, by name, each (B,)."""
        return {
            "label-mse" if self.regression and name == "hard-cross-entropy" else name: weight
            * (self._inside(name) if name in INSIDE else self._prediction(name))
            for name, weight in weights.items()
            if weight > 0
        }

    def _inside(self, name: str) -> Tensor:
        """Student layer m beside the teacher's g(m), summed over the mapped layers."""
        s, t, pairs, w = self._sides()
        mask = self.batch["attention_mask"]
        match name:
            case "embedding":
                return hidden_mse(s.hidden[0], t.hidden[0], mask, project=w.embeddings)
            case "attention":
                return _sum(attention_mse(s.attention[m], t.attention[g], mask) for m, g in pairs)
            case "attention-kl":
                return _sum(attention_kl(s.attention[m], t.attention[g], mask) for m, g in pairs)
        states = ((s.hidden[m], t.hidden[g]) for m, g in pairs)
        match name:
            case "hidden":
                return _sum(hidden_mse(a, b, mask, project=w.hidden) for a, b in states)
            case "cosine":
                return _sum(hidden_cosine(a, b, mask, project=w.hidden) for a, b in states)
            case "patience":
                # No mask: [CLS] comes first and is never padding.
                return _sum(patience(a, b, project=w.hidden) for a, b in states)
        raise KeyError(name)

    def _prediction(self, name: str) -> Tensor:
        """The student's logits beside the set's cached logits, or its labels."""
        logits = self.student.logits
        assert logits is not None
        match name:
            case "soft-cross-entropy":
                cached = self.batch["logits"]
                return soft_cross_entropy(logits, cached, temperature=self.temperature)
            case "logits-mse":
                return logits_mse(logits, self.batch["logits"])
            case "hard-cross-entropy":
                hard = label_mse if self.regression else hard_cross_entropy
                return hard(logits, self.batch["labels"])
        raise KeyError(name)

    def _sides(self) -> tuple[States, States, tuple[tuple[int, int], ...], Projections]:
        assert self.teacher is not None
        assert self.layers is not None
        assert self.projections is not None
        return self.student, self.teacher, self.layers.pairs, self.projections


def captured(
    weights: Mapping[str, float], layers: LayerMap, side: int
) -> tuple[list[int], list[int]]:
    """Return the layers whose scores, and those whose states, the terms with weight read.

    Args:
        weights: of the objectives, by name.
        layers: the map.
        side: 0 for the student's layers, 1 for the teacher's.
    """
    wanted = {name for name, weight in weights.items() if weight > 0}
    mapped = [pair[side] for pair in layers.pairs]
    scores = mapped if wanted & set(ON_SCORES) else []
    states = mapped if wanted & set(ON_STATES) else []
    return scores, [*([0] if "embedding" in wanted else []), *states]


def _sum(layers: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(layers)).sum(dim=0)
