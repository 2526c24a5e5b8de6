"""AdaDelta that touches only the embedding rows a batch read, with the dense result.

Torch's ``Adadelta`` refuses sparse gradients, and its dense update of a large table costs more
than the rest of a small student's step. Where the gradient is zero a dense step leaves the
parameter alone and multiplies both running averages by ``rho``; so a row may sleep for k steps and
catch up with one multiplication by ``rho ** k`` when it is read again. Equal up to rounding; a
test compares both over many steps.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class AdaDelta(Optimizer):
    """AdaDelta for dense and for row-sparse gradients.

    Source: Zeiler 2012, algorithm 1, https://arxiv.org/abs/1212.5701.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.95, eps: float = 1e-6
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a saved state; torch casts all of it to the parameters' type, counts too."""
        super().load_state_dict(state_dict)
        for state in self.state.values():
            if "seen" in state:
                state["seen"] = state["seen"].to(torch.int64)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            lr, rho, eps = group["lr"], group["rho"], group["eps"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.int64)
                    state["square"] = torch.zeros_like(parameter)
                    state["change"] = torch.zeros_like(parameter)
                state["step"] += 1
                if parameter.grad.is_sparse:
                    _sparse(parameter, state, lr, rho, eps)
                else:
                    _dense(parameter, state, lr, rho, eps)
        return loss


def _dense(parameter: Tensor, state: dict[str, Tensor], lr: float, rho: float, eps: float) -> None:
    assert parameter.grad is not None
    grad, square, change = parameter.grad, state["square"], state["change"]
    square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
    delta = change.add(eps).div_(square.add(eps)).sqrt_().mul_(grad)
    change.mul_(rho).addcmul_(delta, delta, value=1 - rho)
    parameter.add_(delta, alpha=-lr)


def _sparse(parameter: Tensor, state: dict[str, Tensor], lr: float, rho: float, eps: float) -> None:
    assert parameter.grad is not None
    grad = parameter.grad.coalesce()
    rows, values = grad.indices()[0], grad.values()
    if "seen" not in state:
        state["seen"] = torch.zeros(len(parameter), dtype=torch.int64, device=parameter.device)
    # Steps since each row's last update, this one included.
    decay = rho ** (state["step"] - state["seen"][rows]).to(values.dtype).unsqueeze(1)
    state["seen"][rows] = state["step"].to(parameter.device)
    square = state["square"][rows].mul_(decay).addcmul_(values, values, value=1 - rho)
    late = state["change"][rows]
    # The dense rule reads last step's average, so it has one decay less behind it here.
    delta = (late * (decay / rho)).add_(eps).div_(square.add(eps)).sqrt_().mul_(values)
    state["square"][rows] = square
    state["change"][rows] = late.mul_(decay).addcmul_(delta, delta, value=1 - rho)
    parameter.index_add_(0, rows, delta, alpha=-lr)
