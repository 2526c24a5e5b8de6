"""A teacher of a few lines: what it says of a text is a hash of the text, and it counts its calls."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xxhash


class StubTeacher:
    """Keeps the ``Labeller`` protocol; every text it was ever asked is in ``asked``."""

    def __init__(self, classes: Sequence[str] = ("0", "1"), identity: str = "stub") -> None:
        self.identity = identity
        self.classes = tuple(classes)
        self.about: dict[str, Any] = {"name": "stub", "precision": "fp32"}
        self.asked: list[tuple[str, ...]] = []

    def logits(self, columns: Sequence[Sequence[str]]) -> Iterator[tuple[Any, Any]]:
        texts = list(zip(*columns, strict=True))
        self.asked += texts
        for at in np.array_split(np.arange(len(texts))[::-1], 3):  # any order is allowed
            if len(at):
                yield at, np.stack([self.opinion(texts[i]) for i in at])

    def opinion(self, text: tuple[str, ...]) -> Any:
        bits = xxhash.xxh3_64_intdigest(repr(text).encode())
        outputs = max(1, len(self.classes))
        return np.array([(bits >> 8 * c) % 256 / 32 - 4 for c in range(outputs)], np.float32)
