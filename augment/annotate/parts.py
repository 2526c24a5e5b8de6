"""A masked language model cut in two: the encoder's states at places, the head's best pieces.

The head is the model's own forward with a stand-in where its encoder was, so any architecture's
head serves that reads nothing but the encoder's last states.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from augment.annotate.vocabulary import Vocabulary
from augment.runtimes import Batch


def first_position(encoder: Any) -> int:
    """Return the number of a text's first position: RoBERTa's kin count on from the padding's."""
    for name, module in encoder.named_modules():
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            return int(module.padding_idx) + 1
    return 0


def trial(shape: tuple[int, int], words: int, types: bool) -> dict[str, npt.NDArray[Any]]:
    """Return a batch of a shape, each token another piece, each row's second place asked about."""
    rows, width = shape
    ids = np.arange(rows * width, dtype=np.int64).reshape(shape) * 7 % words
    batch = {"place": np.arange(rows, dtype=np.int64) * width + 1, "input_ids": ids}
    return batch | ({"token_type_ids": np.zeros_like(ids)} if types else {})


def width_of(encoder: Any, batch: Batch) -> int:
    """Return the width of the states that :func:`parted`'s encoder gives."""
    import torch

    with torch.no_grad():
        states = encoder(**{name: torch.from_numpy(rows) for name, rows in batch.items()})
    return int(states.shape[1])


def parted(model: Any, vocabulary: Vocabulary, kept: int) -> tuple[Any, Any]:
    """Cut a masked language model in two: encoder states at places, best pieces for states."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    encoder = model.base_model
    allowed = np.stack([vocabulary.whole & (vocabulary.kind == kind) for kind in (0, 1)])
    penalty = torch.from_numpy(np.where(allowed, 0.0, -1e9).astype(np.float32))

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, place: Any, **inputs: Any) -> Any:
            """Return the states at ``place``, numbers into the batch's rows laid end to end."""
            states = self.encoder(**inputs).last_hidden_state
            return states.flatten(0, 1).index_select(0, place)

    class Given(torch.nn.Module):
        """Stands where the encoder was, so that the model's forward is its head."""

        def __init__(self) -> None:
            super().__init__()
            self.vectors: Any = None
            self.__dict__["encoder"] = encoder  # not registered: its weights are counted elsewhere

        def __getattr__(self, name: str) -> Any:
            if name in self._modules or name in self._parameters:
                return super().__getattr__(name)
            return getattr(self.__dict__["encoder"], name)

        def forward(self, *_: Any, **__: Any) -> Any:
            return BaseModelOutput(last_hidden_state=self.vectors)

    class Best(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            setattr(model, model.base_model_prefix, Given())
            self.model = model
            self.penalty = torch.nn.Parameter(penalty, requires_grad=False)

        def forward(self, vectors: Any, kind: Any) -> Any:
            getattr(self.model, model.base_model_prefix).vectors = vectors[:, None]
            ids = torch.zeros((len(vectors), 1), dtype=torch.long, device=vectors.device)
            logits = self.model(input_ids=ids).logits[:, 0].float()
            return logits.add_(self.penalty.index_select(0, kind)).topk(kept).indices

    return States().eval(), Best().eval()
