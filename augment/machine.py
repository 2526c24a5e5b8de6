"""What this machine computes fastest in: precision, batches, threads."""

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


def rows_per_batch(tokens: int, device: str = "cpu") -> int:
    """Return the number of rows in a batch of rows of this token length.

    At most 768 tokens on a CPU, whose caches then hold what one layer hands to the next, and
    32,768 on an accelerator; never below 4 rows.
    """
    rows, most = (64, 768) if device == "cpu" else (1024, 32_768)
    while rows > 4 and rows * tokens > most:
        rows //= 2
    return rows


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


@contextmanager
def steady_memory() -> Iterator[None]:
    """Let freed memory wait for its next use instead of going back to the system, for a while.

    A training step asks for the same hundreds of megabytes again and again; having each page
    zeroed by the kernel every time costs a fifth of the step. Does nothing without glibc.
    """
    import ctypes

    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError, TypeError):
        yield
        return
    trim_threshold, mmap_max = -1, -4  # malloc.h; their defaults are 128 KiB and 65,536
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, -1)
    try:
        yield
    finally:
        mallopt(mmap_max, 65_536)
        mallopt(trim_threshold, 128 * 1024)
        trim(0)
