"""Laws of a transformer student's stages: what they need, what they match, what they leave."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
)
from typer.testing import CliRunner

import distill as D
from augment.errors import SettingsError
from augment.settings import TeacherSettings
from augment.transferset import Task, TransferSet, write_set
from distill import resume
from distill.attention import States, capturing
from distill.cli import app
from distill.errors import RunError, StageError, StudentError
from distill.examples import read_examples
from distill.hidden import Projections
from distill.layers import layer_map
from distill.matching import MatchingTrainer, run_matching
from distill.recipe import read
from distill.resume import STATE
from distill.stages import INSIDE, PREDICTION, TinyBERTSettings, TransformerStage
from distill.terms import Matching, captured
from distill.trainer import steps_of_epochs
from tests.distill.conftest import Killed, regression_rows, rows, same, weights

Make = Callable[..., TransferSet]
TWO = {"attention": 1.0, "hidden": 1.0, "embedding": 1.0}
SOFT = {"soft-cross-entropy": 1.0}


def small(teacher: Path, **changes: Any) -> TinyBERTSettings:
    settings: dict[str, Any] = {"layers": 2, "hidden": 8, "heads": 2, "dropout": 0.0}
    return TinyBERTSettings(**settings | {"teacher": str(teacher)} | changes)


def stage(**keys: Any) -> TransformerStage:
    settings: dict[str, Any] = {"steps": 10, "batch": 3, "learning_rate": 3e-3}
    return TransformerStage(**settings | keys)


def intermediate(**keys: Any) -> TransformerStage:
    return stage(**{"objectives": TWO} | keys)


def prediction(**keys: Any) -> TransformerStage:
    return stage(**{"objectives": SOFT, "evaluations": 2} | keys)


def losses(run: D.Run, number: int, name: str = "loss") -> list[float]:
    return [log[name] for log in run.record["history"][number]["history"] if name in log]


def test_a_prediction_stage_overfits_eight_rows(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    stages = [prediction(steps=60, batch=8, learning_rate=1e-2)]
    run = D.train(make_set(), student=small(teacher), stages=stages, out=tmp_path / "run")
    assert run.metrics["validation"]["accuracy"] == 1.0
    assert run.metrics["test"]["agreement"] == 1.0


def test_an_intermediate_stage_overfits_eight_rows(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    stages = [intermediate(steps=60, batch=8, learning_rate=1e-2, schedule="constant")]
    run = D.train(make_set(), student=small(teacher), stages=stages, out=tmp_path / "run")
    for name in TWO:
        first, *_, last = losses(run, 0, f"loss_{name}")
        assert last < 0.7 * first, name


def test_a_copy_of_the_teacher_has_nothing_to_learn_inside(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    # Dropout in the teacher, a shifted layer or another batch would each show as a loss.
    student = small(teacher, layers=4, hidden=None, heads=None, init="teacher")
    every = dict.fromkeys(INSIDE, 1.0)
    stages = [stage(objectives=every, steps=1, learning_rate=1e-12)]
    run = D.train(make_set(), student=student, stages=stages, out=tmp_path / "run")
    for name in INSIDE:
        assert losses(run, 0, f"loss_{name}") == [pytest.approx(0, abs=1e-6)], name


@pytest.mark.parametrize("name", [*INSIDE, *PREDICTION])
def test_weight_zero_removes_a_term(name: str, teacher: Path) -> None:
    sides = _sides(BertForSequenceClassification.from_pretrained(teacher).eval(), _batch())
    every = dict.fromkeys([*INSIDE, *PREDICTION], 2.0)
    assert sides.terms(every | {name: 0.0}).keys() == every.keys() - {name}
    layers = layer_map("uniform", student=2, teacher=4)
    assert captured({name: 0.0}, layers, side=1) == ([], [])


@pytest.mark.parametrize("name", ["attention", "logits-mse"])
def test_a_stage_without_a_term_is_the_stage_with_its_weight_zero(
    name: str, make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    other = "logits-mse" if name != "logits-mse" else "hard-cross-entropy"
    both = {name: 0.0, other: 2.0}
    made = make_set()
    for number, objectives in enumerate((both, {other: 2.0})):
        stages = [stage(objectives=objectives, steps=2)]
        run = D.train(made, student=small(teacher), stages=stages, out=tmp_path / str(number))
        assert not losses(run, 0, f"loss_{name}")
        assert losses(run, 0, f"loss_{other}")
    assert same(tmp_path / "0", tmp_path / "1")


def test_every_term_adds_its_weight_times_its_value(teacher: Path) -> None:
    model = BertForSequenceClassification.from_pretrained(teacher).eval()
    sides = _sides(model, _batch())
    every = dict.fromkeys([*INSIDE, *PREDICTION], 1.0)
    once = sides.terms(every)
    assert list(once) == [*INSIDE, *PREDICTION]
    thrice = sides.terms(dict.fromkeys(every, 3.0))
    assert all(torch.allclose(3 * once[name], thrice[name]) for name in every)
    assert all(values.shape == (2,) for values in once.values())


@pytest.mark.parametrize("name", [*INSIDE, *PREDICTION])
def test_padding_changes_no_term(name: str, teacher: Path) -> None:
    model = BertForSequenceClassification.from_pretrained(teacher).double().eval()
    plain = _sides(model, _batch()).terms({name: 1.0})[name]
    padded = _sides(model, _batch(padding=5)).terms({name: 1.0})[name]
    assert torch.allclose(plain, padded, rtol=1e-9)


def _batch(padding: int = 0) -> dict[str, torch.Tensor]:
    ids = torch.tensor([[2, 7, 8, 9, 3], [2, 6, 3, 0, 0]])
    ids = torch.nn.functional.pad(ids, (0, padding))
    targets = {"labels": torch.tensor([0, 1]), "logits": torch.tensor([[1.0, -1.0], [0.5, 2.0]])}
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), **targets}


def _sides(model: Any, batch: dict[str, torch.Tensor]) -> Matching:
    """The model as teacher of itself: layers 1 and 2 are matched with 2 and 4."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with capturing(model, attention=range(1, 5), hidden=range(5)) as capture:
        states = capture(inputs)
    mapping = layer_map("uniform", student=2, teacher=4)
    return Matching(states, batch, states, mapping, Projections(16, 16))


