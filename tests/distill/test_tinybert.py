"""Laws of TinyBERT's students: the paper's sizes, where their weights start, how they are saved."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    RobertaConfig,
    pipeline,
)

from distill.cost import count, flops
from distill.errors import StudentError
from distill.layers import spread
from distill.students.tinybert import SIZES, Shape, start_from_folder, start_from_layers, tinybert
from tests.distill.encoders import SIZES as TINY
from tests.distill.encoders import mobilebert

BASE = Shape(12, 768, 3072, 12)
SMALL = Shape(2, 24, 32, 4)
CLASSES = ("negative", "positive")


def made(shape: Shape = SMALL, **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "classes": CLASSES,
        "problem": "single_label_classification",
        "seed": 0,
    }
    return tinybert(shape, **settings | changes)


def student(seed: int = 0, **changes: Any) -> Any:
    return made(teacher=BertConfig(**TINY), seed=seed, **changes)


def teacher(**changes: Any) -> Any:
    torch.manual_seed(5)
    names = {
        "id2label": dict(enumerate(CLASSES)),
        "label2id": {n: i for i, n in enumerate(CLASSES)},
    }
    return BertForSequenceClassification(BertConfig(**TINY | names | changes))


def same(one: Any, other: Any) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)


def unfilled(shape: Shape) -> Any:
    """A student of full size whose weights are never drawn, which would take seconds."""
    with torch.device("meta"):
        model = made(shape)
    model.to_empty(device="cpu")
    model.bert.embeddings.position_ids.copy_(torch.arange(512)[None])
    model.bert.embeddings.token_type_ids.zero_()
    return model.eval()


# Two operations a multiply-add, products alone, at length 128: the paper's 1.2 B, 11.3 B, 22.5 B.
@pytest.mark.parametrize(
    ("shape", "millions", "billions"),
    [(SIZES[4], 14.35, 1.2), (SIZES[6], 66.96, 11.3), (BASE, 109.48, 22.5)],
    ids=["tinybert-4", "tinybert-6", "bert-base"],
)
def test_sizes_and_operations_are_the_papers(
    shape: Shape, millions: float, billions: float
) -> None:
    model = unfilled(shape)
    assert round(count(model)[0] / 1e6, 2) == millions
    assert flops(model, 128) / 1e9 == pytest.approx(billions, rel=0.05)
    tokens, width = 128, shape.hidden
    a_token = 4 * width**2 + 2 * width * shape.intermediate + 2 * tokens * width
    head = width**2 + 2 * width
    assert flops(model, 128) == 2 * (shape.layers * tokens * a_token + head)


def test_attention_counts_however_it_is_computed() -> None:
    model = student().eval()
    fused = flops(model, 30)
    model.set_attn_implementation("eager")
    assert flops(model, 30) == fused


def test_the_same_seed_gives_the_same_weights_and_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, second, other = student(), student(), student(seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(first, second)
    assert not same(first, other)


def test_the_vocabulary_is_the_teachers_or_a_tokenizers(encoder: Path) -> None:
    config = student().config
    assert (config.vocab_size, config.max_position_embeddings) == (50, 40)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    other = student(tokenizer=tokenizer).config
    assert (other.vocab_size, other.pad_token_id) == (len(tokenizer), tokenizer.pad_token_id)
    assert made(SMALL).config.vocab_size == 30522


def test_only_a_berts_activation_is_taken_over() -> None:
    assert student().config.hidden_act == "gelu"
    assert made(teacher=BertConfig(**TINY, hidden_act="relu")).config.hidden_act == "relu"
    assert made(teacher=mobilebert().config).config.hidden_act == "gelu"


def test_a_regression_has_one_output() -> None:
    model = student(classes=(), problem="regression")
    assert (model.config.num_labels, model.config.id2label) == (1, {0: "score"})


def test_a_shape_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden is a multiple of heads, got 30 and 4 heads"):
        Shape(2, 30, 32, 4)
    with pytest.raises(ValueError, match="layers is a count of at least 1, got 0"):
        Shape(0, 24, 32, 4)


@pytest.mark.parametrize("layers", [(2, 4), (1, 2), (4, 1)])
def test_chosen_layers_are_copied_exactly(layers: tuple[int, int]) -> None:
    source, model = teacher(), student()
    start_from_layers(model, source, layers)
    for block, layer in zip(model.bert.encoder.layer, layers, strict=True):
        assert same(block, source.bert.encoder.layer[layer - 1])
        others = [other for i, other in enumerate(source.bert.encoder.layer, 1) if i != layer]
        assert not any(same(block, other) for other in others)
    assert same(model.bert.embeddings, source.bert.embeddings)
    assert same(model.bert.pooler, source.bert.pooler)
    assert same(model.classifier, source.classifier)


def test_copied_weights_are_the_students_own() -> None:
    source, model = teacher(), student()
    start_from_layers(model, source, spread(2, 4))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert same(source, teacher())


def test_all_layers_copied_make_the_teacher() -> None:
    source, model = teacher().eval(), student(shape=Shape(4, 24, 32, 4)).eval()
    start_from_layers(model, source, spread(4, 4))
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, source(ids).logits, rtol=0, atol=0)


def test_a_classifier_of_other_classes_is_not_copied() -> None:
    swapped = {
        "id2label": {0: "positive", 1: "negative"},
        "label2id": {"positive": 0, "negative": 1},
    }
    model, before = student(), student()
    start_from_layers(model, teacher(**swapped), (1, 2))
    assert same(model.classifier, before.classifier)
    bare = BertModel(BertConfig(**TINY), add_pooling_layer=False)
    start_from_layers(model, bare, (1, 2))
    assert same(model.bert.embeddings, bare.embeddings)


@pytest.mark.parametrize(
    ("source", "layers", "words"),
    [
        (lambda: teacher(hidden_size=48), (1, 2), r"hidden_size 48 \(the student: 24\)"),
        (lambda: teacher(intermediate_size=40), (1, 2), "intermediate_size 40"),
        (lambda: teacher(num_attention_heads=2), (1, 2), "num_attention_heads 2"),
        (lambda: teacher(vocab_size=51), (1, 2), r"vocab_size 51 \(the student: 50\)"),
        (mobilebert, (1, 2), "a mobilebert, whose weights do not fit"),
        (teacher, (1, 2, 3), r"layers \[1, 2, 3\] cannot fill a student of 2"),
        (teacher, (0, 2), "list 2 teacher layers of 1 to 4"),
        (teacher, (2, 5), "list 2 teacher layers of 1 to 4"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_with_the_reason(
    source: Any, layers: tuple[int, ...], words: str
) -> None:
    model, before = student(), student()
    with pytest.raises(StudentError, match=words):
        start_from_layers(model, source(), layers)
    assert same(model, before)


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM, BertForSequenceClassification])
def test_a_student_starts_from_any_folder_of_its_shape(kind: Any, tmp_path: Path) -> None:
    saved = kind(BertConfig(**TINY | {"num_hidden_layers": 2}, num_labels=3))
    saved.save_pretrained(tmp_path)
    model, before = student(), student()
    state = torch.get_rng_state()
    start_from_folder(model, tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    assert same(model.bert.embeddings, saved.base_model.embeddings)
    assert same(model.bert.encoder, saved.base_model.encoder)
    assert same(model.classifier, before.classifier)
    pooled = before if kind is BertForMaskedLM else saved
    assert same(model.bert.pooler, pooled.base_model.pooler)


def test_a_folder_that_does_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(StudentError, match="no transformers model to start from"):
        start_from_folder(student(), tmp_path / "nothing")
    teacher().save_pretrained(tmp_path / "deep")
    with pytest.raises(StudentError, match=r"num_hidden_layers 4 \(the student: 2\)"):
        start_from_folder(student(), tmp_path / "deep")
    RobertaConfig(**TINY).save_pretrained(tmp_path / "other")
    with pytest.raises(StudentError, match="a roberta"):
        start_from_folder(student(), tmp_path / "other")
    student().save_pretrained(tmp_path / "torn")
    weights = load_file(tmp_path / "torn" / "model.safetensors")
    del weights["bert.encoder.layer.1.output.dense.bias"]
    save_file(weights, tmp_path / "torn" / "model.safetensors", {"format": "pt"})
    with pytest.raises(StudentError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        start_from_folder(student(), tmp_path / "torn")
    (tmp_path / "torn" / "model.safetensors").unlink()
    with pytest.raises(StudentError, match="the weights cannot be read"):
        start_from_folder(student(), tmp_path / "torn")


def saved(encoder: Path, folder: Path) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = made(tokenizer=tokenizer).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def test_a_saved_student_is_a_plain_folder(encoder: Path, tmp_path: Path) -> None:
    model = saved(encoder, tmp_path / "student")
    config = json.loads((tmp_path / "student" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["model_type"] == "bert"
    assert not {"auto_map", "attn_implementation", "_attn_implementation"} & config.keys()
    classify = pipeline("text-classification", model=str(tmp_path / "student"), device="cpu")
    found = classify("a good film", top_k=None)
    assert {entry["label"] for entry in found} == set(CLASSES)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "student")
    with torch.no_grad():
        chances = model(**tokenizer("a good film", return_tensors="pt")).logits.softmax(dim=-1)[0]
    scores = {entry["label"]: entry["score"] for entry in found}
    assert [scores[name] for name in CLASSES] == pytest.approx(chances.tolist(), rel=1e-5)


@pytest.mark.slow
def test_a_saved_student_needs_nothing_of_this_library(encoder: Path, tmp_path: Path) -> None:
    saved(encoder, tmp_path / "student")
    script = (
        "import sys\n"
        "sys.modules['distill'] = sys.modules['augment'] = None\n"
        "from transformers import pipeline\n"
        f"print(pipeline('text-classification', {str(tmp_path / 'student')!r})('a good film'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "positive" in done.stdout or "negative" in done.stdout
