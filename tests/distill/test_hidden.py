"""Laws of the objectives inside the transformer: closed form, gradient, padding, batch, scale."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from distill.attention import capturing
from distill.errors import StageError
from distill.hidden import (
    Projections,
    attention_kl,
    attention_mse,
    hidden_cosine,
    hidden_mse,
    patience,
)
from distill.objectives import logits_mse, soft_cross_entropy
from tests.distill.encoders import batch, bert, family

LENGTHS = [5, 3, 1]
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def scores(heads: int, seed: int) -> Tensor:
    return drawn(3, heads, 5, 5, seed=seed) * 3


def states(width: int, seed: int) -> Tensor:
    return drawn(3, 5, width, seed=seed)


MATRIX = drawn(4, 6, seed=9)

# Each objective as a function of student, teacher and mask; states that fit it; scalar arithmetic
# over one row's real tokens that it must equal.
Case = tuple[Callable[..., Tensor], Tensor, Tensor, Callable[..., float]]


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def attention_mse_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    every = range(n)
    return mean(
        [(s[h, i, j] - t[h, i, j]) ** 2 for h in range(len(s)) for i in every for j in every]
    )


def averaged_mse_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    return attention_mse_by_hand(s.mean(axis=0)[None], t.mean(axis=0)[None], n)


def softmax(row: NDArray[Any]) -> list[float]:
    total = math.fsum(math.exp(x) for x in row)
    return [math.exp(x) / total for x in row]


def kl(p: list[float], q: list[float]) -> float:
    return math.fsum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def attention_kl_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    return mean(
        [kl(softmax(t[h, i, :n]), softmax(s[h, i, :n])) for h in range(len(s)) for i in range(n)]
    )


def averaged_kl_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    def over_heads(side: NDArray[Any], query: int) -> list[float]:
        rows = [softmax(head[query, :n]) for head in side]
        return [mean([row[key] for row in rows]) for key in range(n)]

    return mean([kl(over_heads(t, i), over_heads(s, i)) for i in range(n)])


def hidden_mse_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    return mean([(s[i, d] - t[i, d]) ** 2 for i in range(n) for d in range(s.shape[1])])


def projected_mse_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    matrix = MATRIX.numpy()
    carried = [
        [math.fsum(s[i, k] * matrix[k, d] for k in range(4)) for d in range(6)] for i in range(5)
    ]
    return hidden_mse_by_hand(np.array(carried), t, n)


def cosine_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    return mean(
        [
            1 - float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
            for a, b in zip(s[:n], t, strict=False)
        ]
    )


def patience_by_hand(s: NDArray[Any], t: NDArray[Any], n: int) -> float:
    return 2 * cosine_by_hand(s, t, 1)  # |a - b|^2 of unit vectors is 2 - 2 cos


def project(values: Tensor) -> Tensor:
    return values @ MATRIX.to(values.dtype)


CASES: dict[str, Case] = {
    "attention-mse": (attention_mse, scores(2, 1), scores(2, 2), attention_mse_by_hand),
    "attention-mse, other heads": (attention_mse, scores(2, 1), scores(4, 2), averaged_mse_by_hand),
    "attention-kl": (attention_kl, scores(2, 1), scores(2, 2), attention_kl_by_hand),
    "attention-kl, other heads": (attention_kl, scores(4, 1), scores(2, 2), averaged_kl_by_hand),
    "hidden-mse": (hidden_mse, states(6, 1), states(6, 2), hidden_mse_by_hand),
    "hidden-mse, projected": (
        lambda s, t, m: hidden_mse(s, t, m, project=project),
        states(4, 1), states(6, 2), projected_mse_by_hand,
    ),
    "hidden-cosine": (hidden_cosine, states(6, 1), states(6, 2), cosine_by_hand),
    "patience": (lambda s, t, m: patience(s, t), states(6, 1), states(6, 2), patience_by_hand),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)


@every_case
def test_it_equals_its_closed_form(name: str) -> None:
    objective, student, teacher, by_hand = CASES[name]
    expected = [
        by_hand(s.numpy(), t.numpy(), n) for s, t, n in zip(student, teacher, LENGTHS, strict=True)
    ]
    assert objective(student, teacher, MASK).tolist() == pytest.approx(expected, rel=1e-12)


@every_case
def test_its_gradient_is_right_and_the_teacher_gets_none(name: str) -> None:
    objective, student, teacher, _ = CASES[name]
    student, teacher = student.clone().requires_grad_(), teacher.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: objective(s, teacher, MASK), (student,))
    objective(student, teacher, MASK).sum().backward()
    assert teacher.grad is None


@every_case
@pytest.mark.parametrize("filling", [0.0, 7.5, 1e30, math.inf, math.nan])
def test_what_stands_in_padding_changes_neither_value_nor_gradient(
    name: str, filling: float
) -> None:
    objective, student, teacher, _ = CASES[name]
    found = []
    for fill in (None, filling):
        mine, other = student.clone(), teacher.clone()
        if fill is not None:
            for row, length in enumerate(LENGTHS):
                for side in (mine, other):
                    if side.dim() == 4:
                        side[row, :, length:] = fill
                        side[row, :, :, length:] = fill
                    else:
                        side[row, length:] = fill
        mine.requires_grad_()
        values = objective(mine, other, MASK)
        found.append((values, torch.autograd.grad(values.sum(), mine)[0]))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=0)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=0, atol=0)


@every_case
def test_adding_padding_changes_nothing(name: str) -> None:
    objective, student, teacher, _ = CASES[name]
    pad = (0, 4, 0, 4) if student.dim() == 4 else (0, 0, 0, 4)
    longer = [torch.nn.functional.pad(side, pad, value=3.0) for side in (student, teacher)]
    padded = objective(*longer, torch.nn.functional.pad(MASK, (0, 4)))
    torch.testing.assert_close(padded, objective(student, teacher, MASK))


@every_case
def test_splitting_a_batch_changes_nothing(name: str) -> None:
    objective, student, teacher, _ = CASES[name]
    rows = [objective(student[i : i + 1], teacher[i : i + 1], MASK[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(torch.cat(rows), objective(student, teacher, MASK))


@every_case
def test_a_student_that_equals_its_teacher_has_no_loss(name: str) -> None:
    objective, _, teacher, _ = CASES[name]
    if "projected" not in name:
        assert objective(teacher, teacher, MASK).abs().max() < 1e-12


@every_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(name: str, dtype: torch.dtype) -> None:
    objective, student, teacher, _ = CASES[name]
    if "projected" in name:
        return  # the product itself is then in half precision
    half = [side.to(dtype) for side in (student, teacher)]
    found = objective(*half, MASK)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, objective(*(s.float() for s in half), MASK), rtol=0, atol=0)


@every_case
def test_a_teacher_in_inference_mode_serves(name: str) -> None:
    objective, student, teacher, _ = CASES[name]
    student = student.clone().requires_grad_()
    with torch.inference_mode():
        constant = teacher * 1
    objective(student, constant, MASK).sum().backward()
    assert student.grad is not None


@every_case
def test_a_row_without_tokens_counts_nothing(name: str) -> None:
    if name == "patience":
        return  # [CLS] is always there
    objective, student, teacher, _ = CASES[name]
    student = student.clone().requires_grad_()
    values = objective(student, teacher, MASK * torch.tensor([[1], [1], [0]]))
    values.sum().backward()
    assert values[2] == 0
    assert student.grad is not None
    assert student.grad[2].abs().max() == 0


def test_scaling_laws() -> None:
    s, t = scores(2, 1), scores(2, 2)
    torch.testing.assert_close(attention_mse(3 * s, 3 * t, MASK), 9 * attention_mse(s, t, MASK))
    shift = drawn(3, 2, 5, 1, seed=3)  # softmax does not see a number added to a query's scores
    torch.testing.assert_close(attention_kl(s + shift, t, MASK), attention_kl(s, t, MASK))
    a, b = states(6, 1), states(6, 2)
    torch.testing.assert_close(hidden_mse(2 * a, 2 * b, MASK), 4 * hidden_mse(a, b, MASK))
    torch.testing.assert_close(hidden_cosine(5 * a, b, MASK), hidden_cosine(a, b, MASK))
    torch.testing.assert_close(patience(5 * a, b), patience(a, b))


def test_temperature_divides_logits_and_multiplies_by_its_square() -> None:
    s, t = drawn(3, 4, seed=1), drawn(3, 4, seed=2)
    for temperature in (0.5, 2.0, 10.0):
        torch.testing.assert_close(
            soft_cross_entropy(s, t, temperature=temperature),
            temperature**2 * soft_cross_entropy(s / temperature, t / temperature),
        )


def test_a_high_temperature_is_logits_matching() -> None:
    # Hinton et al., section 2.1: for centred logits the gradient tends to (z - v) / C.
    s, t = (x - x.mean(dim=1, keepdim=True) for x in (drawn(3, 4, seed=1), drawn(3, 4, seed=2)))
    s.requires_grad_()
    (soft,) = torch.autograd.grad(soft_cross_entropy(s, t, temperature=1e6).sum(), s)
    (plain,) = torch.autograd.grad(logits_mse(s, t).sum(), s)
    torch.testing.assert_close(soft, plain / (2 * 4), rtol=1e-3, atol=1e-6)


def test_mismatches_are_errors_that_name_both_sides() -> None:
    with pytest.raises(StageError, match=r"\(3, 2, 5, 5\).*\(3, 2, 4, 4\).*one vocabulary"):
        attention_mse(scores(2, 1), scores(2, 2)[:, :, :4, :4], MASK)
    with pytest.raises(StageError, match="4 wide.*6; pass project"):
        hidden_mse(states(4, 1), states(6, 2), MASK)
    with pytest.raises(StageError, match=r"\(3, 5, 6\).*\(3, 4, 6\)"):
        hidden_cosine(states(6, 1), states(6, 2)[:, :4], MASK)


def test_projections_are_two_matrices_or_nothing() -> None:
    apart = Projections(4, 6, seed=1)
    sizes = {name: tuple(value.shape) for name, value in apart.named_parameters()}
    assert sizes == {"embeddings.weight": (6, 4), "hidden.weight": (6, 4)}
    assert not list(Projections(6, 6).parameters())
    assert Projections(6, 6).hidden(MASK) is MASK
    factored = Projections(6, 6, embeddings=(4, 8))
    assert [tuple(p.shape) for p in factored.parameters()] == [(8, 4)]


def test_projections_depend_on_their_seed_alone() -> None:
    before = torch.get_rng_state()
    first, second, other = Projections(4, 6), Projections(4, 6), Projections(4, 6, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.hidden.weight, second.hidden.weight)
    assert not torch.equal(first.hidden.weight, other.hidden.weight)
    assert not torch.equal(first.hidden.weight, first.embeddings.weight)


def test_projections_learn_with_the_student_and_stay_out_of_its_folder(tmp_path: Any) -> None:
    model, carry = bert(), Projections(24, 6)
    with capturing(model, hidden=[0, 4]) as capture:
        found = capture(batch())
        mask = batch()["attention_mask"]
        loss = hidden_mse(found.hidden[0], drawn(3, 9, 6).float(), mask, project=carry.embeddings)
        loss = loss + hidden_mse(found.hidden[4], drawn(3, 9, 6), mask, project=carry.hidden)
        loss.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in carry.parameters())
    model.save_pretrained(tmp_path)
    assert type(model).from_pretrained(tmp_path).num_parameters() == model.num_parameters()


def test_models_padded_together_lose_what_each_row_loses_alone() -> None:
    student, teacher = family("bert", 1).double(), family("mobilebert", 2).double()
    inputs, carry = batch(), Projections(24, 24)

    def losses(some: dict[str, Tensor]) -> Tensor:
        with torch.inference_mode(), capturing(teacher, attention=[2], hidden=[2]) as capture:
            theirs = capture(some)
        with capturing(student, attention=[1], hidden=[1]) as capture:
            mine = capture(some)
        mask = some["attention_mask"]
        a, b, x, y = mine.attention[1], theirs.attention[2], mine.hidden[1], theirs.hidden[2]
        return torch.stack(
            [
                attention_mse(a, b, mask), attention_kl(a, b, mask),
                hidden_mse(x, y, mask, project=carry.hidden), hidden_cosine(x, y, mask),
                patience(x, y),
            ]
        )  # fmt: skip

    together = losses(inputs)
    for row, length in enumerate([9, 6, 3]):
        alone = losses({key: value[row : row + 1, :length] for key, value in inputs.items()})
        torch.testing.assert_close(together[:, row], alone[:, 0])
    assert (together > 0).all()
