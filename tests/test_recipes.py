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
