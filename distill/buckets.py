"""The order of training: batches of rows of like length, a pure function of seed and epoch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Sampler

WINDOW = 100


class Buckets(Sampler[list[int]]):
    """Yields batches of row numbers; every row once an epoch.

    Rows are shuffled, sorted by length inside windows of ``window`` batches, cut, and the batches
    of a window shuffled. The wider the window, the less padding, and the less a batch is a random
    draw of rows.
    """

    def __init__(
        self, lengths: NDArray[np.int64], batch: int, seed: int, window: int = WINDOW
    ) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = lengths, batch, seed, 0
        self.window = window
        self.drop_last = False

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        draws = np.random.default_rng([self.seed, self.epoch])
        order = draws.permutation(len(self.lengths))
        span = self.batch_size * self.window
        for start in range(0, len(order), span):
            window = order[start : start + span]
            window = window[np.argsort(self.lengths[window], kind="stable")]
            cuts = range(0, len(window), self.batch_size)
            for cut in draws.permutation(np.asarray(cuts)):
                yield window[cut : cut + self.batch_size].tolist()


def loader(examples: Any, batch: int, seed: int, window: int = WINDOW) -> DataLoader[Any]:
    """Return a loader of bucketed batches; it starts no worker process.

    Args:
        examples: has ``lengths`` and collates while it fetches; see ``distill.examples``.
        batch: rows per step.
        seed: of the order.
        window: batches that are sorted together; see :class:`Buckets`.
    """
    buckets = Buckets(examples.lengths, batch, seed, window)
    return DataLoader(examples, batch_sampler=buckets, collate_fn=_same)


def _same(batch: Any) -> Any:
    return batch
