"""Tiny encoders of several families, and a batch with padding, for the tests inside them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    MobileBertConfig,
    MobileBertForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}


def bert(**changes: Any) -> Any:
    return BertForSequenceClassification(BertConfig(**SIZES | changes))


def mobilebert(**changes: Any) -> Any:
    sizes = SIZES | {"embedding_size": 16, "intra_bottleneck_size": 16} | changes
    return MobileBertForSequenceClassification(MobileBertConfig(**sizes))


FAMILIES: dict[str, Callable[[], Any]] = {
    "bert": bert,
    "mobilebert": mobilebert,
    "roberta": lambda: RobertaForSequenceClassification(RobertaConfig(**SIZES)),
    "xlm-roberta": lambda: XLMRobertaForSequenceClassification(XLMRobertaConfig(**SIZES)),
    "electra": lambda: ElectraForSequenceClassification(ElectraConfig(**SIZES, embedding_size=16)),
    "distilbert": lambda: DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=50, dim=24, n_layers=4, n_heads=4, hidden_dim=32, max_position_embeddings=40
        )
    ),
    "modernbert": lambda: ModernBertForSequenceClassification(
        ModernBertConfig(
            **SIZES | TOKENS, pad_token_id=0, local_attention=6, global_attn_every_n_layers=2
        )
    ),
}


def family(name: str, seed: int = 0) -> Any:
    """A model in eval mode whose scores are large enough to tell layers apart."""
    torch.manual_seed(seed)
    model = FAMILIES[name]().eval()
    with torch.no_grad():
        for kind, weight in model.named_parameters():
            if any(part in kind for part in ("query", "key", "q_lin", "k_lin", "Wqkv")):
                weight.mul_(5)
    return model


def batch(*, padded: bool = True, device: str = "cpu") -> dict[str, Tensor]:
    """Three rows of 9, 6 and 3 tokens, or of 9 each."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 50, (3, 9), generator=generator)
    lengths = torch.tensor([9, 6, 3] if padded else [9, 9, 9])
    mask = (torch.arange(9) < lengths[:, None]).long()
    return {"input_ids": (ids * mask).to(device), "attention_mask": mask.to(device)}
