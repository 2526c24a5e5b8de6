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
