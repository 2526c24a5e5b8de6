"""Laws of raw-text stages: general distillation, without a transfer set or beside one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertModel
from typer.testing import CliRunner

import distill as D
from augment.errors import CorpusError, SettingsError
from augment.transferset import TransferSet
from distill.cli import app
from distill.errors import RunError, StageError
from distill.examples import text_examples
from distill.recipe import read
from distill.resume import STATE
from distill.stages import TinyBERTSettings, TransformerStage
from tests.distill.conftest import BAD, GOOD, Killed, same, weights, write_bert

Make = Callable[..., TransferSet]
INSIDE = {"attention": 1.0, "hidden": 1.0, "embedding": 1.0}


@pytest.fixture
def teacher(encoder: Path, tmp_path: Path) -> Path:
    """Write an encoder that was never fine-tuned: it has no head."""
    return write_bert(tmp_path / "teacher", encoder, headed=False)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(GOOD + BAD) + "\n")
    return path


def small(teacher: Path | None, **changes: Any) -> TinyBERTSettings:
    settings: dict[str, Any] = {"layers": 2, "hidden": 8, "heads": 2, "dropout": 0.0}
    return TinyBERTSettings(**settings | {"teacher": teacher and str(teacher)} | changes)


def raw(*texts: Path | str, **keys: Any) -> TransformerStage:
    settings: dict[str, Any] = {"steps": 10, "batch": 3, "learning_rate": 3e-3}
    settings |= {"objectives": INSIDE, "data": "raw-text", "texts": tuple(map(str, texts))}
    return TransformerStage(**settings | keys)


def prediction(**keys: Any) -> TransformerStage:
    settings: dict[str, Any] = {"steps": 10, "batch": 3, "learning_rate": 3e-3, "evaluations": 2}
    return TransformerStage(**settings | {"objectives": {"soft-cross-entropy": 1.0}} | keys)


def losses(run: D.Run, number: int, name: str) -> list[float]:
    return [log[name] for log in run.record["history"][number]["history"] if name in log]


def test_raw_text_alone_trains_an_encoder(teacher: Path, lines: Path, tmp_path: Path) -> None:
    stages = [raw(lines, steps=60, batch=8, learning_rate=1e-2, schedule="constant")]
    run = D.train(None, student=small(teacher), stages=stages, out=tmp_path / "general")
    for name in INSIDE:
        first, *_, last = losses(run, 0, f"loss_{name}")
        assert last < 0.7 * first, name
    assert (run.metrics, run.record["set"], run.record["teacher"]) == ({}, None, None)
    assert run.record["history"][0]["rows"] == 8
    assert D.Run.open(run.path).record["history"] == run.record["history"]


def test_its_folder_is_a_plain_encoder_without_a_head(
    teacher: Path, lines: Path, tmp_path: Path
) -> None:
    run = D.train(None, student=small(teacher), stages=[raw(lines)], out=tmp_path / "general")
    model = AutoModel.from_pretrained(run.path)
    assert type(model) is BertModel
    assert model.state_dict().keys() == weights(run.path).keys()
    config = json.loads((run.path / "config.json").read_text())
    assert config["architectures"] == ["BertModel"]
    assert not {"id2label", "problem_type"} & config.keys()
    batch = AutoTokenizer.from_pretrained(run.path)("a good film", return_tensors="pt")
    assert model(**batch).last_hidden_state.shape[-1] == 8


def test_another_student_starts_from_it(
    teacher: Path, lines: Path, make_set: Make, tmp_path: Path
) -> None:
    general = D.train(None, student=small(teacher), stages=[raw(lines)], out=tmp_path / "general")
    student = TinyBERTSettings(init=str(general.path), dropout=0.0)
    barely = [prediction(steps=1, learning_rate=1e-12)]
    run = D.train(make_set(), student=student, stages=barely, out=tmp_path / "run")
    mine = weights(run.path)
    for name, value in weights(general.path).items():
        assert torch.allclose(mine[f"bert.{name}"], value, atol=1e-7), name
    assert run.metrics["validation"]["rows"] == 8


@pytest.mark.parametrize("init", ["teacher", "teacher-first"])
def test_it_starts_from_a_teachers_layers(
    init: str, teacher: Path, lines: Path, tmp_path: Path
) -> None:
    student = small(teacher, hidden=None, heads=None, init=init)
    stages = [raw(lines, steps=1, learning_rate=1e-12)]
    run = D.train(None, student=student, stages=stages, out=tmp_path / "general")
    name = "encoder.layer.{}.output.dense.weight"
    mine, theirs = weights(run.path)[name.format(0)], weights(teacher)
    first = {"teacher": 1, "teacher-first": 0}[init]
    assert torch.allclose(mine, theirs[name.format(first)], atol=1e-7)


def test_raw_text_comes_before_the_sets_own_stages(
    teacher: Path, lines: Path, make_set: Make, tmp_path: Path
) -> None:
    made = make_set()
    both = [raw(lines), prediction()]
    run = D.train(made, student=small(teacher), stages=both, out=tmp_path / "both")
    alone = D.train(made, student=small(teacher), stages=both[1:], out=tmp_path / "alone")
    assert not same(run.path, alone.path)
    assert [done["rows"] for done in run.record["history"]] == [8, 8]
    assert run.metrics["validation"].keys() == alone.metrics["validation"].keys()
    report = D.report(run.path, settings=D.Report(repeats=1, rows=8, figure=False))
    assert "raw text then soft-cross-entropy, transfer set" in report.header[2]


def test_columns_of_tables_and_short_texts(teacher: Path, tmp_path: Path) -> None:
    table = tmp_path / "some.tsv"
    table.write_text("good\tbad\n" + "\n".join(map("\t".join, zip(GOOD, BAD, strict=True))))
    stages = [raw(table, columns=("good", "bad"), min_words=3, steps=1)]
    run = D.train(None, student=small(teacher), stages=stages, out=tmp_path / "general")
    wanted = sum(len(text.split()) >= 3 for text in GOOD + BAD)
    assert run.record["history"][0]["rows"] == wanted < 8


def test_texts_become_rows_without_targets_and_are_cut(encoder: Path) -> None:
    words = AutoTokenizer.from_pretrained(encoder)
    rows = text_examples(["a good film", "great fun " * 40, ""], words, max_tokens=6)
    assert rows.lengths.tolist() == [5, 6, 2]
    assert rows.labels is rows.logits is None
    assert rows.column("copies").tolist() == [0, 0, 0]
    assert rows.column("sources").tolist() == [0, 1, 2]
    batch = rows.batch(np.array([0, 1]))
    assert batch["input_ids"][0, :5].tolist() == words("a good film")["input_ids"]
    assert batch["input_ids"][1, -1] == batch["input_ids"][0, 4]  # a cut text keeps its end mark
    assert len(text_examples([], words, max_tokens=6)) == 0


def test_a_teacher_named_in_the_stage_serves(teacher: Path, lines: Path, tmp_path: Path) -> None:
    stages = [raw(lines, teacher=str(teacher))]
    run = D.train(None, student=small(None), stages=stages, out=tmp_path / "stage")
    other = D.train(None, student=small(teacher), stages=[raw(lines)], out=tmp_path / "student")
    assert same(run.path, other.path)
    with pytest.raises(StageError, match=r"raw text has no teacher; name one in \[student\]"):
        D.train(None, student=small(None), stages=[raw(lines)], out=tmp_path / "nobody")
    assert not (tmp_path / "nobody").exists()


def test_what_the_files_hold_belongs_to_the_plan(
    teacher: Path, lines: Path, tmp_path: Path
) -> None:
    settings = {"student": small(teacher), "stages": [raw(lines, steps=1)]}
    run = D.train(None, **settings, out=tmp_path / "general")
    again = D.train(None, **settings, out=tmp_path / "general")
    assert again.record["history"] == run.record["history"]
    lines.write_text(lines.read_text() + "one more\n")
    with pytest.raises(RunError, match="begun with other settings .*texts_of_stage_1 was"):
        D.train(None, **settings, out=tmp_path / "general")


def test_the_start_that_a_student_takes_belongs_to_the_plan(
    teacher: Path, lines: Path, make_set: Make, tmp_path: Path
) -> None:
    general = D.train(None, student=small(teacher), stages=[raw(lines)], out=tmp_path / "general")
    student, made = TinyBERTSettings(init=str(general.path)), make_set()
    settings = {"student": student, "stages": [prediction(steps=1)], "out": tmp_path / "run"}
    D.train(made, **settings)
    model = BertModel.from_pretrained(general.path)
    with torch.no_grad():
        model.pooler.dense.bias.add_(1)
    model.save_pretrained(general.path)
    with pytest.raises(RunError, match="start was"):
        D.train(made, **settings)


# Four steps a stage, a checkpoint after each step but a stage's last.
@pytest.mark.parametrize(
    "moments", [(3,), (4,), pytest.param((2, 2, 1), marks=pytest.mark.slow)], ids=str
)
def test_a_student_killed_in_raw_text_has_the_undisturbed_weights(
    moments: tuple[int, ...],
    teacher: Path,
    lines: Path,
    tmp_path: Path,
    kill: Callable[[int], None],
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("\n".join(BAD))
    stages = [raw(lines, steps=4), raw(other, steps=4, objectives={"hidden": 1.0})]
    settings = {"student": small(teacher, dropout=0.3), "stages": stages}
    calm = D.train(None, **settings, out=tmp_path / "calm")
    for moment in moments:
        kill(moment)
        with pytest.raises(Killed):
            D.train(None, **settings, out=tmp_path / "run")
        assert (tmp_path / "run" / STATE).exists()
    kill(10**9)
    assert same(D.train(None, **settings, out=tmp_path / "run").path, calm.path)
    assert not (tmp_path / "run" / STATE).exists()


def test_a_finished_raw_stage_needs_its_files_no_more(
    teacher: Path, lines: Path, make_set: Make, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("\n".join(BAD))
    stages = [raw(lines, steps=2), raw(other, steps=3), prediction(steps=1, evaluations=0)]
    settings = {"student": small(teacher), "stages": stages}
    made, out = make_set(), tmp_path / "run"
    calm = D.train(made, **settings, out=tmp_path / "calm")
    kill(2)  # in the second stage: the first saves once
    with pytest.raises(Killed):
        D.train(made, **settings, out=out)
    kept = other.read_text()
    lines.unlink()
    other.unlink()
    with pytest.raises(CorpusError, match=r"other.txt: no such file"):
        D.train(made, **settings, out=out)
    other.write_text(kept + "\nchanged")
    with pytest.raises(RunError, match="texts_of_stage_2 was"):
        D.train(made, **settings, out=out)
    other.write_text(kept)
    kill(10**9)
    assert same(D.train(made, **settings, out=out).path, calm.path)


def test_without_a_set_every_stage_reads_raw_text(
    teacher: Path, lines: Path, tmp_path: Path
) -> None:
    stages = [raw(lines), prediction()]
    with pytest.raises(StageError, match=r"stage 2 reads a transfer set .*none is given; .*--set"):
        D.train(None, student=small(teacher), stages=stages, out=tmp_path / "run")
    with pytest.raises(StageError, match="stage 1 reads a transfer set"):
        D.train(None, out=tmp_path / "run")
    with pytest.raises(StageError, match="there is no stage"):
        D.train(None, student=small(teacher), stages=[], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_is_said_before_any_work(lines: Path, tmp_path: Path) -> None:
    stages = [raw(lines), raw(tmp_path / "absent.txt")]
    nobody = small(tmp_path / "nobody")  # a teacher is looked for later
    with pytest.raises(CorpusError, match=r"absent.txt: no such file"):
        D.train(None, student=nobody, stages=stages, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command_line_distils_without_a_set(teacher: Path, lines: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "some.toml"
    recipe.write_text(
        '[student]\nkind = "tinybert"\nlayers = 2\nteacher = "teacher"\n'
        '[[stage]]\ndata = "raw-text"\ntexts = ["lines.txt"]\nobjectives = { hidden = 1 }\nsteps = 1\n'
    )
    out = tmp_path / "general"
    done = CliRunner().invoke(app, ["train", str(recipe), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"written: {out}" in done.output.replace("\n", "")
    with pytest.raises(RunError, match="trained on raw text alone"):
        D.report(out)
    (only,) = read(recipe).stages
    assert isinstance(only, TransformerStage)
    assert only.texts == (str(lines),)


def test_packages_are_named_in_recipes_as_they_are(tmp_path: Path) -> None:
    recipe = tmp_path / "some.toml"
    recipe.write_text(
        '[student]\nkind = "tinybert"\nsize = 4\n[[stage]]\ndata = "raw-text"\nsteps = 1\n'
        'texts = ["package:gensim", "../a.txt"]\nobjectives = { hidden = 1 }\n'
    )
    (only,) = read(recipe).stages
    assert isinstance(only, TransformerStage)
    assert only.texts == ("package:gensim", str(tmp_path.parent / "a.txt"))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"texts": ()}, r'names no files; write texts = \["FILE.txt"\]'),
    ({"data": "transfer-set"}, 'texts is not read by data = "transfer-set"'),
    ({"data": "originals", "texts": (), "columns": ("a",)}, 'columns is not read by data = "orig'),
    ({"data": "originals", "texts": (), "min_words": 2}, "min_words is not read"),
    ({"min_words": 0}, "min_words is a count of at least 1"),
    ({"columns": ()}, "columns names one column at least"),
    ({"objectives": {"soft-cross-entropy": 1}}, "neither a teacher's logits nor labels, .* soft"),
    ({"objectives": INSIDE | {"hard-cross-entropy": 1}}, "which hard-cross-entropy reads"),
    ({"freeze": ("classifier",)}, "train no classifier, so it needs no freeze"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[m for _, m in WRONG])
def test_a_raw_text_stage_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        raw(**{"texts": ("lines.txt",)} | settings)


def test_a_bilstms_stage_reads_no_raw_text(tmp_path: Path) -> None:
    recipe = tmp_path / "some.toml"
    recipe.write_text('[[stage]]\nsteps = 1\ndata = "raw-text"\n')
    with pytest.raises(SettingsError, match="one of 'originals', 'transfer-set', got 'raw-text'"):
        read(recipe)
