"""Laws of training: what it needs, what it repeats, what it leaves behind."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

import distill as D
from augment.errors import SetError
from augment.transferset import Task, TransferSet, write_set
from distill.buckets import Buckets
from distill.errors import RunError, StageError
from distill.evaluation import interval
from distill.recipe import StudentSettings
from tests.distill.conftest import regression_rows, rows

Make = Callable[..., TransferSet]
SMALL = StudentSettings(hidden=8, head=8, dims=16, dropout=0.0)


def stage(**keys: object) -> D.Stage:
    return D.Stage(**{"steps": 40, "batch": 4, "evaluations": 2} | keys)  # type: ignore[arg-type]


def test_a_stage_overfits_eight_rows(make_set: Make, tmp_path: Path) -> None:
    run = D.train(make_set(), student=SMALL, stages=[stage(steps=60)], out=tmp_path / "run")
    assert run.metrics["validation"]["accuracy"] == 1.0
    assert run.metrics["test"]["agreement"] == 1.0


def test_the_same_seed_gives_the_same_weights(make_set: Make, tmp_path: Path) -> None:
    found = [
        load_file(
            D.train(
                make_set(f"set{i}"),
                student=StudentSettings(hidden=8, head=8, dims=16, dropout=0.3),
                stages=[stage(seed=seed, steps=10)],
                out=tmp_path / f"run{i}",
            ).path
            / "model.safetensors"
        )
        for i, seed in enumerate((3, 3, 4))
    ]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert not torch.equal(found[0]["wide.weight"], found[2]["wide.weight"])


def test_training_leaves_the_callers_random_state_alone(make_set: Make, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    D.train(make_set(), student=SMALL, stages=[stage(steps=2)], out=tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("pair", [False, True])
def test_a_run_loads_by_auto_class_and_pipeline(pair: bool, make_set: Make, tmp_path: Path) -> None:
    made = make_set(pair=pair)
    run = D.train(made, student=SMALL, stages=[stage(steps=60)], out=tmp_path / "run")
    model = AutoModelForSequenceClassification.from_pretrained(run.path)
    assert type(model).__name__ == "BiLSTMForSequenceClassification"
    assert AutoTokenizer.from_pretrained(run.path).pad_token_id == 0
    classify = pipeline("text-classification", str(run.path), device="cpu")
    text = {"text": "great fun", "text_pair": "the great fun"} if pair else "great fun"
    other = {"text": "", "text_pair": ""} if pair else ""
    (first, empty) = (classify(text), classify(other))
    first = first[0] if isinstance(first, list) else first
    assert first["label"] in ("negative", "positive")
    assert 0 < first["score"] <= 1
    assert empty


def test_a_hard_label_run_needs_no_logits(make_set: Make, tmp_path: Path) -> None:
    stages = [stage(objective="hard-cross-entropy")]
    run = D.train(make_set(logits=False), student=SMALL, stages=stages, out=tmp_path / "run")
    assert "agreement" not in run.metrics["validation"]


def test_lesson_10_logits_without_labels_train(make_set: Make, tmp_path: Path) -> None:
    run = D.train(make_set(labels=False), student=SMALL, stages=[stage()], out=tmp_path / "run")
    assert run.metrics["validation"]["agreement"] > 0.5
    assert "accuracy" not in run.metrics["validation"]


def test_lesson_09_an_objective_without_its_column_names_the_remedy(
    make_set: Make, tmp_path: Path
) -> None:
    with pytest.raises(StageError, match="augment label"):
        D.train(make_set(logits=False), student=SMALL, stages=[stage()], out=tmp_path / "a")
    with pytest.raises(StageError, match="argmax"):
        D.train(
            make_set("b", labels=False),
            student=SMALL,
            stages=[stage(objective="hard-cross-entropy")],
            out=tmp_path / "out-b",
        )


def test_an_unfinished_set_is_refused(make_set: Make, tmp_path: Path) -> None:
    made = make_set()
    (made.path / "manifest.json").unlink()
    with pytest.raises(SetError, match="unfinished"):
        D.train(made.path, student=SMALL, stages=[stage()], out=tmp_path / "run")


def test_a_folder_with_something_else_stays_untouched(make_set: Make, tmp_path: Path) -> None:
    out = tmp_path / "photos"
    out.mkdir()
    (out / "cat.jpg").write_bytes(b"x")
    with pytest.raises(RunError, match=r"cat\.jpg"):
        D.train(make_set(), student=SMALL, stages=[stage()], out=out)
    assert [path.name for path in out.iterdir()] == ["cat.jpg"]


def test_a_finished_run_is_kept_and_another_recipe_refused(make_set: Make, tmp_path: Path) -> None:
    made, out = make_set(), tmp_path / "run"
    first = D.train(made, student=SMALL, stages=[stage(steps=3)], out=out)
    before = (out / "model.safetensors").stat().st_mtime_ns
    again = D.train(made, student=SMALL, stages=[stage(steps=3)], out=out)
    assert again.record == json.loads(json.dumps(first.record))
    assert (out / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(RunError, match="stages was"):
        D.train(made, student=SMALL, stages=[stage(steps=4)], out=out)


def test_lesson_18_each_term_is_logged_and_a_dwarfing_one_warned_of(
    make_set: Make, tmp_path: Path
) -> None:
    stages = [stage(steps=4, alpha=0.999999)]
    with pytest.warns(UserWarning, match="change alpha"):
        run = D.train(make_set(), student=SMALL, stages=stages, out=tmp_path / "run")
    logs = [entry for entry in run.record["history"][0]["history"] if "loss" in entry]
    assert all("loss_logits-mse" in log and "loss_hard-cross-entropy" in log for log in logs)


def test_a_regression_matches_the_teachers_score(tmp_path: Path) -> None:
    table = regression_rows()
    made = write_set(
        tmp_path / "set",
        train=table,
        held_out={"validation": table},
        task=Task("regression"),
        text=("text", "other"),
        teacher={"name": "oracle"},
    )
    run = D.train(made, student=SMALL, stages=[stage(steps=150)], out=tmp_path / "run")
    assert run.metrics["validation"]["agreement"] > 0.95
    assert run.metrics["validation"]["pearson"] > 0.95
    assert json.loads((run.path / "config.json").read_text())["problem_type"] == "regression"


def test_originals_means_copy_zero(make_set: Make, tmp_path: Path) -> None:
    stages = [stage(steps=2, data="originals"), stage(steps=2)]
    run = D.train(make_set(copies=2), student=SMALL, stages=stages, out=tmp_path / "run")
    assert [result["rows"] for result in run.record["history"]] == [8, 24]


def test_the_order_of_batches_depends_on_seed_and_epoch_alone() -> None:
    lengths = np.arange(103) % 7
    buckets = Buckets(lengths, 10, seed=1)
    first = list(buckets)
    assert list(buckets) == first
    assert len(first) == len(buckets) == 11
    assert sorted(row for batch in first for row in batch) == list(range(103))
    buckets.set_epoch(1)
    assert list(buckets) != first
    assert list(Buckets(lengths, 10, seed=2)) != first


def test_epochs_are_reshuffled_inside_the_trainer(
    make_set: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs: list[int] = []
    original = Buckets.__iter__
    monkeypatch.setattr(
        Buckets, "__iter__", lambda self: (epochs.append(self.epoch), original(self))[1]
    )
    stages = [D.Stage(epochs=3, batch=4)]
    D.train(make_set(), student=SMALL, stages=stages, out=tmp_path / "run")
    assert epochs == [0, 1, 2]


def test_a_script_on_standard_input_trains(make_set: Make, tmp_path: Path) -> None:
    made = make_set()
    script = (
        "import distill as D\n"
        f"D.train({str(made.path)!r}, student=D.BiLSTM(hidden=4, dims=8, head=4),\n"
        f"        stages=[D.Stage(steps=2, batch=4)], out={str(tmp_path / 'run')!r})\n"
    )
    done = subprocess.run([sys.executable, "-"], input=script, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "run.json").is_file()
    assert done.stdout == ""


def test_the_wilson_interval_is_the_published_one() -> None:
    low, high = interval(81, 263)  # Newcombe 1998, table I
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


def test_examples_pad_and_cut_as_they_should(make_set: Make) -> None:
    from distill.runs import prepare

    material = prepare(make_set(copies=1), SMALL)
    train = material.splits["train"]
    chosen = train.where(train.column("copies") == 0)
    assert len(chosen) == 8
    assert chosen.lengths.tolist() == [len(text.split()) for text in rows()["text"].to_pylist()]
    batch = chosen.batch(np.array([1, 0]))
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["input_ids"][0, 2] == 0
