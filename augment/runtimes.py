"""What computes a model's batches: torch, or OpenVINO where it is asked for.

Both take named integer arrays and return one float32 array, so whoever batches need not know.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from augment.errors import ResourceError
from augment.machine import threads as torch_threads

I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
Forward = Callable[[Mapping[str, I64]], F32]
RuntimeName = Literal["torch", "openvino"]

# Shapes on which a converted model must agree with the one it was made from.
_TRIALS = ((4, 6), (3, 17))


class Runtime(Protocol):
    """A loaded model, ready to compute."""

    device: str

    def running(self) -> AbstractContextManager[Forward]:
        """Hold threads and precision for a run of batches; yields what computes one."""


def open_runtime(
    name: RuntimeName, model: Any, inputs: Sequence[str], *, precision: str, threads: int
) -> Runtime:
    """Return the runtime ``name`` over a module whose output has ``logits``.

    Args:
        name: "torch", or "openvino": CPU only, about twice as fast there on short texts.
        model: in eval mode.
        inputs: names of its inputs.
        precision: "fp32" or "bf16".
        threads: of the CPU, fixed because products split among threads.

    Raises:
        ResourceError: OpenVINO is not installed or cannot compute this model.
    """
    if name == "openvino":
        return OpenVino(model, inputs, precision=precision, threads=threads)
    return Torch(model, precision=precision, threads=threads)


class Torch:
    """Torch, on an accelerator where there is one."""

    def __init__(self, model: Any, *, precision: str, threads: int) -> None:
        import torch

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model, self.precision, self.threads = model.to(self.device), precision, threads

    @contextmanager
    def running(self) -> Iterator[Forward]:
        """Hold threads and precision for a run of batches; yields what computes one."""
        import torch

        def forward(batch: Mapping[str, I64]) -> F32:
            inputs = {key: torch.from_numpy(rows).to(self.device) for key, rows in batch.items()}
            done: F32 = self.model(**inputs).logits.float().cpu().numpy()
            return done

        cast = torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16")
        # no_grad, not inference_mode: autocast keeps its cast weights only outside the latter.
        with torch_threads(self.threads), torch.no_grad(), cast:
            yield forward


class OpenVino:
    """OpenVINO's CPU kernels: whole layers fused, bf16 between them as well as inside."""

    device = "cpu"

    def __init__(self, model: Any, inputs: Sequence[str], *, precision: str, threads: int) -> None:
        try:
            import openvino
        except ImportError:
            raise ResourceError(
                'runtime "openvino" is not installed; run: pip install "transferset[openvino]" '
                '(or set runtime = "torch")'
            ) from None
        self.inputs = tuple(inputs)

        def compiled(precision: str) -> Any:
            hint = {"fp32": "f32", "bf16": "bf16"}[precision]
            settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads}
            return openvino.Core().compile_model(graph, "CPU", settings | {"NUM_STREAMS": 1})

        try:
            graph = _graph(model, self.inputs)
            # In fp32 whatever differs is the graph's fault, not rounding's.
            self.compiled = compiled("fp32")
            far = max(_distance(model, self, shape) for shape in _TRIALS)
            if precision != "fp32":
                self.compiled = compiled(precision)
        except RuntimeError as error:
            first = str(error).strip().splitlines()[0]
            raise ResourceError(
                f'OpenVINO cannot compute this model: {first}; set runtime = "torch"'
            ) from error
        if not far < 1e-3:
            raise ResourceError(
                f"OpenVINO's logits differ from torch's by {far:.2g} of the largest; "
                'set runtime = "torch"'
            )

    @contextmanager
    def running(self) -> Iterator[Forward]:
        """Yields what computes a batch; threads and precision were compiled in."""

        def forward(batch: Mapping[str, I64]) -> F32:
            done = self.compiled([batch[name] for name in self.inputs])[0]
            return np.array(done, np.float32)  # the runtime writes its own buffer again

        yield forward


def _graph(model: Any, inputs: Sequence[str]) -> Any:
    """Trace a module into OpenVINO's graph, every dimension open.

    By way of the frontend: ``openvino.convert_model`` reports its use over the network.
    """
    import torch
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    class Positional(torch.nn.Module):
        """The model, its inputs by place, its logits alone."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            return self.model(**dict(zip(inputs, values, strict=True))).logits

    example = tuple(torch.from_numpy(rows) for rows in _trial(model, inputs, _TRIALS[0]).values())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's; what it could miss is tried afterwards
        decoder = TorchScriptPythonDecoder(Positional().eval(), example_input=example)
        frontend = FrontEndManager().load_by_framework("pytorch")
        return frontend.convert(frontend.load(decoder))


def _trial(model: Any, inputs: Sequence[str], shape: tuple[int, int]) -> dict[str, I64]:
    """Return inputs of a shape, each token another word."""
    words = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape) * 7
    return {
        name: words % model.config.vocab_size if name == "input_ids" else np.zeros_like(words)
        for name in inputs
    }


def _distance(model: Any, ours: "OpenVino", shape: tuple[int, int]) -> float:
    """Return the largest difference from torch's own fp32, as a share of the largest logit."""
    import torch

    batch = _trial(model, ours.inputs, shape)
    with torch.no_grad():
        theirs = model(**{k: torch.from_numpy(v) for k, v in batch.items()}).logits.numpy()
    with ours.running() as forward:
        return float(np.abs(forward(batch) - theirs).max() / max(1.0, np.abs(theirs).max()))
