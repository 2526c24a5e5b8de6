"""The BiLSTM student of Tang et al. 2019, https://arxiv.org/abs/1903.12136, section 3.1.

Letters: B rows, T tokens, C classes, D width of a word vector, H hidden width of a direction.
A single text and a pair run through the same encoder; only the head's input differs.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.modeling_utils import PreTrainedModel

from distill.objectives import hard_cross_entropy, label_mse
from distill.students.bilstm_config import BiLSTMConfig
from distill.students.recurrence import last_states


class BiLSTMForSequenceClassification(PreTrainedModel):  # type: ignore[misc]
    """One-layer BiLSTM over word vectors with a two-layer head; single texts and pairs."""

    config_class = BiLSTMConfig
    base_model_prefix = "bilstm"
    config: BiLSTMConfig

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        self.frozen = nn.Embedding(config.vocab_size, config.dims) if config.channels == 2 else None
        self.trained = nn.Embedding(config.vocab_size, config.dims)
        width = config.dims * config.channels
        self.lstm = nn.LSTM(width, config.hidden, batch_first=True, bidirectional=True)
        features = 2 * config.hidden * (4 if config.pair else 1)
        self.wide = nn.Linear(features, config.head)
        self.dropout = nn.Dropout(config.dropout)
        self.out = nn.Linear(config.head, config.num_labels)
        # Set by the trainer when its optimiser takes sparse gradients; never saved.
        self.sparse_gradients = False
        self.post_init()
        if self.frozen is not None:
            self.frozen.weight.requires_grad_(False)

    def _init_weights(self, module: nn.Module) -> None:
        # Torch's own initialisation of each layer is the intended one; after loading, only a
        # parameter missing from the file would be touched, and that is an error anyway.
        if isinstance(module, nn.Linear | nn.LSTM | nn.Embedding):
            return

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the trained channel."""
        return self.trained

    def set_vectors(self, vectors: Tensor) -> None:
        """Start every channel from ``vectors``, (vocabulary, D)."""
        with torch.no_grad():
            self.trained.weight.copy_(vectors)
            if self.frozen is not None:
                self.frozen.weight.copy_(vectors)

    def flops(self, tokens: float) -> float:
        """Return the operations for one row of ``tokens`` words, two per multiply-add.

        Products alone are counted, as is usual; for a pair ``tokens`` is the sum of both texts.
        """
        c = self.config
        a_word = 2 * 4 * c.hidden * (c.dims * c.channels + c.hidden)
        features = 2 * c.hidden * (4 if c.pair else 1)
        return float(2 * (tokens * a_word + features * c.head + c.head * c.num_labels))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Classify rows, single or paired, whatever their padding.

        Args:
            input_ids: (B, T) int64.
            attention_mask: (B, T), 1 at tokens; without it, everything but padding ids.
            token_type_ids: (B, T), 0 in the first text and 1 in the second; pairs only.
            labels: (B,) class indices, or scores for a regression.
            return_dict: False asks for a tuple.
        """
        ids = input_ids.long()  # a tokenizer given only empty texts makes a float tensor
        given = ids.ne(self.config.pad_token_id or 0) if attention_mask is None else attention_mask
        keep = given > 0
        if self.config.pair:
            types = torch.zeros_like(ids) if token_type_ids is None else token_type_ids
            first = self._aligned(ids, keep & (types == 0))
            second = self._aligned(ids, keep & (types == 1))
            states = self._encode(*_stack(first, second))
            h1, h2 = states.chunk(2, dim=0)
            features = torch.cat([h1, h2, h1 * h2, (h1 - h2).abs()], dim=-1)
        else:
            features = self._encode(*self._aligned(ids, keep))
        logits: Tensor = self.out(self.dropout(F.relu(self.wide(features))))
        loss = None if labels is None else self._loss(logits, labels)
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return SequenceClassifierOutput(
            loss=cast("torch.FloatTensor | None", loss), logits=cast("torch.FloatTensor", logits)
        )

    def _aligned(self, ids: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Move the kept tokens to the left; returns ids (B, T') and lengths (B,), both >= 1."""
        lengths = keep.sum(dim=1)
        if ids.shape[1] == 0:
            ids, keep = F.pad(ids, (0, 1)), F.pad(keep, (0, 1))
        steps = max(int(lengths.max()), 1)
        order = torch.sort(keep, dim=1, descending=True, stable=True).indices[:, :steps]
        ids = ids.gather(1, order)
        empty = (lengths == 0)[:, None] & (torch.arange(steps, device=ids.device) == 0)
        return ids.masked_fill(empty, self.config.unk_token_id or 0), lengths.clamp(min=1)

    def _encode(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return both directions' last hidden states, (B, 2H)."""
        if ids.device.type == "cpu":
            return self._encode_by_word(ids, lengths)
        packed = nn.utils.rnn.pack_padded_sequence(
            self._vectors(ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (states, _) = self.lstm(packed)
        return torch.cat([states[0], states[1]], dim=-1)

    def _encode_by_word(self, ids: Tensor, lengths: Tensor) -> Tensor:
        words, places = torch.unique(ids, return_inverse=True)
        lstm: Any = self.lstm  # its parameters are made by name, which types cannot follow
        steps = ids.shape[1]
        vectors = F.embedding(words, self.trained.weight, sparse=self.sparse_gradients)
        if self.frozen is not None:
            vectors = torch.cat([self.frozen(words), vectors], dim=-1)
        bias: Tensor = torch.cat(
            [
                lstm.bias_ih_l0 + lstm.bias_hh_l0,
                lstm.bias_ih_l0_reverse + lstm.bias_hh_l0_reverse,
            ]
        )
        # Autocast may make the products bf16. Sums stay wide: a frequent word's gradient gathers
        # from many tokens below, and would stop growing in eight bits.
        gates = bias + torch.cat(
            [
                F.linear(vectors, lstm.weight_ih_l0).to(bias.dtype),
                F.linear(vectors, lstm.weight_ih_l0_reverse).to(bias.dtype),
            ],
            dim=1,
        )
        backwards = (lengths[:, None] - 1 - torch.arange(steps)).clamp(min=0)
        both = torch.stack([2 * places, 2 * places.gather(1, backwards) + 1])
        recurrent = torch.stack([lstm.weight_hh_l0.t(), lstm.weight_hh_l0_reverse.t()])
        gates = F.embedding(both.transpose(1, 2), gates.view(-1, 4 * self.config.hidden))
        states = last_states(gates, recurrent, lengths)
        return torch.cat([states[0], states[1]], dim=-1)

    def _vectors(self, ids: Tensor) -> Tensor:
        trained: Tensor = self.trained(ids)
        return trained if self.frozen is None else torch.cat([self.frozen(ids), trained], dim=-1)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type == "regression":
            return label_mse(logits, labels).mean()
        return hard_cross_entropy(logits, labels).mean()


def _stack(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Put two texts' ids and lengths under one another, padded to the longer: (2B, T)."""
    steps = max(first[0].shape[1], second[0].shape[1])
    ids = torch.cat([F.pad(ids, (0, steps - ids.shape[1])) for ids, _ in (first, second)])
    return ids, torch.cat([first[1], second[1]])
