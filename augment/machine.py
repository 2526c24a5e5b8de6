"""What this machine computes fastest in, and how many of torch's threads do it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Precision = Literal["fp32", "bf16"]


def has_bf16() -> bool:
    """Return whether this machine multiplies bfloat16 matrices natively; emulation is slower."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and bool(
        torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    )


def resolve(precision: str) -> Precision:
    """Return the precision to run in; ``auto`` is bf16 where the hardware has it.

    Raises:
        ValueError: it is none of "auto", "fp32" and "bf16".
    """
    if precision == "auto":
        return "bf16" if has_bf16() else "fp32"
    known: dict[str, Precision] = {"fp32": "fp32", "bf16": "bf16"}
    if precision not in known:
        raise ValueError(f'precision is "auto", "fp32" or "bf16", got {precision!r}')
    return known[precision]


def cores() -> int:
    """Return how many cores there are."""
    return os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use this many threads for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
