"""The command line: a tiny recipe from build to verify, and errors of one line with exit code 2."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from augment import cli
from augment.transferset import MANIFEST, TransferSet
from tests.augment.corpus_rows import REVIEWS
from tests.augment.tiny import save_classifier

RECIPE = """
[corpus]
train = "train.jsonl"
validation = "dev.jsonl"
label = "label"

[augment]
copies = 3
seed = 7
steps = [{mask = {rate = 0.2}}, {ngram = {rate = 0.3}}]

[teacher]
model = "TEACHER"
max_tokens = 32

[label]
precision = "fp32"
threads = 1

[[stage]]
anything = "that distill reads"
"""
Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.usefixtures("own_store")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run ``augment`` with arguments, in a folder of its own; returns code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() sets its own

    def runner(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["augment", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the teacher is right on")
            cli.main()
        out, err = capsys.readouterr()
        code = end.value.code
        return (code if isinstance(code, int) else 0), out, err

    return runner


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    for name, rows in (("train", REVIEWS), ("dev", REVIEWS[:4])):
        lines = (json.dumps(r, ensure_ascii=False) for r in rows)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.replace("TEACHER", str(tmp_path / "teacher")), encoding="utf-8")
    return path


def test_from_recipe_to_labelled_set_and_again_from_the_store(
    run: Run, recipe: Path, tmp_path: Path
) -> None:
    save_classifier(tmp_path / "teacher")

    code, out, _ = run("build", recipe, "--out", "set")
    made = TransferSet.open("set")
    assert code == 0
    assert f"{made.rows()} rows from 40 originals x (1 + 3 copies)" in out
    assert "held-out rows dropped" in out
    assert made.manifest.digest[:16] in out

    code, out, _ = run("label", recipe, "--set", "set", "--out", "labelled")
    done = TransferSet.open("labelled")
    assert code == 0
    assert done.labelled
    assert "0 known to the store" in out
    assert "teacher's accuracy on validation" in out

    code, out, _ = run("label", recipe, "--set", "set", "--out", "again")
    assert code == 0
    assert " 0 put to the teacher" in out
    assert TransferSet.open("again").manifest.digest == done.manifest.digest

    code, out, _ = run("show", "labelled", "--rows", 2, "--copies", 2, "--first", 5)
    assert code == 0
    assert out.count("label ") == 2
    assert "[MASK]" in out or "ngram" in out

    assert run("verify", "labelled") == (0, "labelled: whole\n", "")

    code, out, _ = run("store", "stats")
    assert code == 0
    assert "logits" in out
    assert "word boundaries" in out
    assert run("store", "verify")[:2] == (0, "all segments are whole\n")
    assert run("store", "compact")[0] == 0
    assert run("store", "gc")[:2] == (0, "0 files removed\n")


def test_building_again_says_the_same_and_writes_nothing(run: Run, recipe: Path) -> None:
    first = run("build", recipe, "--out", "set")
    stamp = Path("set", MANIFEST).stat().st_mtime_ns
    assert run("build", recipe, "--out", "set") == first
    assert Path("set", MANIFEST).stat().st_mtime_ns == stamp


def test_verify_exits_with_one_and_names_the_damage(run: Run, recipe: Path) -> None:
    run("build", recipe, "--out", "set")
    Path("set", "data", "train-00000.parquet").unlink()
    code, out, _ = run("verify", "set")
    assert code == 1
    assert "data/train-00000.parquet: missing; remove set and run augment build again" in out


def test_a_damaged_segment_is_named_and_swept(run: Run, recipe: Path, own_store: Path) -> None:
    run("build", recipe, "--out", "set")
    segment = next(own_store.glob("*/*.arrow"))
    segment.write_bytes(b"torn")
    code, out, _ = run("store", "verify")
    assert code == 1
    assert f"{segment}: not a whole segment" in out
    assert "1 files removed" in run("store", "gc")[1]
    assert run("store", "verify")[0] == 0


def edit(recipe: Path, old: str, new: str) -> None:
    text = recipe.read_text(encoding="utf-8")
    assert old in text
    recipe.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate = 0.3", "rate = 25", "augment.steps[1].ngram: rate is a probability in [0, 1], got 25; write 0.25"),
        ("copies = 3", "copis = 3", 'unknown key "copis"; did you mean "copies"?'),
        ("[augment]", "[augmnt]", 'unknown section [augmnt]; did you mean "augment"?'),
        ('label = "label"', 'label = "lable"', 'no column "lable"; did you mean "label"?'),
        ("train.jsonl", "absent.jsonl", "absent.jsonl: no such file"),
        ('label = "label"', 'task = "tagging"', "one of 'classification', 'regression', got 'tagging'"),
    ],
)  # fmt: skip
def test_a_wrong_recipe_is_one_line_and_exit_code_two(
    run: Run, recipe: Path, old: str, new: str, message: str
) -> None:
    edit(recipe, old, new)
    code, out, err = run("build", recipe, "--out", "set")
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_recipe_changed_after_the_build_names_the_difference(run: Run, recipe: Path) -> None:
    run("build", recipe, "--out", "set")
    edit(recipe, "copies = 3", "copies = 4")
    code, _, err = run("build", recipe, "--out", "set")
    assert code == 2
    assert "copies was 3, is 4" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "absent.toml", "--out", "x"], "absent.toml: no such recipe"),
        (["show", "absent"], "absent: no such transfer set"),
        (["verify", "absent"], "absent: no such transfer set"),
        (
            ["build", "recipe.toml", "--out", "x", "--workers", "0"],
            "workers is a count of at least 1",
        ),
        (["label", "recipe.toml", "--set", "absent", "--out", "x"], "absent: no such transfer set"),
    ],
)
def test_what_is_absent_or_wrong_is_one_line(
    run: Run, recipe: Path, arguments: list[str], message: str
) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err
    assert "Traceback" not in err


def test_labelling_without_a_teacher_says_how_to_get_one(run: Run, recipe: Path) -> None:
    run("build", recipe, "--out", "set")
    code, _, err = run("label", recipe, "--set", "set", "--out", "x")
    assert code == 2
    assert "cannot be loaded" in err
    edit(recipe, "\nmodel = ", "\nbase = ")
    code, _, err = run("label", recipe, "--set", "set", "--out", "x")
    assert code == 2
    assert "names no model; pass --teacher FOLDER (make one with: distill teacher)" in err


def test_an_unfinished_set_is_refused_with_what_to_do(run: Run, recipe: Path) -> None:
    run("build", recipe, "--out", "set")
    Path("set", MANIFEST).unlink()
    code, _, err = run("show", "set")
    assert code == 2
    assert "unfinished; run the same build or label command again" in err


def test_the_installed_command_is_this_one(recipe: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "augment.cli", "build", "nowhere.toml", "--out", "x"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nowhere.toml: no such recipe")
    assert "Traceback" not in done.stderr
