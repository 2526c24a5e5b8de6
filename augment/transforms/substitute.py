"""Substitution: a word gives way to one that a language model or word vectors put there."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from augment.annotate.candidates import CandidateSource, Context, Mode, Touched
from augment.batch import I64, TokenBatch
from augment.draws import Draws
from augment.transforms.protocol import TokenTransform, check_rate, extend, show

_DEPTH = 15


@dataclass(frozen=True, slots=True, repr=False)
class Substitute(TokenTransform):
    """Replace each word, with probability ``rate``, by one of its ``k`` best candidates.

    A word that is one piece for the masked language model ``model`` has that model's favourites
    for its place as candidates; a word of several pieces has its nearest neighbours in ``vectors``.
    Never a candidate: the word itself, special tokens, word pieces, punctuation. Capitals are
    carried over. Candidates are made once a text and kept in the store.

    Source: Jiao et al. 2020, Algorithm 1, https://arxiv.org/abs/1909.10351; rate, ``k`` and the
    paper's 20 copies are its defaults.

    Args:
        rate: probability of each word to be replaced; words without candidates stay.
        k: candidates drawn from, uniformly.
        model: any masked language model: a folder, a hub name, ``package:<module>``.
        vectors: word vectors: a file in word2vec or GloVe format, a ``gensim.downloader`` name, or
            "none", which leaves words of several pieces as they are.
        mode: "masked" asks about one masked word at a time, as the paper does; "spread" masks
            several far-apart words at once, reading less; "unmasked" masks nothing and reads each
            text once, so the model sees the word it should replace.
        context: "masked": the model reads the masked text alone; "both": the original follows it,
            as in the published code.
        touch: "content" leaves stop words alone; "alphabetic" asks about them too.
        max_tokens: pieces the model reads at once; its own limit when left out. Longer texts are
            read through windows.
        precision: "fp32", "bf16", or "auto": bf16 where the hardware has it.
        runtime: "torch", or "openvino" (an extra, for CPUs).
    """

    rate: float = 0.4
    k: int = 15
    model: str = field(default="bert-base-uncased", metadata={"resource": True})
    vectors: str = field(default="glove-wiki-gigaword-100", metadata={"resource": True})
    mode: Mode = "masked"
    context: Context = "masked"
    touch: Touched = "content"
    max_tokens: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    runtime: Literal["torch", "openvino"] = "torch"
    needs = ("candidates",)

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.k < 1:
            raise ValueError(f"k is a count of at least 1, got {self.k}")
        if self.max_tokens is not None and self.max_tokens < 8:
            raise ValueError(f"max_tokens is a count of at least 8, got {self.max_tokens}")

    @property
    def source(self) -> CandidateSource:
        """What decides the candidates; fewer than the usual number of them are cut off here."""
        return CandidateSource(
            model=self.model,
            vectors=self.vectors,
            mode=self.mode,
            context=self.context,
            touch=self.touch,
            max_tokens=self.max_tokens,
            precision=self.precision,
            runtime=self.runtime,
            depth=max(self.k, _DEPTH),
        )

    def edit(self, batch: TokenBatch, at: I64, draws: Draws, bit: int) -> TokenBatch:
        """Draw one of the first ``k`` candidates of every picked word that has any."""
        lists = batch.candidates
        assert lists is not None
        at = at[lists.count[at] > 0]
        row = batch.rows_of(at)
        u = draws.lane(1).at_positions(row, at - batch.offsets[row])
        choice = (u * np.minimum(lists.count[at], self.k)).astype(np.int64)
        codes, table = extend(batch.table, lists.strings)
        return batch.with_words(at, codes[lists.pool[lists.first[at] + choice]], table, bit)

    __repr__ = show
