"""Build a student for a transfer set: tokenizer, vocabulary, vectors, model."""

from dataclasses import dataclass
from typing import Literal

import torch
from transformers import PreTrainedTokenizerFast

from distill.students.bilstm import BiLSTMForSequenceClassification
from distill.students.bilstm_config import BiLSTMConfig
from distill.students.vectors import Vectors, random_vectors, read_vectors
from distill.students.words import slices, word_tokenizer, words_of


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What students of one set share: the tokenizer and a vector for each of its words."""

    tokenizer: PreTrainedTokenizerFast
    vectors: Vectors


def vocabulary(
    texts: list[str],
    *,
    pair: bool,
    vectors: str | None,
    dims: int,
    min_count: int = 1,
    max_words: int = 128,
) -> Vocabulary:
    """Learn the words of ``texts`` and look their vectors up (random ones without a file).

    Raises:
        StudentError: the file of vectors is missing or unreadable.
    """
    tokenizer = word_tokenizer(slices(texts), min_count=min_count, max_words=max_words, pair=pair)
    words = words_of(tokenizer)
    found = random_vectors(words, dims) if vectors is None else read_vectors(vectors, words)
    return Vocabulary(tokenizer, found)


def bilstm(
    words: Vocabulary,
    *,
    classes: tuple[str, ...],
    problem: Literal["single_label_classification", "regression"],
    pair: bool,
    hidden: int,
    head: int,
    channels: int,
    dropout: float,
    seed: int,
) -> BiLSTMForSequenceClassification:
    """Return a student with its vectors set; the same seed gives the same weights."""
    names = classes or ("score",)
    config = BiLSTMConfig(
        vocab_size=len(words.vectors.matrix),
        dims=words.vectors.matrix.shape[1],
        channels=channels,
        hidden=hidden,
        head=head,
        dropout=dropout,
        pair=pair,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
        problem_type=problem,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BiLSTMForSequenceClassification(config)
    model.set_vectors(torch.from_numpy(words.vectors.matrix))
    return model