def test_layer_m_meets_the_teachers_layer_g_of_m() -> None:
    def states(scale: float) -> States:
        return States(
            {m: torch.full((1, 1, 1, 1), scale * m) for m in range(1, 7)},
            {m: torch.full((1, 1, 1), scale * m) for m in range(7)},
            None,
        )

    def terms(mapping: Any) -> dict[str, float]:
        layers = layer_map(mapping, student=3, teacher=6)
        batch = {"attention_mask": torch.ones(1, 1)}
        sides = Matching(states(1), batch, states(10), layers, Projections(1, 1))
        return {k: float(v) for k, v in sides.terms({"attention": 1, "hidden": 1}).items()}

    uniform = sum((m - 10.0 * 2 * m) ** 2 for m in (1, 2, 3))
    assert terms("uniform") == {"attention": uniform, "hidden": uniform}
    top = sum((m - 10.0 * (m + 3)) ** 2 for m in (1, 2, 3))
    assert terms("top") == {"attention": top, "hidden": top}
    assert terms([0, 0, 6]) == {"attention": 57.0**2, "hidden": 57.0**2}


def test_a_regression_matches_the_teachers_score(teacher: Path, tmp_path: Path) -> None:
    table = regression_rows()
    made = write_set(
        tmp_path / "set",
        train=table,
        held_out={"validation": table},
        task=Task("regression"),
        text=("text", "other"),
        teacher={"name": "oracle"},
    )
    matching = stage(objectives={"logits-mse": 1}, steps=120, batch=8, learning_rate=1e-2)
    run = D.train(made, student=small(teacher), stages=[matching], out=tmp_path / "run")
    assert run.metrics["validation"]["agreement"] > 0.95
    config = json.loads((run.path / "config.json").read_text())
    assert config["problem_type"] == "regression"
    with pytest.raises(StageError, match="no distribution .* logits-mse"):
        D.train(made, student=small(teacher), stages=[prediction()], out=tmp_path / "soft")


