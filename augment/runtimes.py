"""What computes a module's batches: torch, or OpenVINO where it is asked for.

Both take named arrays and return one array, so whoever makes the batches need not know.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from augment.errors import ResourceError
from augment.machine import threads as torch_threads

Array = npt.NDArray[Any]
Batch = Mapping[str, Array]
Forward = Callable[[Batch], Array]
RuntimeName = Literal["torch", "openvino"]


class Runtime(Protocol):
    """A loaded model, ready to compute."""

    device: str

    def running(self) -> AbstractContextManager[Forward]:
        """Hold threads and precision for a run of batches; yields what computes one."""


def open_runtime(
    name: RuntimeName, module: Any, examples: Sequence[Batch], *, precision: str, threads: int
) -> Runtime:
    """Return the runtime ``name`` over a module.

    Args:
        name: "torch", or "openvino": CPU only, about 1.6 times as fast there on short texts.
        module: in eval mode; called with named tensors, returns one tensor.
        examples: batches of different shapes, on which OpenVINO must agree with torch.
        precision: "fp32" or "bf16".
        threads: of the CPU, fixed because products split among threads.

    Raises:
        ResourceError: OpenVINO is not installed or cannot compute this module.
    """
    if name == "openvino":
        return OpenVino(module, examples, precision=precision, threads=threads)
    return Torch(module, precision=precision, threads=threads)


def device_of(name: RuntimeName) -> str:
    """Return where a runtime computes: "cuda" or "cpu"."""
    import torch

    return "cuda" if name == "torch" and torch.cuda.is_available() else "cpu"


class Torch:
    """Torch, on an accelerator where there is one."""

    def __init__(self, module: Any, *, precision: str, threads: int) -> None:
        self.device = device_of("torch")
        self.module, self.precision, self.threads = module.to(self.device), precision, threads
        self.lock = Lock()

    @contextmanager
    def running(self) -> Iterator[Forward]:
        """Hold threads and precision for a run of batches; yields what computes one."""
        import torch

        def forward(batch: Batch) -> Array:
            inputs = {key: torch.from_numpy(rows).to(self.device) for key, rows in batch.items()}
            with self.lock:
                return _plain(self.module(**inputs))

        cast = torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16")
        # no_grad, not inference_mode: autocast keeps its cast weights only outside the latter.
        with torch_threads(self.threads), torch.no_grad(), cast:
            yield forward


class OpenVino:
    """OpenVINO's CPU kernels: whole layers fused, bf16 between them as well as inside."""

    device = "cpu"

    def __init__(
        self, module: Any, examples: Sequence[Batch], *, precision: str, threads: int
    ) -> None:
        try:
            import openvino
        except ImportError:
            raise ResourceError(
                'runtime "openvino" is not installed; run: pip install "transferset[openvino]" '
                '(or set runtime = "torch")'
            ) from None
        self.inputs = tuple(examples[0])
        self.lock = Lock()

        def compiled(precision: str) -> Any:
            hint = {"fp32": "f32", "bf16": "bf16"}[precision]
            settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads}
            return openvino.Core().compile_model(graph, "CPU", settings | {"NUM_STREAMS": 1})

        try:
            graph = _graph(module, examples[0])
            # In fp32 whatever differs is the graph's fault, not rounding's.
            self.compiled = compiled("fp32")
            far = max(_distance(module, self, batch) for batch in examples)
            if precision != "fp32":
                self.compiled = compiled(precision)
        except RuntimeError as error:
            first = str(error).strip().splitlines()[0]
            raise ResourceError(
                f'OpenVINO cannot compute this model: {first}; set runtime = "torch"'
            ) from error
        if not far < 1e-3:
            raise ResourceError(
                f"OpenVINO's results differ from torch's by {far:.2g} of the largest; "
                'set runtime = "torch"'
            )

    @contextmanager
    def running(self) -> Iterator[Forward]:
        """Yields what computes a batch; threads and precision were compiled in."""

        def forward(batch: Batch) -> Array:
            with self.lock:
                done = self.compiled([batch[name] for name in self.inputs])[0]
                return np.array(done)  # the runtime writes its own buffer again

        yield forward


def _plain(result: Any) -> Array:
    done: Array = (result.float() if result.is_floating_point() else result).cpu().numpy()
    return done


def _graph(module: Any, example: Batch) -> Any:
    """Trace a module into OpenVINO's graph, every dimension open.

    By way of the frontend: ``openvino.convert_model`` reports its use over the network.
    """
    import torch
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    class Positional(torch.nn.Module):
        """The module, its inputs by place."""

        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *values: Any) -> Any:
            return self.module(**dict(zip(example, values, strict=True)))

    tensors = tuple(torch.from_numpy(rows) for rows in example.values())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's; what it could miss is tried afterwards
        decoder = TorchScriptPythonDecoder(Positional().eval(), example_input=tensors)
        frontend = FrontEndManager().load_by_framework("pytorch")
        return frontend.convert(frontend.load(decoder))


def _distance(module: Any, ours: OpenVino, batch: Batch) -> float:
    """Return the largest difference from torch's own fp32, as a share of the largest value."""
    import torch

    with torch.no_grad():
        theirs = _plain(module(**{name: torch.from_numpy(rows) for name, rows in batch.items()}))
    with ours.running() as forward:
        mine = forward(batch)
    if mine.dtype.kind == "i":  # numbers of the best: neighbours in rank may change places
        return 0.0 if (mine != theirs).mean() < 0.01 else 1.0
    return float(np.abs(mine - theirs).max() / max(1.0, np.abs(theirs).max()))
