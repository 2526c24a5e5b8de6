"""Laws of the teacher, the report, the ablation and the command line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import distill as D
from augment.errors import SettingsError
from augment.settings import TeacherSettings
from augment.transferset import TransferSet
from distill.errors import AblationError, RunError
from distill.recipe import AblateSettings, StudentSettings

Make = Callable[..., TransferSet]
SMALL = StudentSettings(hidden=8, head=8, dims=16)


def settings_of(encoder: Path) -> TeacherSettings:
    return TeacherSettings(
        base=str(encoder), epochs=60, batch=4, learning_rate=5e-3, max_tokens=16, precision="fp32"
    )


def test_copies_never_reach_the_teacher(
    make_set: Make, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distill.examples as examples

    seen: list[str] = []
    original = examples._tokens

    def spy(columns, tokenizer, max_tokens):  # type: ignore[no-untyped-def]
        seen.extend(columns[0])
        return original(columns, tokenizer, max_tokens)

    monkeypatch.setattr(examples, "_tokens", spy)
    taught = D.fine_tune(make_set(copies=2), settings_of(encoder), out=tmp_path / "teacher")
    assert taught.record["rows"] == 8
    assert seen
    assert not any("copied" in text for text in seen)
    assert taught.metrics["validation"]["accuracy"] == 1.0
    config = json.loads((tmp_path / "teacher" / "config.json").read_text())
    assert config["id2label"] == {"0": "negative", "1": "positive"}
    assert (tmp_path / "teacher" / "model.safetensors").is_file()


def test_the_same_recipe_on_a_taught_folder_trains_nothing(
    make_set: Make, encoder: Path, tmp_path: Path
) -> None:
    made, settings = make_set(pair=True), settings_of(encoder)
    first = D.fine_tune(made, settings, out=tmp_path / "teacher")
    assert D.fine_tune(made, settings, out=tmp_path / "teacher").record == first.record
    with pytest.raises(RunError, match="digest was"):
        D.fine_tune(make_set("b", pair=True, copies=1), settings, out=tmp_path / "teacher")


def test_a_report_has_intervals_ratios_and_every_model(
    make_set: Make, encoder: Path, tmp_path: Path
) -> None:
    made = make_set()
    stage = D.Stage(steps=30, batch=4)
    hard = D.Stage(steps=30, batch=4, objective="hard-cross-entropy", data="originals")
    runs = [
        D.train(made, student=SMALL, stages=[s], out=tmp_path / n).path
        for n, s in (("distilled", stage), ("hard", hard))
    ]
    from distill.recipe import ReportSettings

    quick = ReportSettings(repeats=3, rows=16, figure=False)
    missing = D.report(*runs, settings=quick)
    assert missing.rows[-6][:2] == ("parameters", "not measured")
    made_report = D.report(*runs, teacher=encoder, settings=quick)
    text = (tmp_path / "distilled" / "report.md").read_text()
    assert "teacher" in text
    assert "logits, transfer set" in text
    assert "hard labels, originals" in text
    assert "100.0 [67.6, 100.0]" in text
    assert "× smaller" in text
    assert "× faster" in text
    found = json.loads((tmp_path / "distilled" / "report.json").read_text())
    assert found["columns"][1]["ratio_to_teacher"]["latency_ms"] > 0
    assert len(made_report.header) == 4


def test_an_ablation_prints_five_lines_and_goes_on_where_it_stopped(
    make_set: Make, tmp_path: Path
) -> None:
    made = make_set(copies=1)
    settings = AblateSettings(
        seeds=2, steps=4, batch=4, processes=1, choose_learning_rate=(1.0, 0.1), slice_rows=4,
        evaluations=2,
    )  # fmt: skip
    first = D.ablate(made, student=SMALL, settings=settings, out=tmp_path / "a")
    assert first.trained == 2 * 2 + 5 * 2
    text = (tmp_path / "a" / "ablate.md").read_text()
    assert len([line for line in text.splitlines() if "±" in line and line[0] == "|"]) == 5
    assert "standard error" in text
    assert "interaction" in text

    (tmp_path / "a" / "cells" / "logits-copies-seed-1.json").unlink()
    again = D.ablate(made, student=SMALL, settings=settings, out=tmp_path / "a")
    assert again.trained == 1
    assert again.summary == first.summary

    with pytest.raises(AblationError, match=r"set was .*settings\.steps was 4, is "):
        D.ablate(
            make_set("b", copies=2),
            student=SMALL,
            settings=AblateSettings(
                seeds=2, steps=5, batch=4, choose_learning_rate=(1.0, 0.1), slice_rows=4,
                evaluations=2,
            ),
            out=tmp_path / "a",
        )  # fmt: skip


@pytest.mark.slow  # each child imports transformers for seconds
def test_child_processes_find_the_same_figures(make_set: Make, tmp_path: Path) -> None:
    made = make_set(copies=1)
    found = [
        D.ablate(
            made,
            student=SMALL,
            settings=AblateSettings(seeds=1, steps=3, batch=4, processes=n, evaluations=1),
            out=tmp_path / f"a{n}",
        ).summary
        for n in (1, 2)
    ]
    assert found[0] == found[1]


def test_an_ablation_says_what_the_set_lacks(make_set: Make, tmp_path: Path) -> None:
    with pytest.raises(AblationError, match="augment label"):
        D.ablate(make_set(copies=1, logits=False), out=tmp_path / "a")
    with pytest.raises(AblationError, match="no copies"):
        D.ablate(make_set("b"), out=tmp_path / "out-b")
    with pytest.raises(AblationError, match="labels"):
        D.ablate(make_set("c", copies=1, labels=False), out=tmp_path / "out-c")


def test_the_slice_holds_source_rows_with_all_their_copies() -> None:
    import numpy as np

    from distill.cells import on_slice
    from distill.examples import Examples

    sources = np.repeat(np.arange(20), 3)
    empty = Examples(
        np.empty(0, np.int32), np.zeros(61, np.int64), None, None, None,
        np.tile(np.arange(3), 20), sources,
    )  # fmt: skip
    inside = on_slice(empty, 5)
    assert inside.sum() == 15
    assert len(np.unique(sources[inside])) == 5
    assert not set(sources[inside]) & set(sources[~inside])


def recipe(tmp_path: Path, text: str) -> str:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return str(path)


def test_the_command_line_trains_and_shows_figures(make_set: Make, tmp_path: Path) -> None:
    from distill.cli import app

    made = make_set()
    path = recipe(
        tmp_path,
        "[student]\nhidden = 4\nhead = 4\ndims = 8\n[[stage]]\nsteps = 3\nbatch = 4\n",
    )
    call = ["train", path, "--set", str(made.path), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert "validation" in done.output
    assert "accuracy" in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[student]\nhiden = 4\n", 'did you mean "hidden"'),
        ("[[stage]]\nsteps = 3\ntemprature = 2\n", 'did you mean "temperature"'),
        ("[[stage]]\nepochs = 1\nalpha = 25\n", "alpha is a weight in [0, 1], got 25"),
        ("[[stage]]\nbatch = 4\n", "exactly one of epochs and steps"),
    ],
)
def test_a_recipes_mistake_is_named_with_its_place(
    text: str, message: str, make_set: Make, tmp_path: Path
) -> None:
    from distill.cli import app

    call = ["train", recipe(tmp_path, text), "--set", str(make_set().path), "--out", "x"]
    with pytest.raises(SettingsError, match="recipe.toml") as found:
        app(call, standalone_mode=False)
    assert message in str(found.value)


def test_help_teaches_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom distill.cli import app\nfrom typer.testing import CliRunner\n"
        "done = CliRunner().invoke(app, ['--help'])\nassert 'augment label' in done.output\n"
        "heavy = {'torch', 'transformers', 'gensim', 'spacy', 'datasets', 'sklearn', 'scipy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there() -> None:
    for name in D.__all__:
        assert getattr(D, name) is not None
    assert callable(D.train)
    assert callable(D.report)
    assert callable(D.ablate)


@pytest.mark.parametrize("path", sorted(Path("corpora/recipes").glob("*.toml")), ids=str)
def test_every_shipped_recipe_is_valid(path: Path) -> None:
    from distill.recipe import read

    assert read(path).stages


def test_a_worker_makes_the_same_job(make_set: Make, tmp_path: Path) -> None:
    from distill.cells import BiLSTMJob
    from distill.runs import prepare
    from distill.worker import job_of

    settings = AblateSettings(steps=4, choose_learning_rate=(1.0, 0.1), choose_steps=True)
    job = BiLSTMJob(prepare(make_set(copies=1), SMALL), SMALL, settings, 0.5)
    again = job_of(json.loads(json.dumps(job.facts())))
    assert isinstance(again, BiLSTMJob)
    assert (again.settings.steps, list(again.settings.choose_learning_rate)) == (4, [])
    assert (again.student, again.rate) == (SMALL, 0.5)
