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
    if "corpus" not in recipe.tables:
        assert all(stage.data == "raw-text" for stage in read(path).stages)
        return
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


def stages_of(name: str) -> tuple[TinyBERTSettings, list[TransformerStage]]:
    found = read(ROOT / f"corpora/recipes/{name}.toml")
    assert isinstance(found.student, TinyBERTSettings)
    stages = [stage for stage in found.stages if isinstance(stage, TransformerStage)]
    assert len(stages) == len(found.stages)
    return found.student, stages


INSIDE = {"attention": 1, "hidden": 1, "embedding": 1}


def test_general_distillation_has_the_papers_settings() -> None:
    student, (stage,) = stages_of("tinybert-general")
    assert (student.size, student.init, student.max_tokens) == (4, "random", 128)
    assert student.teacher == "google-bert/bert-base-uncased"
    assert (stage.raw, stage.objectives, stage.layer_map) == (True, INSIDE, "uniform")
    assert (stage.epochs, stage.batch, stage.rate) == (3, 32, 5e-5)
    assert (stage.schedule, stage.warmup, stage.decay) == ("linear", 0.1, 0.01)


def test_patient_distillation_has_the_papers_settings() -> None:
    student, (stage,) = stages_of("pkd-sst2")
    assert (student.layers, student.init, student.max_tokens) == (6, "teacher-first", 128)
    names = {"soft-cross-entropy", "hard-cross-entropy", "patience"}
    assert stage.objectives.keys() == names
    soft, hard = stage.objectives["soft-cross-entropy"], stage.objectives["hard-cross-entropy"]
    assert soft + hard == 1
    assert stage.objectives["patience"] == pytest.approx(500 / (5 * 768), abs=1e-3)
    assert (stage.layer_map, stage.temperature) == ((2, 4, 6, 8, 10, 0), 10)
    assert (stage.epochs, stage.batch, stage.rate, stage.data) == (4, 32, 1e-5, "originals")


def test_distilberts_losses_have_the_papers_weights() -> None:
    student, (stage,) = stages_of("distilbert-sst2")
    assert (student.layers, student.init) == (6, "teacher")
    assert stage.objectives == {"soft-cross-entropy": 5, "hard-cross-entropy": 2, "cosine": 1}
    assert (stage.temperature, stage.layer_map) == (2, (0, 0, 0, 0, 0, 12))


def test_pretrained_distillation_starts_from_a_masked_lm_and_reads_logits_alone() -> None:
    student, (stage,) = stages_of("pd-sst2")
    assert student.start == "google/bert_uncased_L-4_H-512_A-8"
    assert (stage.objectives, stage.temperature) == ({"soft-cross-entropy": 1}, 1)
    assert (stage.epochs, stage.data) == (4, "transfer-set")


@pytest.mark.parametrize("name", ["general", "tinybert", "pkd", "distilbert", "pd"])
def test_the_demos_stages_match_what_their_papers_match(name: str) -> None:
    student, stages = stages_of(f"demo-{name}")
    others, papers = stages_of({"general": "tinybert-general"}.get(name, f"{name}-sst2"))
    for mine, theirs in zip(stages, papers, strict=True):
        assert mine.objectives.keys() == theirs.objectives.keys()
        assert (mine.temperature, mine.raw) == (theirs.temperature, theirs.raw)
    assert sum(stage.steps or 0 for stage in stages) in range(200, 601)
    assert (student.start is None) == (others.start is None)


def test_the_demos_student_is_as_wide_as_its_teacher() -> None:
    found = read(ROOT / "corpora/recipes/demo-tinybert.toml")
    assert isinstance(found.student, TinyBERTSettings)
    assert (found.student.layers, found.student.init, found.student.hidden) == (4, "teacher", None)
