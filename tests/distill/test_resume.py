"""A killed training goes on from its checkpoint and ends in the weights of an undisturbed one."""

from collections.abc import Callable
from pathlib import Path

import pytest

import distill as D
from augment.transferset import TransferSet
from distill.errors import RunError, StageError
from distill.recipe import StudentSettings
from distill.resume import STATE
from tests.distill.conftest import Killed, same

Make = Callable[..., TransferSet]
STUDENT = StudentSettings(hidden=8, head=8, dims=16, dropout=0.3)
STAGES = {
    "adadelta, the best state kept": [D.Stage(steps=30, batch=3, evaluations=6)],
    "adamw, the last state kept": [
        D.Stage(epochs=4, batch=3, optimiser="adamw", select="last", seed=2)
    ],
    "two stages": [
        D.Stage(steps=13, batch=3, objective="hard-cross-entropy"),
        D.Stage(steps=17, batch=4, seed=1),
    ],
}


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES.keys())
@pytest.mark.parametrize("moments", [(1,), (5, 4), (9, 1, 8), (20,)])
def test_lesson_05_a_student_killed_and_resumed_has_the_undisturbed_weights(
    stages: list[D.Stage],
    moments: tuple[int, ...],
    make_set: Make,
    tmp_path: Path,
    kill: Callable[[int], None],
) -> None:
    made = make_set(copies=1)
    calm = D.train(made, student=STUDENT, stages=stages, out=tmp_path / "calm")
    out = tmp_path / "run"
    for moment in moments:
        kill(moment)
        with pytest.raises(Killed):
            D.train(made, student=STUDENT, stages=stages, out=out)
        assert (out / STATE).exists()
    kill(10**9)
    run = D.train(made, student=STUDENT, stages=stages, out=out)
    assert same(run.path, calm.path)
    assert run.metrics == calm.metrics
    assert [h["kept_step"] for h in run.record["history"]] == [
        h["kept_step"] for h in calm.record["history"]
    ]
    assert not (out / STATE).exists()


def test_a_teacher_killed_and_resumed_has_the_undisturbed_weights(
    make_set: Make, encoder: Path, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    settings = D.Teacher(base=str(encoder), epochs=6, learning_rate=1e-3, batch=3, precision="fp32")
    made = make_set()
    calm = D.fine_tune(made, settings, out=tmp_path / "calm", show=False)
    kill(7)
    with pytest.raises(Killed):
        D.fine_tune(made, settings, out=tmp_path / "taught", show=False)
    kill(10**9)
    taught = D.fine_tune(made, settings, out=tmp_path / "taught", show=False)
    assert same(taught.path, calm.path)
    assert taught.metrics == calm.metrics


def test_other_settings_do_not_go_on_from_a_checkpoint(
    make_set: Make, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    made, out = make_set(), tmp_path / "run"
    kill(2)
    with pytest.raises(Killed):
        D.train(made, student=STUDENT, stages=[D.Stage(steps=9, batch=3)], out=out)
    with pytest.raises(RunError, match="begun with other settings .*stages was"):
        D.train(made, student=STUDENT, stages=[D.Stage(steps=9, batch=4)], out=out)


def test_a_damaged_checkpoint_is_named_with_its_remedy(
    make_set: Make, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    made, out = make_set(), tmp_path / "run"
    stages = [D.Stage(steps=9, batch=3)]
    kill(2)
    with pytest.raises(Killed):
        D.train(made, student=STUDENT, stages=stages, out=out)
    whole = (out / STATE).read_bytes()
    (out / STATE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunError, match="not a whole checkpoint .*delete it to train"):
        D.train(made, student=STUDENT, stages=stages, out=out)


def test_no_checkpoint_follows_the_last_step(
    make_set: Make, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    # The Trainer would go on from one with a step too many.
    stages = [D.Stage(steps=7, batch=3, select="last", evaluations=1)]
    kill(7)
    D.train(make_set(), student=STUDENT, stages=stages, out=tmp_path / "run")
    kill(6)
    with pytest.raises(Killed):
        D.train(make_set("b"), student=STUDENT, stages=stages, out=tmp_path / "other")


def test_the_remedy_of_an_error_may_be_tried_in_the_same_folder(
    make_set: Make, tmp_path: Path
) -> None:
    made, out = make_set(logits=False), tmp_path / "run"
    with pytest.raises(StageError, match="hard-cross-entropy"):
        D.train(made, student=STUDENT, stages=[D.Stage(steps=3, batch=3)], out=out)
    assert not out.exists()
    hard = D.Stage(steps=3, batch=3, objective="hard-cross-entropy")
    assert D.train(made, student=STUDENT, stages=[hard], out=out).metrics


def test_of_processes_that_train_together_the_first_one_claims(
    make_set: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from augment.files import begin, claimed

    with claimed(tmp_path / "run", "a run", "run.json", RunError):
        with pytest.raises(RunError, match="another process"):
            claimed(tmp_path / "run", "a run", "run.json", RunError).__enter__()
        monkeypatch.setenv("RANK", "1")
        with claimed(tmp_path / "run", "a run", "run.json", RunError):
            begin(tmp_path / "run", {"seed": 1}, RunError)
        assert not (tmp_path / "run" / "plan.json").exists()
