"""Capture of attention scores and hidden states from unmodified transformers encoders.

A registered attention implementation computes the mapped layers' scores openly and hands them to
``output_attentions``; every other layer runs torch's fused kernel and keeps nothing. Letters: B
rows, T tokens, H heads, D width, N layers. Layers count from 1, hidden state 0 is the embeddings'
output.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from distill.errors import StageError

NAME = "transferset-scores"
_MAPPED = "transferset_mapped"


@dataclass(frozen=True, slots=True)
class States:
    """What one forward pass gave: scores and hidden states by layer, and the logits if any.

    ``attention[m]`` is QK^T/sqrt(d) of layer m before the mask is added, (B, H, T, T); entries at
    padding are numbers without meaning. ``hidden[m]`` is (B, T, D), ``hidden[0]`` the embeddings.
    """

    attention: dict[int, Tensor]
    hidden: dict[int, Tensor]
    logits: Tensor | None


@dataclass(frozen=True, slots=True)
class Capture:
    """A model that is being captured; made by :func:`capturing`, valid inside its block."""

    model: Any
    attention: tuple[int, ...]
    hidden: tuple[int, ...]
    modules: tuple[nn.Module, ...]

    def __call__(self, batch: Mapping[str, Tensor], *, through: Any = None) -> States:
        """Run the model on a batch and return what was asked for.

        Args:
            batch: the model's own inputs, such as ``input_ids`` and ``attention_mask`` (B, T).
            through: calls the model in its stead, such as its ``DistributedDataParallel``.

        Raises:
            StageError: scores are missing, or come without the gradient they should carry.
        """
        # As arguments: on a config, they are refused for any implementation but eager.
        outputs = (self.model if through is None else through)(
            **batch,
            output_attentions=bool(self.attention),
            output_hidden_states=list(self.hidden) or False,
        )
        scores = [s for s in getattr(outputs, "attentions", None) or () if s is not None]
        if len(scores) != len(self.attention):
            raise StageError(
                f"{_kind(self.model)}: {len(scores)} layers gave attention scores, "
                f"{len(self.attention)} were asked for (layers {_listed(self.attention)}); its "
                f"attention implementation is now {self.model.config._attn_implementation!r}; "
                "leave it alone inside capturing(...)"
            )
        for layer, module, score in zip(self.attention, self.modules, scores, strict=True):
            self._check_gradient(layer, module, score)
        return States(
            attention=dict(zip(self.attention, scores, strict=True)),
            hidden={m: outputs.hidden_states[m] for m in self.hidden},
            logits=getattr(outputs, "logits", None),
        )

    def _check_gradient(self, layer: int, module: nn.Module, score: Tensor) -> None:
        wanted = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
        if wanted and not score.requires_grad:
            raise StageError(
                f"{_kind(self.model)}: the scores of layer {layer} carry no gradient, as happens "
                "under reentrant gradient checkpointing; enable it with use_reentrant=False"
            )


@contextmanager
def capturing(
    model: Any, *, attention: Sequence[int] = (), hidden: Sequence[int] = ()
) -> Iterator[Capture]:
    """Let a model give its attention scores and hidden states; it is restored afterwards.

    ``backward`` belongs inside the block too: gradient checkpointing runs layers again, and they
    must be the same layers. A model saved inside the block is saved as if it were outside.

    Args:
        model: a transformers encoder, with or without a head.
        attention: layers whose scores are kept, of 1..N.
        hidden: layers whose output is kept, of 0..N; 0 is the embeddings' output.

    Raises:
        StageError: the model has no such layer, its family cannot be captured, or its config is
            in another capture already.
    """
    attention, hidden = tuple(sorted(set(attention))), tuple(sorted(set(hidden)))
    layers = int(model.config.num_hidden_layers)
    _check_layers(model, attention, 1, layers)
    _check_layers(model, hidden, 0, layers)
    if not attention:
        yield Capture(model, attention, hidden, ())
        return
    before = model.config._attn_implementation
    if before == NAME:
        raise StageError(
            f"{_kind(model)}: its config is in a capture already; two models must not share one "
            "config object (build each from its own copy), nor a model be captured twice at once"
        )
    every = _attention_modules(model, layers)
    mapped = tuple(every[m - 1] for m in attention)
    try:
        # A plain attribute, so that replicas and recomputed layers in other threads see it too.
        for module in mapped:
            setattr(module, _MAPPED, True)
        model.set_attn_implementation(NAME)
        yield Capture(model, attention, hidden, mapped)
    finally:
        for module in mapped:
            delattr(module, _MAPPED)
        model.set_attn_implementation(before)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as any implementation does; the second output is the scores of mapped layers."""
    if not getattr(module, _MAPPED, False):
        # The fused kernel would warn that it returns no attentions, which here is the intent.
        options.pop("output_attentions", None)
        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **options
        )
        return output
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query @ key.transpose(2, 3)) * scale
    masked = scores
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        masked = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        masked = scores + attention_mask
    weights = F.dropout(masked.softmax(dim=-1), dropout, training=module.training)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous(), scores


AttentionInterface.register(NAME, _attend)
# Without a mask function of the same name, padding would be attended to and nothing would say so.
AttentionMaskInterface.register(NAME, sdpa_mask)


def _attention_modules(model: Any, layers: int) -> list[nn.Module]:
    recorded = (getattr(model, "_can_record_outputs", None) or {}).get("attentions")
    modules: list[nn.Module] = list(model.modules())
    found = [m for m in modules if isinstance(recorded, type) and isinstance(m, recorded)]
    if len(found) != layers or not model._can_set_attn_implementation():
        raise StageError(
            f"{_kind(model)}: {len(found)} separate attention layers of transformers' attention "
            f"interface, {layers} layers in its config; scores can be captured from encoders such "
            "as BERT, MobileBERT, RoBERTa, DistilBERT and ELECTRA; else match hidden states alone"
        )
    return found


def _check_layers(model: Any, asked: tuple[int, ...], first: int, last: int) -> None:
    wrong = [m for m in asked if not first <= m <= last]
    if wrong:
        raise StageError(
            f"{_kind(model)} has layers {first} to {last}, layer {_listed(wrong)} was asked for"
        )


def _kind(model: Any) -> str:
    return type(model).__name__


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