def test_the_prediction_stage_runs_with_the_teacher_deleted(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    made = make_set()
    first = D.train(made, student=small(teacher), stages=[intermediate()], out=tmp_path / "first")
    shutil.rmtree(teacher)
    student = TinyBERTSettings(init=str(first.path), dropout=0.0)
    second = D.train(made, student=student, stages=[prediction(steps=3)], out=tmp_path / "second")
    assert second.metrics["validation"]["agreement"] >= 0
    with pytest.raises(StudentError, match="no model to learn from"):
        D.train(made, student=student, stages=[intermediate()], out=tmp_path / "third")
    assert not (tmp_path / "third").exists()


# Ten steps a stage, a checkpoint after each step but a stage's last.
@pytest.mark.parametrize(
    "moments",
    [(5, 4, 3, 3), *(pytest.param((m,), marks=pytest.mark.slow) for m in (1, 9, 10))],
    ids=str,
)
def test_a_student_killed_in_either_stage_has_the_undisturbed_weights(
    moments: tuple[int, ...],
    make_set: Make,
    teacher: Path,
    tmp_path: Path,
    kill: Callable[[int], None],
) -> None:
    made = make_set(copies=1)
    settings = {"student": small(teacher, dropout=0.3), "stages": [intermediate(), prediction()]}
    calm = D.train(made, **settings, out=tmp_path / "calm")
    out = tmp_path / "run"
    for moment in moments:
        kill(moment)
        with pytest.raises(Killed):
            D.train(made, **settings, out=out)
        assert (out / STATE).exists()
    kill(10**9)
    run = D.train(made, **settings, out=out)
    assert same(run.path, calm.path)
    assert run.metrics == calm.metrics
    assert not (out / STATE).exists()


@pytest.mark.parametrize("moment", [10, pytest.param(14, marks=pytest.mark.slow)])
def test_a_run_killed_after_its_last_intermediate_stage_needs_no_teacher(
    moment: int, make_set: Make, teacher: Path, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    made = make_set()
    settings = {"student": small(teacher), "stages": [intermediate(), prediction()]}
    calm = D.train(made, **settings, out=tmp_path / "calm")
    kill(moment)
    with pytest.raises(Killed):
        D.train(made, **settings, out=tmp_path / "run")
    shutil.rmtree(teacher)
    kill(10**9)
    assert same(D.train(made, **settings, out=tmp_path / "run").path, calm.path)


def test_between_two_stages_nothing_is_lost(
    make_set: Make, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distill import curriculum

    made = make_set()
    settings = {"student": small(teacher), "stages": [intermediate(), prediction()]}
    calm = D.train(made, **settings, out=tmp_path / "calm")
    original = curriculum.run_matching

    def dying(*arguments: Any, **more: Any) -> Any:
        if arguments[2].predicts:
            raise Killed
        return original(*arguments, **more)

    monkeypatch.setattr(curriculum, "run_matching", dying)
    with pytest.raises(Killed):
        D.train(made, **settings, out=tmp_path / "run")
    monkeypatch.setattr(curriculum, "run_matching", original)
    shutil.rmtree(teacher)
    assert same(D.train(made, **settings, out=tmp_path / "run").path, calm.path)


def test_projections_are_trained_and_checkpointed_but_not_saved(
    make_set: Make, teacher: Path, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    made, out = make_set(), tmp_path / "run"
    kill(8)
    with pytest.raises(Killed):
        D.train(made, student=small(teacher), stages=[intermediate()], out=out)
    _, found = resume.read(out / STATE)
    before = Projections(8, 16).state_dict()
    for name in ("hidden.weight", "embeddings.weight"):
        assert not torch.equal(found[f"model.projections.{name}"], before[name])
    kill(10**9)
    run = D.train(made, student=small(teacher), stages=[intermediate()], out=out)
    plain = BertForSequenceClassification(BertConfig.from_pretrained(run.path))
    assert weights(run.path).keys() == plain.state_dict().keys()


def test_the_teacher_and_the_callers_randomness_stay_as_they_were(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    made = make_set()
    model = BertModel.from_pretrained(teacher)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tokens = AutoTokenizer.from_pretrained(teacher)
    rows = read_examples(made, "train", tokens, max_tokens=16)
    student = BertForSequenceClassification(
        BertConfig.from_pretrained(teacher, num_hidden_layers=2)
    )
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run_matching(student, rows, intermediate(steps=3), task=made.task, teacher=model, show=False)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.config._attn_implementation == student.config._attn_implementation == "sdpa"
    assert student.config is not model.config


@pytest.mark.parametrize("objectives", [TWO, SOFT, {"hidden": 1.0, "logits-mse": 1.0}])
def test_a_stage_trains_alike_inside_distributed_data_parallel(
    objectives: dict[str, float],
    make_set: Make,
    teacher: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It refuses parameters that are used outside of the wrapped forward, as projections might be,
    # and waits for those that come out of it and have no say in the loss, as the head.
    made, stages = make_set(), [stage(objectives=objectives, steps=3)]
    calm = D.train(made, student=small(teacher), stages=stages, out=tmp_path / "calm")
    plain = MatchingTrainer.terms
    wrapped: list[Any] = []

    def terms(self: Any, model: Any, inputs: Any) -> Any:
        if not wrapped:
            wrapped.append(DistributedDataParallel(model, find_unused_parameters=True))
        return plain(self, wrapped[0], inputs)

    monkeypatch.setattr(MatchingTrainer, "terms", terms)
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        run = D.train(made, student=small(teacher), stages=stages, out=tmp_path / "run")
    finally:
        torch.distributed.destroy_process_group()
    assert wrapped
    assert same(run.path, calm.path)


def test_of_processes_that_train_together_one_writes(
    make_set: Make, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What another one wrote might come before the first one claims the folder, or a finished
    # record before the first one's weights.
    monkeypatch.setenv("RANK", "1")
    made, stages = make_set(), [intermediate(steps=2), prediction(steps=2)]
    run = D.train(made, student=small(teacher), stages=stages, out=tmp_path / "run")
    settings = TeacherSettings(base=str(teacher), epochs=1.0, evaluations=1)
    taught = D.fine_tune(made, settings, out=tmp_path / "taught")
    assert run.metrics["test"]["rows"] == taught.metrics["test"]["rows"] == 8
    assert not run.path.exists()
    assert not taught.path.exists()


def test_processes_that_train_together_share_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps_of_epochs(3.0, 12, 2) == 18
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert steps_of_epochs(3.0, 12, 2) == 9


def test_both_stages_run_in_bf16(make_set: Make, teacher: Path, tmp_path: Path) -> None:
    stages = [
        intermediate(steps=60, batch=8, learning_rate=1e-2, precision="bf16"),
        prediction(steps=40, batch=8, learning_rate=1e-2, precision="bf16"),
    ]
    run = D.train(make_set(), student=small(teacher), stages=stages, out=tmp_path / "run")
    assert losses(run, 0)[-1] < losses(run, 0)[0]
    assert run.metrics["validation"]["accuracy"] == 1.0
    assert all(value.dtype == torch.float32 for value in weights(run.path).values())


def test_frozen_parts_stay_and_may_be_trained_again(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    stages = [prediction(freeze=("embeddings", "encoder"))]
    student = small(teacher, layers=4, hidden=None, heads=None, init="teacher")
    made = make_set()
    run = D.train(made, student=student, stages=stages, out=tmp_path / "run")
    mine, theirs = weights(run.path), weights(teacher)
    moved = {name.split(".")[1] for name in mine if not torch.equal(mine[name], theirs[name])}
    assert moved == {"pooler", "weight", "bias"}
    more = D.train(made, student=student, stages=[*stages, prediction()], out=tmp_path / "b")
    assert all(not torch.equal(w, theirs[name]) for name, w in weights(more.path).items())


@pytest.mark.parametrize(("init", "layers"), [("teacher", (2, 4)), ("teacher-first", (1, 2))])
def test_a_student_starts_from_the_teachers_layers(
    init: str, layers: tuple[int, int], make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    student = small(teacher, hidden=None, heads=None, init=init)
    stages = [stage(objectives={"hard-cross-entropy": 1}, steps=1, learning_rate=1e-12)]
    run = D.train(make_set(), student=student, stages=stages, out=tmp_path / "run")
    mine, theirs = weights(run.path), weights(teacher)
    for m, g in enumerate(layers):
        name = "bert.encoder.layer.{}.attention.self.query.weight"
        assert torch.allclose(mine[name.format(m)], theirs[name.format(g - 1)], atol=1e-7)


@pytest.mark.slow  # a process of its own imports transformers' pipelines for seconds
def test_a_saved_student_works_in_a_pipeline_without_this_library(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    stages = [intermediate(steps=2), prediction(steps=2)]
    run = D.train(make_set(), student=small(teacher), stages=stages, out=tmp_path / "run")
    script = (
        "import sys\n"
        "sys.modules['distill'] = sys.modules['augment'] = None\n"
        "from transformers import pipeline\n"
        f"found = pipeline('text-classification', {str(run.path)!r}, device='cpu')('great fun')\n"
        "assert found[0]['label'] in ('negative', 'positive')\n"
    )
    done = subprocess.run(
        [sys.executable, "-"], input=script, text=True, capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    config = json.loads((run.path / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]


def test_another_vocabulary_serves_predictions_alone(
    make_set: Make, teacher: Path, encoder: Path, tmp_path: Path
) -> None:
    words = AutoTokenizer.from_pretrained(encoder)
    words.add_tokens(["comedy"])
    words.save_pretrained(tmp_path / "other")
    student = small(teacher, tokenizer=str(tmp_path / "other"), intermediate=16, hidden=8, heads=2)
    run = D.train(make_set(), student=student, stages=[prediction()], out=tmp_path / "run")
    assert run.record["vocabulary"]["words"] == len(words)
    with pytest.raises(StageError, match="vocabulary is not that of the teacher .* same tokens"):
        D.train(make_set("b"), student=student, stages=[intermediate()], out=tmp_path / "no")


def test_a_map_that_does_not_fit_is_refused_before_any_work(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    student = small(teacher, layers=3)
    with pytest.raises(StageError, match="no multiple of 3"):
        D.train(make_set(), student=student, stages=[intermediate()], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_teacher_of_fewer_positions_is_refused_before_any_work(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    model = BertModel(BertConfig.from_pretrained(teacher, max_position_embeddings=5))
    model.save_pretrained(tmp_path / "short")
    AutoTokenizer.from_pretrained(teacher).save_pretrained(tmp_path / "short")
    stages = [prediction(), intermediate(teacher=str(tmp_path / "short"))]
    with pytest.raises(StageError, match="reads 5 tokens at most, .* write max_tokens = 5"):
        D.train(make_set(copies=1), student=small(teacher), stages=stages, out=tmp_path / "run")
    cut = small(teacher, max_tokens=5)
    stages = [intermediate(teacher=str(tmp_path / "short"), steps=1)]
    assert D.train(make_set("b"), student=cut, stages=stages, out=tmp_path / "run").metrics


def test_an_empty_map_is_no_default(make_set: Make, teacher: Path, tmp_path: Path) -> None:
    empty = intermediate(layer_map=())
    with pytest.raises(StageError, match="lists 0 teacher layers for 2"):
        D.train(make_set(), student=small(teacher), stages=[empty], out=tmp_path / "run")


def test_a_later_stage_without_rows_is_refused_before_any_work(
    teacher: Path, tmp_path: Path
) -> None:
    copies = rows(1).filter(pc.field("copy") > 0)
    made = write_set(
        tmp_path / "set",
        train=copies,
        held_out={},
        task=Task("classification", ("negative", "positive")),
        text=("text",),
        teacher={"name": "oracle"},
    )
    stages = [intermediate(), prediction(data="originals")]
    with pytest.raises(StageError, match="there are no rows to train on"):
        D.train(made, student=small(teacher), stages=stages, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sizes_that_cannot_be_are_refused(make_set: Make, teacher: Path, tmp_path: Path) -> None:
    odd = small(teacher, hidden=9, heads=None)
    with pytest.raises(StudentError, match="hidden is a multiple of heads, got 9 and 2"):
        D.train(make_set(), student=odd, stages=[prediction()], out=tmp_path / "run")
    alone = small(teacher, tokenizer=str(teacher), hidden=None)
    with pytest.raises(StudentError, match="hidden is left out, .* write hidden"):
        D.train(make_set("b"), student=alone, stages=[prediction()], out=tmp_path / "run")


def test_stages_of_another_kind_of_student_are_refused(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    with pytest.raises(StageError, match="TransformerStage"):
        D.train(make_set(), student=small(teacher), stages=[D.Stage(steps=1)], out=tmp_path / "a")


def test_a_report_names_the_stages(make_set: Make, teacher: Path, tmp_path: Path) -> None:
    made = make_set(copies=1)
    stages = [intermediate(steps=2), prediction(steps=2)]
    run = D.train(made, student=small(teacher), stages=stages, out=tmp_path / "run")
    settings = D.Report(repeats=1, rows=8, figure=False)
    found = D.report(run.path, teacher=teacher, settings=settings)
    assert "attention + hidden + embedding" in found.header[2]
    assert "then soft-cross-entropy" in found.header[2]


def test_the_command_line_trains_a_recipe_of_stages(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "some.toml"
    recipe.write_text(
        '[student]\nkind = "tinybert"\nlayers = 2\ninit = "teacher"\nteacher = "teacher"\n'
        "[[stage]]\nobjectives = { hidden = 1, embedding = 1 }\nsteps = 2\n"
        '[[stage]]\nobjectives = { "soft-cross-entropy" = 1 }\nsteps = 2\n'
    )
    call = ["train", str(recipe), "--set", str(make_set().path), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert "agreement" in done.output
    assert D.Run.open(tmp_path / "run").record["student"]["kind"] == "tinybert"


def test_the_teachers_weights_belong_to_the_plan(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    made, out = make_set(), tmp_path / "run"
    settings = {"student": small(teacher), "stages": [intermediate(steps=2)]}
    D.train(made, **settings, out=out)
    assert D.train(made, **settings, out=out).path == out
    model = BertForSequenceClassification.from_pretrained(teacher)
    with torch.no_grad():
        model.classifier.bias.add_(1)
    model.save_pretrained(teacher)
    with pytest.raises(RunError, match="teachers was"):
        D.train(made, **settings, out=out)


def test_the_weights_that_a_student_starts_from_belong_to_the_plan(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    made, out = make_set(), tmp_path / "run"
    start = TinyBERTSettings(init=str(teacher), layers=4, intermediate=24, dropout=0.0)
    settings = {"student": start, "stages": [prediction(steps=2)]}
    D.train(made, **settings, out=out)
    assert D.train(made, **settings, out=out).path == out
    model = BertForSequenceClassification.from_pretrained(teacher)
    with torch.no_grad():
        model.bert.pooler.dense.bias.add_(1)
    model.save_pretrained(teacher)
    with pytest.raises(RunError, match="start was"):
        D.train(made, **settings, out=out)


def test_the_placeholder_reads_as_the_tokenizers_own_mask(encoder: Path, tmp_path: Path) -> None:
    import pyarrow as pa

    words = AutoTokenizer.from_pretrained(encoder, mask_token="great")
    table = pa.table({"text": ["a [MASK] film", "a great film"], "label": [0, 1]})
    made = write_set(
        tmp_path / "set",
        train=table.append_column("source", pa.array([0, 1])).append_column(
            "copy", pa.array([0, 0], pa.int32())
        ),
        held_out={},
        task=Task("classification", ("negative", "positive")),
        text=("text",),
        teacher=None,
    )
    rows = read_examples(made, "train", words, max_tokens=16)
    assert np.array_equal(*rows.batch(np.array([0, 1]))["input_ids"].numpy())


BAD: list[tuple[dict[str, Any], str]] = [
    ({"objectives": {"attenton": 1}}, 'no objective "attenton"; did you mean "attention"'),
    ({"objectives": {"hidden": -1}}, "objectives.hidden is a weight of at least 0, got -1"),
    ({"objectives": {"hidden": "much"}}, "objectives.hidden is a weight"),
    ({"objectives": {"hidden": 0}}, "gives no term a weight"),
    ({"objectives": SOFT, "teacher": "x"}, "teacher is not read by soft-cross-entropy"),
    ({"objectives": SOFT, "layer_map": "top"}, "layer_map is not read by"),
    ({"objectives": TWO, "layer_map": "topp"}, 'did you mean "top"'),
    ({"objectives": TWO, "temperature": 2.0}, "temperature is read by soft-cross-entropy alone"),
    ({"objectives": TWO, "select": "validation"}, "no prediction to check"),
    ({"objectives": TWO, "evaluations": 3}, "no prediction to check"),
    ({"objectives": SOFT, "evaluations": 0, "select": "validation"}, "nothing to select"),
    ({"objectives": SOFT, "epochs": 1.0}, "exactly one of epochs and steps"),
    ({"objectives": SOFT, "warmup": 1.0}, "warmup is a share"),
    ({"objectives": SOFT, "clip": -1.0}, "clip is a number of at least 0"),
    ({"objectives": SOFT, "optimiser": "adadelta", "weight_decay": 0.1}, "weight_decay is not"),
    (
        {"objectives": SOFT, "freeze": ("embeddings", "encoder", "pooler", "classifier")},
        "nothing is trained",
    ),
    (
        {"objectives": {"hidden": 1}, "freeze": ("embeddings", "encoder")},
        "reach .embeddings, encoder., so nothing is trained",
    ),
    (
        {"objectives": {"embedding": 1}, "freeze": ("embeddings",)},
        "reach .embeddings., so nothing is trained",
    ),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=[m for _, m in BAD])
def test_a_stage_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stage(**settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "tinybrt"', "no student of the kind 'tinybrt'; did you mean \"tinybert\""),
        ('kind = "tinybert"\nsize = 5', "one of 4, 6, got 5"),
        ('kind = "tinybert"\nsize = 4\nhidden = 8', "size = 4 says hidden already"),
        ('kind = "tinybert"', "depth is missing"),
        ('kind = "tinybert"\nsize = 4\ninit = "techer"', 'did you mean "teacher"'),
        ('kind = "tinybert"\nsize = 4\nmax_words = 8', 'unknown key "max_words"'),
        ('kind = "tinybert"\nsize = 4', "write \\[\\[stage\\]\\]"),
        ('kind = "tinybert"\nsize = 4\n[[stage]]\nsteps = 1', 'the key "objectives" is required'),
        (
            'kind = "tinybert"\nsize = 4\n[[stage]]\nsteps = 1\nobjective = "hidden"',
            'did you mean "objectives"',
        ),
        ("[[stage]]\nsteps = 1\nobjectives = { hidden = 1 }", 'did you mean "objective"'),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"[student]\n{text}\n")
    with pytest.raises(SettingsError, match=message):
        read(path)


def test_folders_in_a_recipe_are_relative_to_it(teacher: Path) -> None:
    path = teacher.parent / "some.toml"
    path.write_text(
        '[student]\nkind = "tinybert"\nlayers = 2\nteacher = "teacher"\n'
        '[[stage]]\nteacher = "teacher"\nlayer_map = [2, 4]\nsteps = 1\n'
        'objectives = { attention = 1, "hidden" = 0.5 }\n'
    )
    found = read(path)
    assert isinstance(found.student, TinyBERTSettings)
    assert found.student == replace(found.student, teacher=str(teacher))
    (only,) = found.stages
    assert isinstance(only, TransformerStage)
    assert (only.teacher, only.layer_map) == (str(teacher), (2, 4))
