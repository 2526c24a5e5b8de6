"""Laws of the objectives: closed form, gradient, temperature, composition."""

import math

import pytest
import torch

from distill.objectives import (
    Objective,
    hard_cross_entropy,
    label_mse,
    logits_mse,
    soft_cross_entropy,
)

STUDENT = torch.tensor([[1.0, -1.0], [0.0, 2.0]])
TEACHER = torch.tensor([[2.0, 0.0], [0.0, 0.0]])


def test_logits_mse_sums_squares_over_classes() -> None:
    assert logits_mse(STUDENT, TEACHER).tolist() == [2.0, 4.0]


def test_hard_cross_entropy_has_its_closed_form() -> None:
    expected = [math.log(1 + math.exp(-2.0)), math.log(1 + math.exp(2.0))]
    assert hard_cross_entropy(STUDENT, torch.tensor([0, 0])).tolist() == pytest.approx(expected)


def test_soft_cross_entropy_of_a_sure_teacher_is_the_hard_one() -> None:
    sure = torch.tensor([[50.0, -50.0], [-50.0, 50.0]])
    soft = soft_cross_entropy(STUDENT, sure)
    torch.testing.assert_close(soft, hard_cross_entropy(STUDENT, torch.tensor([0, 1])))


def test_label_mse_is_the_squared_error_of_the_one_output() -> None:
    assert label_mse(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 5.0])).tolist() == [1.0, 4.0]


def test_temperature_keeps_the_size_of_the_gradient() -> None:
    # For small logits the gradient at any temperature tends to that of logits matching, / C.
    student = (STUDENT * 1e-2).requires_grad_()
    sizes = []
    for temperature in (1.0, 10.0, 100.0):
        loss = soft_cross_entropy(student, TEACHER * 1e-2, temperature=temperature).sum()
        sizes.append(torch.autograd.grad(loss, student)[0].norm().item())
    assert sizes == pytest.approx([sizes[0]] * 3, rel=0.02)


@pytest.mark.parametrize("loss", [logits_mse, soft_cross_entropy])
def test_gradients_are_right_and_the_teacher_gets_none(loss) -> None:  # type: ignore[no-untyped-def]
    student = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher), (student,))
    loss(student, teacher).sum().backward()
    assert teacher.grad is None


def test_the_other_gradients_are_right() -> None:
    student = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    classes = torch.tensor([0, 3, 1])
    assert torch.autograd.gradcheck(lambda s: hard_cross_entropy(s, classes), (student,))
    one = torch.randn(3, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: label_mse(s, torch.ones(3)), (one,))


def test_half_precision_logits_are_summed_in_single() -> None:
    assert logits_mse(STUDENT.bfloat16(), TEACHER.bfloat16()).dtype == torch.float32


def test_alpha_adds_hard_term_and_distance() -> None:
    targets = {"labels": torch.tensor([0, 1]), "logits": TEACHER}
    terms = Objective("logits-mse", alpha=0.25).terms(STUDENT, targets)
    hard = hard_cross_entropy(STUDENT, targets["labels"])
    torch.testing.assert_close(terms["hard-cross-entropy"], 0.25 * hard)
    torch.testing.assert_close(terms["logits-mse"], 0.75 * logits_mse(STUDENT, TEACHER))


def test_an_objective_asks_only_for_what_has_weight() -> None:
    logits = Objective("logits-mse")
    assert (logits.needs_logits, logits.needs_labels) == (True, False)
    hard = Objective("hard-cross-entropy")
    assert (hard.needs_logits, hard.needs_labels) == (False, True)
    argmax = Objective("hard-cross-entropy", target="argmax")
    assert (argmax.needs_logits, argmax.needs_labels) == (True, False)
    assert list(logits.terms(STUDENT, {"logits": TEACHER})) == ["logits-mse"]


def test_the_argmax_target_is_the_teachers_class() -> None:
    teacher = torch.tensor([[0.0, 9.0], [9.0, 0.0]])
    (term,) = (
        Objective("hard-cross-entropy", target="argmax")
        .terms(STUDENT, {"logits": teacher})
        .values()
    )
    torch.testing.assert_close(term, hard_cross_entropy(STUDENT, torch.tensor([1, 0])))


def test_a_regression_matches_the_teachers_score() -> None:
    student, teacher = torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0], [2.0]])
    terms = Objective("logits-mse", regression=True).terms(student, {"logits": teacher})
    assert terms["logits-mse"].tolist() == [9.0, 0.0]
