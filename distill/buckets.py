"""The order of training: batches of rows of like length, a pure function of seed and epoch."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

WINDOW = 100


class Buckets(Sampler[list[int]]):
    """Yields batches of row numbers; every row once an epoch.

    Rows are shuffled, sorted by length inside windows of 100 batches, cut, and the batches of a
    window shuffled: padding all but vanishes while a batch stays a random draw of rows.
    """

    def __init__(self, lengths: NDArray[np.int64], batch: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch, seed, 0
        self.drop_last = False

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        draws = np.random.default_rng([self.seed, self.epoch])
        order = draws.permutation(len(self.lengths))
        span = self.batch_size * WINDOW
        for start in range(0, len(order), span):
            window = order[start : start + span]
            window = window[np.argsort(self.lengths[window], kind="stable")]
            cuts = range(0, len(window), self.batch_size)
            for cut in draws.permutation(np.asarray(cuts)):
                yield window[cut : cut + self.batch_size].tolist()
