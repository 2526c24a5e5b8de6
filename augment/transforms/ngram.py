"""N-gram sampling: the row gives way to a short run of its words."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa

from augment.batch import TokenBatch, spans
from augment.draws import Place
from augment.transforms.protocol import RowTransform, check_rate, extend, show


@cache
def _nothing() -> pa.Array:
    return pa.array([""], pa.large_string())


@dataclass(frozen=True, slots=True, repr=False)
class SampleNGram(RowTransform):
    """Replace each row, with probability ``rate``, by a random n-gram of its words.

    n is uniform in 1..``longest``, then cut to the row's length; every position is as likely as
    any other. White space inside the n-gram stays, around it goes.
    Source: Tang et al. 2019, section 3.3, https://arxiv.org/abs/1903.12136.
    """

    rate: float = 0.25
    longest: int = 5

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.longest < 1:
            raise ValueError(f"longest is a number of words of at least 1, got {self.longest}")

    def apply(self, batch: TokenBatch, place: Place) -> TokenBatch:
        """Draw which rows shrink, how long the n-gram is and where it starts."""
        draws, words = place.draws(batch), batch.lengths
        n = np.minimum(1 + (draws.lane(1).rows() * self.longest).astype(np.int64), words)
        start = (draws.lane(2).rows() * (words - n + 1)).astype(np.int64)
        shrinks = (draws.rows() < self.rate) & (n < words)
        keep = np.where(shrinks, n, words)
        tokens, offsets = spans(batch.offsets[:-1] + np.where(shrinks, start, 0), keep)
        (nothing,), table = extend(batch.table, _nothing())
        lead, spaces = batch.lead.copy(), batch.spaces[tokens]
        lead[shrinks] = nothing
        spaces[offsets[1:][shrinks] - 1] = nothing
        edits = batch.edits.copy()
        edits[shrinks] |= np.int64(1) << place.number
        return replace(
            batch,
            offsets=offsets,
            words=batch.words[tokens],
            spaces=spaces,
            lead=lead,
            table=table,
            edits=edits,
            **batch.annotations(tokens),
        )

    __repr__ = show
