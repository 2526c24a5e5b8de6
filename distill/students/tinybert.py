"""TinyBERT's students: small plain BERTs, from random weights, a folder or a teacher's layers.

What is built and saved is transformers' own ``BertForSequenceClassification``, or ``BertModel``
before there is a task; it loads anywhere without this library. Source: Jiao et al. 2020, https://arxiv.org/abs/1909.10351.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, BertConfig, BertForSequenceClassification, BertModel
from transformers.utils import logging

from augment.progress import quiet
from distill.errors import StudentError


@dataclass(frozen=True, slots=True)
class Shape:
    """Layers, width of the hidden states, width of the feed-forward layers, attention heads."""

    layers: int
    hidden: int
    intermediate: int
    heads: int

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "intermediate", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a count of at least 1, got {getattr(self, name)}")
        if self.hidden % self.heads:
            raise ValueError(
                f"hidden is a multiple of heads, got {self.hidden} and {self.heads} heads"
            )


SIZES = {4: Shape(4, 312, 1200, 12), 6: Shape(6, 768, 3072, 12)}
"""The paper's two students by their number of layers."""

_VOCABULARY = ("vocab_size", "pad_token_id", "type_vocab_size", "max_position_embeddings")
_BLOCK = ("hidden_act", "layer_norm_eps")
_WIDTHS = ("hidden_size", "intermediate_size", "num_attention_heads")


def tinybert(
    shape: Shape,
    *,
    classes: Sequence[str] | None,
    problem: Literal["single_label_classification", "regression"] | None,
    seed: int,
    teacher: Any = None,
    tokenizer: Any = None,
    dropout: float = 0.1,
) -> Any:
    """Return a student with random weights; the same seed gives the same weights.

    Args:
        shape: of :data:`SIZES` or one's own.
        classes: names in the order of the outputs, empty for a regression; None for an encoder
            alone, a ``BertModel`` with its pooler.
        problem: the task in transformers' words; None for an encoder alone.
        seed: of the weights.
        teacher: a config; its vocabulary and positions become the student's, and from a BERT also
            the activation and the norm's epsilon. BERT's own without it.
        tokenizer: gives another vocabulary than the teacher's.
        dropout: of hidden states and attention, in training.
    """
    names = () if classes is None else tuple(classes) or ("score",)
    head = {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
    wanted = _VOCABULARY + (_BLOCK if getattr(teacher, "model_type", None) == "bert" else ())
    settings = {name: getattr(teacher, name) for name in wanted if hasattr(teacher, name)}
    if tokenizer is not None:
        settings |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    config = BertConfig(
        **settings,
        num_hidden_layers=shape.layers,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_attention_heads=shape.heads,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        problem_type=problem,
        **(head if names else {}),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BertModel(config) if classes is None else BertForSequenceClassification(config)


def start_from_folder(student: Any, folder: str | Path) -> None:
    """Start the student's encoder from a saved BERT of the same shape; its head stays as it is.

    The folder is a general-distilled student, or any BERT, with or without a head. A pooler that
    it lacks, as masked language models do, stays as it is too.

    Raises:
        StudentError: no model there, or one of another shape or vocabulary.
    """
    try:
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise StudentError(f"{folder}: no transformers model to start from: {error}") from error
    compared = ("num_hidden_layers", *_WIDTHS, *_VOCABULARY, *_BLOCK)
    _check_same(student.config, config, compared, str(folder))
    loaded, report = _encoder(str(folder))
    missing = {name for name in report["missing_keys"] if not name.startswith("pooler.")}
    if missing:
        raise StudentError(
            f"{folder}: weights are missing, among them {sorted(missing)[0]}; "
            "it was not saved whole, or not by transformers"
        )
    weights = loaded.state_dict()
    for name in report["missing_keys"]:
        weights[name] = student.base_model.state_dict()[name]
    student.base_model.load_state_dict(weights)


def start_from_layers(student: Any, teacher: Any, layers: Sequence[int]) -> None:
    """Copy chosen teacher layers into the student's, in order, with embeddings and pooler.

    The classifier is copied too where the teacher names the same classes in the same order.

    Args:
        student: its layers are overwritten.
        teacher: a BERT of the same widths and vocabulary, with or without a head.
        layers: of the teacher, counted from 1, one for each student layer; see
            :func:`distill.layers.spread` for evenly spaced ones, ``range(1, k + 1)`` for the first.

    Raises:
        StudentError: widths, vocabulary or family differ, or ``layers`` does not fit.
    """
    compared = (*_WIDTHS, *_VOCABULARY, *_BLOCK)
    _check_same(student.config, teacher.config, compared, "the teacher")
    depth, given = student.config.num_hidden_layers, teacher.config.num_hidden_layers
    if len(layers) != depth or not all(1 <= layer <= given for layer in layers):
        raise StudentError(
            f"layers {list(layers)} cannot fill a student of {depth}; "
            f"list {depth} teacher layers of 1 to {given}"
        )
    source, target = teacher.base_model, student.base_model
    target.embeddings.load_state_dict(source.embeddings.state_dict())
    for block, layer in zip(target.encoder.layer, layers, strict=True):
        block.load_state_dict(source.encoder.layer[layer - 1].state_dict())
    if source.pooler is not None:
        target.pooler.load_state_dict(source.pooler.state_dict())
    head, own = (getattr(side, "classifier", None) for side in (teacher, student))
    if head is not None and own is not None and teacher.config.id2label == student.config.id2label:
        own.load_state_dict(head.state_dict())


def _encoder(folder: str) -> tuple[Any, dict[str, Any]]:
    level = logging.get_verbosity()
    logging.set_verbosity_error()  # heads left out and a pooler made new are reported by the caller
    try:
        # What is missing is drawn, which must not move the caller's generator.
        with quiet(), torch.random.fork_rng(devices=[]):
            found: tuple[Any, dict[str, Any]] = BertModel.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
            return found
    except OSError as error:
        raise StudentError(f"{folder}: the weights cannot be read: {error}") from error
    finally:
        logging.set_verbosity(level)


def _check_same(student: Any, other: Any, names: Sequence[str], where: str) -> None:
    if other.model_type != "bert":
        raise StudentError(
            f"{where}: a {other.model_type}, whose weights do not fit a BERT student; "
            "start from random weights or from a BERT"
        )
    unlike = [
        f"{name} {getattr(other, name)} (the student: {getattr(student, name)})"
        for name in names
        if getattr(other, name) != getattr(student, name)
    ]
    if unlike:
        raise StudentError(
            f"{where}: other sizes than the student's: {', '.join(unlike)}; "
            "change the student's shape, or start from random weights"
        )
