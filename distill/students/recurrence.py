"""The LSTM recurrence of both directions at once, with its gradient written out.

Letters: D directions (2), T steps, B rows, H hidden width. Gates are ordered i, f, g, o as in
``torch.nn.LSTM``, whose results and gradients this reproduces (tests compare them).

``nn.LSTM`` multiplies every token's vector by the input weights. Here the caller does it once per
*distinct* word of a batch and hands the gates over, which is exact and halves the work on text.
"""

from typing import Any

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


def last_states(gates: Tensor, weight: Tensor, lengths: Tensor) -> Tensor:
    """Run both directions and return each row's hidden state after its last own step.

    Rows shorter than T simply run on over padding: their state is read at their own length, so
    later steps reach neither the result nor the gradient.

    Args:
        gates: input part of the gates, biases included, (D, T, B, 4H).
        weight: recurrent weights, (D, H, 4H).
        lengths: own steps of each row, (B,) int64, in 1..T.

    Returns:
        (D, B, H).

    Source: Hochreiter and Schmidhuber 1997; the gate equations are those of ``torch.nn.LSTM``.
    """
    states: Tensor = _Recurrence.apply(gates, weight, lengths)  # type: ignore[no-untyped-call]
    return states


class _Recurrence(Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # type: ignore[untyped-decorator]
    def forward(ctx: Any, gates: Tensor, weight: Tensor, lengths: Tensor) -> Tensor:
        directions, steps, rows, width = gates.shape
        hidden = width // 4
        active = torch.empty_like(gates)
        cells = gates.new_zeros(steps + 1, directions, rows, hidden)
        squashed = gates.new_empty(steps, directions, rows, hidden)
        states = gates.new_zeros(directions, steps + 1, rows, hidden)
        for t in range(steps):
            z = active[:, t]
            if t == 0:
                z.copy_(gates[:, 0])  # the first state is zero: nothing to multiply
            else:
                for d in range(directions):  # two plain products beat one batched one on CPU
                    torch.addmm(gates[d, t], states[d, t], weight[d], out=z[d])
            z[..., : 2 * hidden].sigmoid_()
            z[..., 2 * hidden : 3 * hidden].tanh_()
            z[..., 3 * hidden :].sigmoid_()
            i, f, g, o = z.chunk(4, dim=-1)
            cell = torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, g)
            torch.tanh(cell, out=squashed[t])
            torch.mul(o, squashed[t], out=states[:, t + 1])
        ctx.save_for_backward(active, cells, squashed, states, weight, lengths)
        return states[:, lengths, torch.arange(rows, device=lengths.device)]

    @staticmethod
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        active, cells, squashed, states, weight, lengths = ctx.saved_tensors
        directions, steps, _, width = active.shape
        hidden = width // 4
        ends = set(lengths.tolist())
        gates_grad = torch.empty_like(active)
        state_grad, cell_grad = torch.zeros_like(grad), torch.zeros_like(grad)
        for t in range(steps - 1, -1, -1):
            if t + 1 in ends:
                state_grad = state_grad + grad * (lengths == t + 1)[None, :, None]
            i, f, g, o = active[:, t].chunk(4, dim=-1)
            i_grad, f_grad, g_grad, o_grad = gates_grad[:, t].chunk(4, dim=-1)
            cell_grad.add_(torch.ops.aten.tanh_backward(state_grad * o, squashed[t]))
            _sigmoid_backward(state_grad * squashed[t], o, grad_input=o_grad)
            _sigmoid_backward(cell_grad * g, i, grad_input=i_grad)
            _sigmoid_backward(cell_grad * cells[t], f, grad_input=f_grad)
            _tanh_backward(cell_grad * i, g, grad_input=g_grad)
            if t:
                state_grad = torch.stack(
                    [gates_grad[d, t] @ weight[d].t() for d in range(directions)]
                )
                cell_grad.mul_(f)
        # One tall product for all steps instead of one small product per step.
        before = states[:, 1:steps].reshape(directions, -1, hidden)
        after = gates_grad[:, 1:].reshape(directions, -1, width)
        return gates_grad, torch.bmm(before.transpose(1, 2), after), None
