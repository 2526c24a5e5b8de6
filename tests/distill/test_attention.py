"""Laws of the capture: its scores are the model's own, and the model stays what it was."""

import json
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import CheckpointError
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    AutoModelForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
)
from transformers.integrations import sdpa_attention

from distill.attention import NAME, capturing
from distill.errors import StageError
from tests.distill.encoders import FAMILIES, SIZES, batch, bert, family

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]


def double(name: str) -> Any:
    # ModernBERT's own eager attention gives NaN in float64, where its -inf is another number.
    return family(name) if name == "modernbert" else family(name).double()


def frozen_dropout(name: str) -> Any:
    """A model in training mode without dropout, so that two passes can be compared."""
    model = family(name).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def checkpointed(model: Any, *, reentrant: bool = False) -> Any:
    model.activation_checkpointing_enable(
        activation_checkpointing_kwargs={"use_reentrant": reentrant}
    )
    return model


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_masked_and_softmaxed_the_scores_are_eager_attentions(name: str, padded: bool) -> None:
    model, inputs = double(name), batch(padded=padded)
    with torch.no_grad():
        with capturing(model, attention=[1, 2, 3, 4], hidden=range(5)) as capture:
            states = capture(inputs)
        model.set_attn_implementation("eager")
        eager = model(**inputs, output_attentions=True, output_hidden_states=True)
    real = inputs["attention_mask"].bool()
    for layer, scores in states.attention.items():
        seen = real[:, None, None, :] & torch.ones_like(scores, dtype=torch.bool)
        if name == "modernbert":  # every other of its layers looks at a window alone
            seen = seen & ((eager.attentions[layer - 1] > 0) | ~real[:, None, :, None])
        found = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(dim=-1)
        pick = real[:, None, :].expand(scores.shape[:3])
        torch.testing.assert_close(found[pick], eager.attentions[layer - 1][pick])
    for layer, hidden in states.hidden.items():
        torch.testing.assert_close(hidden[real], eager.hidden_states[layer][real])
    assert states.logits is not None
    torch.testing.assert_close(states.logits, eager.logits)


@pytest.mark.parametrize("name", ["bert", "mobilebert"])
def test_scores_are_the_products_before_the_mask_is_added(name: str) -> None:
    model = family(name)
    with torch.no_grad(), capturing(model, attention=[1]) as capture:
        scores = capture(batch()).attention[1]
    assert scores.abs().max() < 1e4


@pytest.mark.parametrize("name", FAMILIES)
def test_padding_is_not_attended_to(name: str) -> None:
    model, inputs = double(name), batch()
    with torch.no_grad(), capturing(model, attention=[2, 4], hidden=[4]) as capture:
        together = capture(inputs)
        for row, length in enumerate([9, 6, 3]):
            alone = capture({key: value[row : row + 1, :length] for key, value in inputs.items()})
            for layer, scores in alone.attention.items():
                of_row = together.attention[layer][row, :, :length, :length]
                torch.testing.assert_close(of_row, scores[0])
            torch.testing.assert_close(together.hidden[4][row, :length], alone.hidden[4][0])


def test_a_mask_of_numbers_is_added() -> None:
    model, inputs = family("bert"), batch()
    least = torch.finfo(torch.float32).min
    added = (1 - inputs["attention_mask"][:, None, None, :].float()) * least
    with torch.no_grad(), capturing(model, attention=[2, 4]) as capture:
        plain = capture(inputs)
        other = capture(inputs | {"attention_mask": added.expand(3, 1, 9, 9)})
    torch.testing.assert_close(other.logits, plain.logits)
    torch.testing.assert_close(other.attention[4][:, :, 0], plain.attention[4][:, :, 0])


def test_only_mapped_layers_are_kept() -> None:
    model = family("bert")
    with torch.no_grad(), capturing(model, attention=[4, 2], hidden=[0, 3]) as capture:
        states = capture(batch())
        raw = model(**batch(), output_attentions=True, output_hidden_states=[0, 3])
    assert list(states.attention) == [2, 4]
    assert list(states.hidden) == [0, 3]
    assert len(raw.attentions) == 2
    assert [h is not None for h in raw.hidden_states] == [True, False, False, True, False]


