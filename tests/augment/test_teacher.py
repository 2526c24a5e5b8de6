"""The teacher: a real, tiny BERT gives the same text the same bits, and its identity is its content."""

import json
import shutil
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import augment as A
from augment.errors import ResourceError
from augment.labelling import Labelling
from augment.machine import has_bf16, resolve, rows_per_batch
from augment.settings import model_folder
from augment.teacher import Teacher
from tests.augment.corpus_rows import HARD_TEXTS, QUESTIONS, REVIEWS
from tests.augment.tiny import save_classifier, tokenizer

CHAIN = A.Mask(0.2) >> A.SampleNGram(0.3)
TEXTS = [*(r["text"] for r in REVIEWS), *HARD_TEXTS]
BF16 = pytest.mark.skipif(not has_bf16(), reason="no bf16 here")
VINO = pytest.mark.skipif(not find_spec("openvino"), reason="the extra openvino is not installed")
WAYS = [
    pytest.param({"precision": "fp32", "runtime": "torch"}, id="fp32"),
    pytest.param({"precision": "bf16", "runtime": "torch"}, id="bf16", marks=BF16),
    pytest.param({"precision": "fp32", "runtime": "openvino"}, id="openvino-fp32", marks=VINO),
    pytest.param(
        {"precision": "bf16", "runtime": "openvino"}, id="openvino-bf16", marks=[BF16, VINO]
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("teacher"))


def load(folder: Path, precision: str = "fp32", **options: Any) -> Teacher:
    return Teacher.from_pretrained(str(folder), precision=precision, threads=1, **options)


def logits_of(teacher: Teacher, *columns: list[str]) -> np.ndarray:
    out = np.full((len(columns[0]), max(1, len(teacher.classes))), np.nan, np.float32)
    for rows, logits in teacher.logits(columns):
        assert np.isnan(out[rows]).all(), "every row has one turn"
        out[rows] = logits
    assert np.isfinite(out).all(), "every row has its turn"
    return out


@pytest.mark.parametrize("way", WAYS)
def test_what_else_is_labelled_along_changes_no_bit(folder: Path, way: dict[str, Any]) -> None:
    teacher = load(folder, **way)
    texts = [t + " more" * (i % 3) for i in range(4) for t in TEXTS]
    whole = logits_of(teacher, texts)
    assert whole.std() > 0.1, "logits of different texts differ"
    order = np.random.default_rng(1).permutation(len(texts))
    assert logits_of(teacher, [texts[i] for i in order]).tobytes() == whole[order].tobytes()
    for first, last in ((0, 1), (1, 60), (60, len(texts))):
        assert logits_of(teacher, texts[first:last]).tobytes() == whole[first:last].tobytes()


@pytest.mark.parametrize("way", WAYS[::2])
def test_logits_agree_with_the_plain_model(folder: Path, way: dict[str, Any]) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    teacher = load(folder, **way)
    words = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = words(TEXTS, padding=True, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        plain = model(**inputs).logits.numpy()
    assert np.abs(logits_of(teacher, TEXTS) - plain).max() < 1e-4


def test_a_runtime_that_is_not_installed_says_how_to_get_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ResourceError, match=r'pip install "transferset\[openvino\]"'):
        load(folder, runtime="openvino")


@VINO
def test_a_runtime_whose_logits_differ_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from augment import runtimes

    monkeypatch.setattr(runtimes, "_distance", lambda *a: 0.5)
    with pytest.raises(ResourceError, match=r'differ from torch.*set runtime = "torch"'):
        load(folder, runtime="openvino")


@VINO
def test_a_runtime_is_part_of_who_the_teacher_is(folder: Path) -> None:
    assert load(folder).identity != load(folder, runtime="openvino").identity


@VINO
def test_openvino_reports_its_use_to_no_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = pytest.importorskip("openvino_telemetry")
    opened: list[object] = []
    monkeypatch.setattr(telemetry, "Telemetry", lambda *a, **k: opened.append(a))
    load(folder, runtime="openvino")
    assert opened == []


def test_a_pair_is_read_jointly(folder: Path) -> None:
    teacher = load(folder)
    first, second = ([r[c] for r in QUESTIONS] for c in ("first", "second"))
    joint = logits_of(teacher, first, second)
    assert not np.allclose(joint, logits_of(teacher, second, first))
    assert not np.allclose(
        joint, logits_of(teacher, [a + b for a, b in zip(first, second, strict=True)])
    )
    whole = logits_of(teacher, first[3:], second[3:])
    assert whole.tobytes() == joint[3:].tobytes()


def test_no_texts_get_no_logits(folder: Path) -> None:
    assert list(load(folder).logits([[]])) == []


def test_the_placeholder_is_read_as_the_teachers_own_mask(tmp_path: Path) -> None:
    save_classifier(tmp_path)
    words = tokenizer(extra=("<mask>",), mask_token="<mask>")
    words.save_pretrained(tmp_path)
    teacher = load(tmp_path)
    masked = teacher._encode([["a [MASK] film"]])["input_ids"][0]
    assert words.mask_token_id in masked
    assert (
        logits_of(teacher, ["a [MASK] film"]).tolist()
        == logits_of(teacher, ["a <mask> film"]).tolist()
    )


def test_long_texts_are_cut_to_the_tokens_asked_for_and_to_what_the_model_takes(
    folder: Path,
) -> None:
    long = "good bad " * 100
    assert load(folder, max_tokens=512).max_tokens == 64
    short = load(folder, max_tokens=16)
    assert len(short._encode([[long]])["input_ids"][0]) == 16
    same = logits_of(short, [long, long + "and an end that is cut"])
    assert same[0].tobytes() == same[1].tobytes()


def test_threads_are_put_back_after_labelling(folder: Path) -> None:
    import torch

    before = torch.get_num_threads()
    logits_of(load(folder), TEXTS[:3])
    assert torch.get_num_threads() == before


def test_the_number_of_rows_in_a_batch_follows_from_their_length_alone() -> None:
    lengths = (1, 12, 13, 24, 25, 128, 5000)
    assert [rows_per_batch(n) for n in lengths] == [64, 64, 32, 32, 16, 4, 4]
    assert [rows_per_batch(n, "cuda") for n in lengths] == [1024, 1024, 1024, 1024, 1024, 256, 4]


def test_precision_is_what_was_asked_or_what_the_hardware_has() -> None:
    assert resolve("fp32") == "fp32"
    assert resolve("auto") == ("bf16" if has_bf16() else "fp32")


def test_regressors_have_no_classes(tmp_path: Path) -> None:
    assert load(save_classifier(tmp_path, ("score",))).classes == ()


# Identity.


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def new_weights(folder: Path) -> dict[str, Any]:
    save_classifier(folder, seed=1)
    return {}


def one_weight(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.bias"][0] += 1e-6
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return {}


def new_tokenizer(folder: Path) -> dict[str, Any]:
    tokenizer(extra=("ing", "##ing")).save_pretrained(folder)
    return {}


def new_mask_token(folder: Path) -> dict[str, Any]:
    # Same pieces, but the placeholder now reads as another one of them.
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"mask_token": "[UNK]"}), encoding="utf-8")
    return {}


