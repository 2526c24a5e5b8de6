"""What this machine computes fastest in."""

from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]


def resolve(precision: Literal["auto", "fp32", "bf16"]) -> Precision:
    """Return the precision to run in; ``auto`` is bf16 where the hardware has it."""
    if precision != "auto":
        return precision
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    capabilities = torch.backends.cpu.get_cpu_capability()
    native = capabilities.startswith("AVX512") and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    # Bf16 without its own instructions is emulated, slower than fp32.
    return "bf16" if native and _has_bf16_instructions() else "fp32"


def _has_bf16_instructions() -> bool:
    check = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(check()) if check is not None else False
