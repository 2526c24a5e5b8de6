"""Masking: the word gives way to the placeholder."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from augment.batch import I64, TokenBatch
from augment.draws import Draws
from augment.settings import PLACEHOLDER
from augment.transforms.protocol import TokenTransform, check_rate, extend, show


@cache  # one array, so that `extend` knows it again; not made on import, for pyarrow loads pandas
def _placeholder() -> pa.Array:
    return pa.array([PLACEHOLDER], pa.large_string())


@dataclass(frozen=True, slots=True, repr=False)
class Mask(TokenTransform):
    """Replace each word by the placeholder ``[MASK]`` with probability ``rate``.

    A teacher reads its own mask token there, a word-level student its unknown word.
    Source: Tang et al. 2019, section 3.3, https://arxiv.org/abs/1903.12136.
    """

    rate: float = 0.1

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def edit(self, batch: TokenBatch, at: I64, draws: Draws, bit: int) -> TokenBatch:
        """Write the placeholder at the picked words."""
        code, table = extend(batch.table, _placeholder())
        return batch.with_words(at, np.repeat(code, len(at)), table, bit)

    __repr__ = show