def new_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"hidden_act": "relu"}), encoding="utf-8")
    return {}


def new_class_order(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    turned = {"id2label": {"0": "1", "1": "0"}, "label2id": {"1": 0, "0": 1}}
    path.write_text(json.dumps(config | turned), encoding="utf-8")
    return {}


CHANGES: list[Callable[[Path], dict[str, Any]]] = [
    new_weights,
    one_weight,
    new_tokenizer,
    new_mask_token,
    new_config,
    new_class_order,
    lambda folder: {"max_tokens": 32},
]


@pytest.mark.parametrize(
    "change", CHANGES, ids=lambda c: c.__name__.replace("<lambda>", "max_tokens")
)
def test_what_changes_a_logit_changes_the_identity(
    folder: Path, tmp_path: Path, change: Callable[[Path], dict[str, Any]]
) -> None:
    there = copy(folder, tmp_path / "teacher")
    before = load(there).identity
    options = change(there)
    assert load(there, **options).identity != before


def test_a_copied_or_renamed_teacher_is_the_same_teacher(folder: Path, tmp_path: Path) -> None:
    assert load(copy(folder, tmp_path / "renamed")).identity == load(folder).identity


def test_a_limit_beyond_the_models_own_is_the_same_teacher(folder: Path) -> None:
    assert load(folder, max_tokens=64).identity == load(folder, max_tokens=500).identity


def test_using_a_teacher_does_not_change_who_it_is(folder: Path) -> None:
    teacher = load(folder, max_tokens=8)
    logits_of(teacher, TEXTS)
    assert load(folder, max_tokens=8).identity == teacher.identity


# Labelling with it.


@pytest.fixture
def label(tmp_path: Path, own_store: Path, shared_store: Path) -> Callable[..., Labelling]:
    options = {"label": "label", "copies": 3, "seed": 7, "store": shared_store}
    made = A.build(REVIEWS, CHAIN, out=tmp_path / "set", shard_rows=50, **options)

    def labeller(folder: Path, name: str, **options: Any) -> Labelling:
        options = {"threads": 1, "precision": "fp32"} | options
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the teacher is right on")
            return A.label(options.pop("set", made.path), str(folder), tmp_path / name, **options)

    return labeller


def bits(done: Labelling) -> dict[str, bytes]:
    rows = done.set.read("train").to_pylist()
    return {r["text"]: np.float32(r["logits"]).tobytes() for r in rows}


@pytest.mark.parametrize("way", WAYS)
def test_another_order_a_partial_store_and_other_windows_give_the_same_bits(
    folder: Path, label: Any, tmp_path: Path, way: dict[str, Any]
) -> None:
    options = way
    straight = label(folder, "straight", **options)
    windows = label(folder, "windows", window=60, store=tmp_path / "s1", **options)
    assert windows.asked == straight.asked == straight.texts
    assert windows.set.manifest.digest == straight.set.manifest.digest

    backwards = [r | {"label": r["label"]} for r in reversed(REVIEWS)]
    ids = {"label": "label", "copies": 2, "seed": 7, "id": "id"}
    other = A.build(backwards, CHAIN, out=tmp_path / "backwards", **ids)
    partial = label(folder, "partial", set=other.path, store=tmp_path / "s2", window=70, **options)
    rest = label(folder, "rest", store=tmp_path / "s2", **options)
    assert 0 < rest.known < rest.texts, "the store knew a part"
    assert bits(rest) == bits(straight)
    assert {t: b for t, b in bits(partial).items() if t in bits(straight)}.items() <= bits(
        straight
    ).items()
    assert rest.set.manifest.digest == straight.set.manifest.digest


def test_the_second_labelling_makes_no_call_of_the_model(
    folder: Path, label: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import BertForSequenceClassification as Bert

    calls = []
    forward = Bert.forward
    monkeypatch.setattr(Bert, "forward", lambda *a, **k: calls.append(1) or forward(*a, **k))
    first = label(folder, "first")
    assert calls
    calls.clear()
    second = label(folder, "second")
    assert calls == []
    assert second.known == second.texts == first.asked


def test_class_orders_are_checked_for_real_teachers(label: Any, tmp_path: Path) -> None:
    from augment.errors import TeacherError

    named = save_classifier(tmp_path / "named", ("good", "bad"))
    made = A.build(
        REVIEWS, CHAIN, out=tmp_path / "n", label="label", classes=["bad", "good"], copies=1
    )
    with pytest.raises(
        TeacherError, match=r"orders its labels \(good, bad\), the corpus \(bad, good\)"
    ):
        label(named, "refused", set=made.path)
    turned = label(named, "turned", set=made.path, label_map="by-name").set
    texts = turned.read("train")["text"].to_pylist()
    plain = logits_of(load(named), texts)
    assert turned.read("train")["logits"].to_pylist() == plain[:, ::-1].tolist()


def test_absent_and_untrained_teachers_say_what_to_do(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ResourceError, match=r"cannot be loaded: .*hf download"):
        load(tmp_path / "nothing")
    bare = copy(folder, tmp_path / "bare")
    from safetensors.torch import load_file, save_file

    tensors = load_file(bare / "model.safetensors")
    kept = {k: v for k, v in tensors.items() if not k.startswith("classifier")}
    save_file(kept, bare / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ResourceError, match="is no trained classifier .*fine-tune it first"):
        load(bare)


def test_a_model_inside_a_package_is_found_by_the_packages_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_teacher" / "data").mkdir(parents=True)
    (tmp_path / "some_teacher" / "__init__.py").touch()
    (tmp_path / "empty_package").mkdir()
    (tmp_path / "empty_package" / "__init__.py").touch()
    copy(folder, tmp_path / "some_teacher" / "data" / "model")
    monkeypatch.syspath_prepend(tmp_path)
    found = model_folder("package:some_teacher")
    assert found == str(tmp_path / "some_teacher" / "data" / "model")
    with pytest.raises(ResourceError, match="pip install no-such-package"):
        model_folder("package:no_such_package")
    with pytest.raises(ResourceError, match=r"holds no config\.json"):
        model_folder("package:empty_package")
    assert model_folder("org/name") == "org/name"


def test_a_teacher_without_safetensors_is_refused(folder: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    pickled = copy(folder, tmp_path / "pickled")
    torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    with pytest.raises(ResourceError, match="cannot be loaded"):
        load(pickled)
