"""The BiLSTM's config, apart from the model so that registering it imports no torch module."""

from typing import ClassVar

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig


@strict
class BiLSTMConfig(PreTrainedConfig):  # type: ignore[misc]
    """Shape of a BiLSTM student.

    ``dims`` is the width of one channel of word vectors; of two channels the first is frozen and
    the second trained, a single channel is trained. ``pair`` says that a row is two texts, told
    apart by ``token_type_ids``. A row with no token is read as one ``unk_token_id``.
    """

    model_type: ClassVar[str] = "transferset-bilstm"

    vocab_size: int = 2
    dims: int = 300
    channels: int = 2
    hidden: int = 150
    head: int = 200
    dropout: float | int = 0.1
    pair: bool = False
    pad_token_id: int | None = 0
    unk_token_id: int | None = 1
