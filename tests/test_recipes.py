"""Every recipe in the repository says something both packages understand."""

from pathlib import Path

import pytest

from augment.recipe import from_steps, to_steps
from augment.settings import (
    AugmentSettings,
    CorpusSettings,
    LabelSettings,
    TeacherSettings,
    read_recipe,
)
from augment.transforms import Substitute
from distill.recipe import read
from distill.stages import TinyBERTSettings, TransformerStage

ROOT = Path(__file__).parent.parent
RECIPES = sorted([*ROOT.glob("corpora/recipes/*.toml"), *ROOT.glob("tests/recipes/*.toml")])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_both_packages_read_the_recipe(path: Path) -> None:
    recipe = read_recipe(path)
    corpus = recipe.section(CorpusSettings, "corpus")
    options = recipe.section(AugmentSettings, "augment")
    recipe.section(TeacherSettings, "teacher")
    recipe.section(LabelSettings, "label")
    chain = from_steps(options.steps)
    assert from_steps(to_steps(chain)) == chain
    assert corpus.validation
    assert read(path).stages


@pytest.mark.parametrize("name", ["sst2", "qqp", "mnli"])
def test_the_papers_recipes_have_the_papers_settings(name: str) -> None:
    path = ROOT / f"corpora/recipes/{name}-tang.toml"
    options = read_recipe(path).section(AugmentSettings, "augment")
    assert options.copies == (20 if name == "sst2" else 10)
    assert repr(from_steps(options.steps)) == ("(Mask(0.1) | ReplacePOS(0.1)) >> SampleNGram(0.25)")
    (stage,) = read(path).stages
    assert (stage.objective, stage.alpha, stage.optimiser, stage.rate) == (
        "logits-mse",
        0.0,
        "adadelta",
        1.0,
    )
    assert stage.batch == (50 if name == "sst2" else 256)


GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")


@pytest.mark.parametrize("name", GLUE)
def test_tinyberts_recipes_have_the_papers_rates_and_counts(name: str) -> None:
    recipe = read_recipe(ROOT / f"corpora/recipes/tinybert-{name}.toml")
    options = recipe.section(AugmentSettings, "augment")
    (step,) = from_steps(options.steps).leaves()
    assert isinstance(step, Substitute)
    assert (options.copies, step.rate, step.k) == (20, 0.4, 15)
    assert (step.mode, step.context, step.touch) == ("masked", "masked", "content")
    corpus = recipe.section(CorpusSettings, "corpus")
    assert (corpus.task == "regression") == (name == "stsb")
    teacher = recipe.section(TeacherSettings, "teacher")
    assert teacher.max_tokens == (64 if len(corpus.text) == 1 else 128)


@pytest.mark.parametrize("name", GLUE)
def test_tinyberts_recipes_have_the_papers_stages(name: str) -> None:
    found = read(ROOT / f"corpora/recipes/tinybert-{name}.toml")
    assert isinstance(found.student, TinyBERTSettings)
    pair = name not in ("cola", "sst2")
    assert (found.student.size, found.student.max_tokens) == (4, 128 if pair else 64)
    inside, outside = found.stages
    assert isinstance(inside, TransformerStage)
    assert isinstance(outside, TransformerStage)
    assert inside.objectives == {"attention": 1, "hidden": 1, "embedding": 1}
    epochs = {"cola": 50, "mnli": 10, "qqp": 10, "qnli": 10}.get(name, 20)
    assert (inside.epochs, inside.batch, inside.rate) == (epochs, 32, 5e-5)
    # A regression matches the teacher's score; soft cross-entropy has nothing to say there.
    assert outside.objectives == {"logits-mse" if name == "stsb" else "soft-cross-entropy": 1}
    assert (outside.epochs, outside.batch, outside.rate, outside.temperature) == (3, 32, 3e-5, 1)


def test_the_demos_student_is_as_wide_as_its_teacher() -> None:
    found = read(ROOT / "corpora/recipes/demo-tinybert.toml")
    assert isinstance(found.student, TinyBERTSettings)
    assert (found.student.layers, found.student.init, found.student.hidden) == (4, "teacher", None)
