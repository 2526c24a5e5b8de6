"""Laws of the BiLSTM student."""

import pytest
import torch
from torch import Tensor, nn

from distill.cost import count
from distill.students.bilstm import BiLSTMForSequenceClassification
from distill.students.bilstm_config import BiLSTMConfig
from distill.students.recurrence import last_states


def student(**keys: object) -> BiLSTMForSequenceClassification:
    torch.manual_seed(0)
    config = BiLSTMConfig(**{"vocab_size": 30, "dims": 6, "hidden": 5, "head": 7} | keys)
    return BiLSTMForSequenceClassification(config).eval()


def batch() -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([9, 3, 1, 5, 9])
    torch.manual_seed(1)
    ids = torch.randint(2, 30, (5, 9))
    mask = (torch.arange(9) < lengths[:, None]).long()
    return ids * mask, mask


def test_the_papers_student_has_963002_parameters_outside_the_embeddings() -> None:
    model = student(vocab_size=10, dims=300, hidden=150, head=200, channels=2)
    assert count(model) == (963_002 + 2 * 10 * 300, 963_002)


def test_padding_does_not_matter() -> None:
    model, (ids, mask) = student(), batch()
    whole = model(ids, mask).logits
    wider = model(nn.functional.pad(ids, (0, 4)), nn.functional.pad(mask, (0, 4))).logits
    left = model(nn.functional.pad(ids, (4, 0)), nn.functional.pad(mask, (4, 0))).logits
    torch.testing.assert_close(wider, whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(left, whole, rtol=0, atol=1e-6)
    for row in range(len(ids)):
        alone = model(ids[row : row + 1, : mask[row].sum()]).logits[0]
        torch.testing.assert_close(alone, whole[row], rtol=0, atol=1e-6)


def test_rows_and_gradients_equal_those_of_torchs_packed_lstm() -> None:
    model, (ids, mask) = student(), batch()
    model(ids, mask).logits.square().sum().backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    packed = nn.utils.rnn.pack_padded_sequence(
        model._vectors(ids), mask.sum(1), batch_first=True, enforce_sorted=False
    )
    _, (states, _) = model.lstm(packed)
    logits = model.out(torch.relu(model.wide(torch.cat([states[0], states[1]], dim=-1))))
    torch.testing.assert_close(logits, model(ids, mask).logits)
    logits.square().sum().backward()
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(ours[name], p.grad, msg=name)
    assert "frozen.weight" not in ours
    assert "trained.weight" in ours


def test_the_recurrences_gradient_is_right() -> None:
    gates = torch.randn(2, 3, 4, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 2, 8, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([3, 1, 2, 3])
    assert torch.autograd.gradcheck(lambda g, w: last_states(g, w, lengths), (gates, weight))


def test_a_pair_is_split_by_type_ids_and_read_by_one_encoder() -> None:
    model = student(pair=True)
    ids, types = torch.tensor([[2, 3, 4, 5]]), torch.tensor([[0, 0, 0, 1]])
    h1, h2 = (model._encode(x, torch.tensor([x.shape[1]])) for x in (ids[:, :3], ids[:, 3:]))
    features = torch.cat([h1, h2, h1 * h2, (h1 - h2).abs()], dim=-1)
    expected = model.out(torch.relu(model.wide(features)))
    found = model(ids, torch.ones_like(ids), types).logits
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("pair", [False, True])
def test_empty_texts_read_as_one_unknown_word(pair: bool) -> None:
    model = student(pair=pair)
    unknown = model(
        torch.tensor([[1, 1]]) if pair else torch.tensor([[1]]),
        token_type_ids=(torch.tensor([[0, 1]]) if pair else None),
    ).logits
    torch.testing.assert_close(model(torch.zeros(1, 3)).logits, unknown)
    torch.testing.assert_close(model(torch.zeros(1, 0)).logits, unknown)


def test_a_regression_has_one_output_and_a_squared_loss() -> None:
    model = student(num_labels=1, problem_type="regression")
    ids, mask = batch()
    found = model(ids, mask, labels=torch.ones(5))
    assert found.logits.shape == (5, 1)
    torch.testing.assert_close(found.loss, (found.logits[:, 0] - 1).square().mean())


def test_one_channel_is_trained() -> None:
    model = student(channels=1)
    assert model.frozen is None
    assert model.trained.weight.requires_grad


def test_flops_are_twice_the_products() -> None:
    model = student(dims=300, hidden=150, head=200, channels=2)
    per_word = 2 * 4 * 150 * (600 + 150)
    assert model.flops(10) == 2 * (10 * per_word + 300 * 200 + 200 * 2)