def test_hidden_state_zero_is_the_embeddings_output() -> None:
    model = family("bert")
    with torch.no_grad(), capturing(model, hidden=[0]) as capture:
        states = capture(batch())
        assert model.config._attn_implementation == "sdpa"  # no scores asked for, none made
        expected = model.bert.embeddings(batch()["input_ids"])
    torch.testing.assert_close(states.hidden[0], expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("name", ["bert", "mobilebert", "distilbert"])
def test_checkpointing_changes_neither_scores_nor_gradients(
    name: str, half: bool, device: str
) -> None:
    found = []
    for model in (frozen_dropout(name), checkpointed(frozen_dropout(name))):
        model.to(device)
        with capturing(model, attention=[2, 4], hidden=[0, 2, 4]) as capture:
            with torch.autocast(device, torch.bfloat16, enabled=half):
                states = capture(batch(device=device))
            values = [*states.attention.values(), *states.hidden.values()]
            assert all(value.requires_grad for value in values)
            torch.stack([value.float().square().mean() for value in values]).sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert any(
            "query" in n or "q_lin" in n for n, p in model.named_parameters() if p.grad is not None
        )
        found.append([*values, *gradients])
    assert len(found[0]) == len(found[1])
    for plain, again in zip(*found, strict=True):
        torch.testing.assert_close(plain, again)


def test_the_scores_gradient_reaches_query_and_key_and_no_later_layer() -> None:
    model = checkpointed(frozen_dropout("bert"))
    with capturing(model, attention=[3]) as capture:
        capture(batch()).attention[3].square().sum().backward()
    layers = model.bert.encoder.layer
    assert layers[2].attention.self.query.weight.grad.abs().sum() > 0
    assert layers[2].attention.self.key.weight.grad.abs().sum() > 0
    assert layers[0].output.dense.weight.grad.abs().sum() > 0
    assert layers[2].attention.self.value.weight.grad is None
    assert layers[3].attention.self.query.weight.grad is None


def test_reentrant_checkpointing_is_refused() -> None:
    model = checkpointed(frozen_dropout("bert"), reentrant=True)
    with capturing(model, attention=[2]) as capture, pytest.raises(StageError, match="reentrant"):
        model.bert.embeddings.requires_grad_(True)
        capture(batch())


def test_scores_of_frozen_layers_need_no_gradient() -> None:
    model = frozen_dropout("bert").requires_grad_(False)
    with capturing(model, attention=[1]) as capture:
        assert not capture(batch()).attention[1].requires_grad


def test_scores_that_fail_to_come_are_an_error() -> None:
    model = family("bert")
    with capturing(model, attention=[2]) as capture:
        model.set_attn_implementation("sdpa")  # which returns an empty tuple and says nothing
        with pytest.raises(StageError, match="0 layers gave attention scores, 1 were asked for"):
            capture(batch())


@pytest.mark.parametrize("before", ["sdpa", "eager"])
def test_the_model_is_restored_even_after_an_error(before: str) -> None:
    model = family("bert")
    model.set_attn_implementation(before)
    known = [dict(vars(module)) for module in model.modules()]
    with pytest.raises(ZeroDivisionError), capturing(model, attention=[1]):
        raise ZeroDivisionError
    assert model.config._attn_implementation == before
    assert [vars(module).keys() for module in model.modules()] == [one.keys() for one in known]


def test_a_model_saved_meanwhile_names_no_foreign_implementation(tmp_path: Any) -> None:
    model = family("bert")
    with torch.no_grad(), capturing(model, attention=[1]) as capture:
        logits = capture(batch()).logits
        model.save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text()
    assert NAME not in text
    assert not any(key.startswith(("_attn", "attn", "output_att")) for key in json.loads(text))
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert loaded.config._attn_implementation == "sdpa"
    with torch.no_grad():
        torch.testing.assert_close(loaded(**batch()).logits, logits)


def test_two_models_with_one_config_are_refused() -> None:
    teacher = bert()
    student = type(teacher)(teacher.config)
    with capturing(teacher, attention=[1]), pytest.raises(StageError, match="share one config"):
        capturing(student, attention=[1]).__enter__()
    with capturing(teacher, attention=[1]), capturing(bert(), attention=[1]):
        pass


def test_layers_that_are_not_there_are_refused() -> None:
    with pytest.raises(StageError, match="has layers 1 to 4, layer 0, 5 was asked for"):
        capturing(bert(), attention=[5, 0]).__enter__()
    with pytest.raises(StageError, match="has layers 0 to 4, layer 5"):
        capturing(bert(), hidden=[5]).__enter__()


def test_families_that_cannot_be_captured_are_named(caplog: pytest.LogCaptureFixture) -> None:
    shared = AlbertForSequenceClassification(AlbertConfig(**SIZES, embedding_size=16))
    with pytest.raises(StageError, match="1 separate attention layers"):
        capturing(shared, attention=[1]).__enter__()
    other = DebertaV2ForSequenceClassification(DebertaV2Config(**SIZES)).eval()
    with pytest.raises(StageError, match="match hidden states alone"):
        capturing(other, attention=[1]).__enter__()
    with torch.no_grad(), capturing(other, hidden=[2]) as capture:
        assert capture(batch()).hidden[2].shape == (3, 9, 24)


def test_the_forward_may_go_through_a_wrapper() -> None:
    model = family("bert")
    calls = []

    def wrapper(**inputs: Any) -> Any:
        calls.append(sorted(inputs))
        return model(**inputs)

    with torch.no_grad(), capturing(model, attention=[1], hidden=[1]) as capture:
        torch.testing.assert_close(
            capture(batch(), through=wrapper).attention[1], capture(batch()).attention[1]
        )
    assert len(calls) == 1


def test_unmapped_layers_draw_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(sdpa_attention.logger, "warning_once", said.append)
    with torch.no_grad(), capturing(family("bert"), attention=[1]) as capture:
        capture(batch())
    assert not said


def test_backward_outside_the_block_is_loud_under_checkpointing() -> None:
    model = checkpointed(frozen_dropout("bert"))
    with capturing(model, attention=[2]) as capture:
        scores = capture(batch()).attention[2]
    with pytest.raises(CheckpointError):
        scores.sum().backward()


@pytest.mark.parametrize("reader", ["train", "eval"])
def test_a_row_of_padding_alone_stays_finite(reader: str) -> None:
    model = getattr(family("bert"), reader)()
    inputs = batch()
    inputs["attention_mask"][2] = 0
    with capturing(model, attention=[1, 4]) as capture:
        states = capture(inputs)
    assert all(scores.isfinite().all() for scores in states.attention.values())
    assert states.logits is not None
    assert states.logits.isfinite().all()
