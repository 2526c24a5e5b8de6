"""Laws of the variants of a recipe: what each leaves out, and that nothing else differs."""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import distill as D
from augment.errors import SettingsError
from augment.transferset import Task, TransferSet
from distill.cli import app
from distill.errors import AblationError
from distill.recipe import VARIANTS, AblateSettings, VariantSettings, read
from distill.stages import TinyBERTSettings, TransformerStage
from distill.summary import summarise_variants
from distill.variants import StagesJob, VariantCell, shared, some_sources, varied
from distill.worker import job_of

Make = Callable[..., TransferSet]
STUDENT = TinyBERTSettings(layers=2)
INSIDE = TransformerStage(
    objectives={"attention": 1, "hidden": 2, "embedding": 1}, epochs=2.0, layer_map=(1, 3)
)
AFTER = TransformerStage(
    objectives={"soft-cross-entropy": 1}, steps=5, temperature=2.0, learning_rate=3e-4
)


def made(name: str, **student: str) -> tuple[TinyBERTSettings, tuple[TransformerStage, ...]]:
    found = varied(name, replace(STUDENT, **student), (INSIDE, AFTER), (30, 10))
    assert found is not None
    return found


@pytest.mark.parametrize("name", [n for n in VARIANTS if n != "without-general"])
def test_every_variant_makes_as_many_steps(name: str) -> None:
    _, stages = made(name)
    assert sum(stage.steps or 0 for stage in stages) == 40
    assert all(stage.epochs is None for stage in stages)


def test_a_variant_differs_from_the_recipe_in_what_its_name_says() -> None:
    full = made("full")[1]
    assert [stage.data for stage in made("without-augmentation")[1]] == ["originals"] * 2
    (hard,), (logits,) = made("hard")[1], made("logits")[1]
    assert hard.objectives == {"hard-cross-entropy": 1}
    assert hard == replace(logits, objectives=hard.objectives, temperature=1.0)
    assert logits == replace(full[1], data="originals", steps=40)
    assert made("without-transformer")[1] == (replace(full[1], steps=40),)
    for term in ("attention", "hidden", "embedding"):
        first, second = made(f"without-{term}")[1]
        left = {k: v for k, v in INSIDE.objectives.items() if k != term}
        assert first == replace(full[0], objectives=left)
        assert second == full[1]
    labels = made("without-prediction")[1]
    assert labels[0] == full[0]
    assert labels[1] == replace(full[1], objectives={"hard-cross-entropy": 1}, temperature=1.0)
    assert made("map-top")[1] == (replace(full[0], layer_map="top"), full[1])
    student, stages = made("without-general", init="some/folder")
    assert (student, stages) == (STUDENT, full)


def test_stages_on_raw_text_stay_unless_they_are_what_is_left_out() -> None:
    raw = replace(INSIDE, data="raw-text", texts=("some.txt",), steps=20, epochs=None)
    stages, steps = (raw, INSIDE, AFTER), (20, 30, 10)

    def found(name: str) -> list[tuple[str, int | None, int]]:
        made = varied(name, STUDENT, stages, steps)
        assert made is not None
        return [(stage.data, stage.steps, len(stage.objectives)) for stage in made[1]]

    assert found("hard") == [("raw-text", 20, 3), ("originals", 40, 1)]
    assert found("without-augmentation")[0] == ("raw-text", 20, 3)
    assert found("without-general") == [("transfer-set", 50, 3), ("transfer-set", 10, 1)]


def test_a_joint_stage_loses_terms_and_stays_one_stage() -> None:
    joint = TransformerStage(
        objectives={"soft-cross-entropy": 0.7, "hard-cross-entropy": 0.3, "patience": 0.1},
        temperature=10.0,
        layer_map=(2, 4),
        steps=5,
    )

    def found(name: str) -> TransformerStage:
        made = varied(name, STUDENT, (joint,), (5,))
        assert made is not None
        (stage,) = made[1]
        return stage

    assert found("hard").objectives == {"hard-cross-entropy": 1}
    assert found("logits").objectives == {"soft-cross-entropy": 0.7, "hard-cross-entropy": 0.3}
    assert found("without-hidden").objectives == found("logits").objectives
    assert found("without-hidden").temperature == 10
    assert found("without-prediction").objectives == {"hard-cross-entropy": 1, "patience": 0.1}
    assert {found(name).steps for name in ("hard", "logits", "without-hidden")} == {5}


def test_a_variant_that_would_be_the_recipe_is_none() -> None:
    assert varied("without-general", STUDENT, (INSIDE, AFTER), (3, 1)) is None
    assert varied("without-attention", STUDENT, (AFTER,), (3,)) is None
    assert varied("logits", STUDENT, (AFTER,), (3,)) is None
    assert varied("map-uniform", STUDENT, (INSIDE, AFTER), (3, 1), fits=lambda _: False) is None


def test_a_stage_left_without_a_term_hands_its_steps_on() -> None:
    alone = replace(INSIDE, objectives={"embedding": 1}, layer_map=None)
    found = varied("without-embedding", STUDENT, (alone, AFTER), (30, 10))
    assert found is not None
    assert found[1] == (replace(AFTER, steps=40),)


def test_a_recipe_without_predictions_has_no_student_to_compare() -> None:
    with pytest.raises(AblationError, match="no stage of the recipe trains predictions"):
        varied("hard", STUDENT, (INSIDE,), (3,))


def test_steps_are_dealt_in_proportion() -> None:
    assert shared(100, [30, 10]) == (75, 25)
    assert shared(7, [1, 1]) == (4, 3)
    assert shared(10, [1000, 1]) == (10, 1)


def test_a_subset_keeps_the_copies_of_its_sources(
    make_set: Make, encoder: Path, tmp_path: Path
) -> None:
    settings = TinyBERTSettings(layers=1, teacher=str(encoder))
    job = StagesJob(make_set(copies=2), settings, (AFTER,), VariantSettings(rows=3))
    rows = job.rows.splits["train"]
    sources = rows.column("sources")
    assert len(set(sources.tolist())) == 3
    assert len(rows) == 9
    again = some_sources(rows, 2)
    assert set(again.column("sources").tolist()) < set(sources.tolist())


def quick(teacher: Path) -> tuple[TinyBERTSettings, tuple[TransformerStage, ...]]:
    stages = (
        TransformerStage(objectives={"attention": 1, "hidden": 1, "embedding": 1}, steps=2),
        TransformerStage(objectives={"soft-cross-entropy": 1}, steps=2),
    )
    return TinyBERTSettings(layers=4, hidden=8, teacher=str(teacher)), stages


def test_an_ablation_of_variants_grows_and_prints_the_gap(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    student, stages = quick(teacher)
    opened, out = make_set(copies=1), tmp_path / "a"
    settings = VariantSettings(seeds=1, processes=1, evaluations=1)
    first = D.ablate(opened, out=out, student=student, stages=stages, settings=settings)
    assert first.trained == 4
    assert "The teacher: " in (out / "ablate.md").read_text()
    drawn = (out / "ablate.png").is_file()
    assert drawn == (importlib.util.find_spec("matplotlib") is not None)
    wider = replace(settings, seeds=2, variants=("hard", "full", "map-uniform", "map-top"))
    heard: list[str] = []
    again = D.ablate(
        opened, out=out, student=student, stages=stages, settings=wider, say=heard.append
    )
    assert again.trained == 2  # hard and full of another seed; as deep a student has one map
    assert [line for line in heard if "left out" in line] == [
        "map-uniform: left out, the recipe would stay as it is or the layers do not fit",
        "map-top: left out, the recipe would stay as it is or the layers do not fit",
    ]
    assert "beyond half of the gap" in (out / "ablate.md").read_text()
    with pytest.raises(AblationError, match=r"settings\.evaluations was 1, is 2"):
        D.ablate(
            opened, out=out, student=student, stages=stages, settings=replace(wider, evaluations=2)
        )


def test_cells_of_one_seed_start_from_the_same_weights(
    make_set: Make, teacher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distill.variants as variants

    starts = []
    original = variants.go_on

    def spy(opened, settings, stages, student, rows, **more):  # type: ignore[no-untyped-def]
        starts.append([p.clone() for p in student.parameters()])
        assert {stage.seed for stage in stages} == {3}
        return original(opened, settings, stages, student, rows, **more)

    monkeypatch.setattr(variants, "go_on", spy)
    job = StagesJob(make_set(copies=1), *quick(teacher), VariantSettings(evaluations=0))
    for name in ("hard", "full"):
        job.train(VariantCell(name, 3))
    assert all(torch.equal(a, b) for a, b in zip(*starts, strict=True))


def test_a_worker_makes_the_same_job(make_set: Make, teacher: Path) -> None:
    job = StagesJob(
        make_set(copies=1), *quick(teacher), VariantSettings(("all",), rows=3, evaluations=1)
    )
    again = job_of(json.loads(json.dumps(job.facts())))
    assert isinstance(again, StagesJob)
    assert (again.student, again.stages) == (job.student, job.stages)
    assert again.settings == job.settings
    cell = VariantCell("full", 1)
    first, second = job.train(cell), again.train(cell)
    first.pop("seconds"), second.pop("seconds")
    assert first == second


def test_half_of_the_gap_and_its_standard_error() -> None:
    task = Task("classification", ("negative", "positive"))
    records = [
        {"cell": {"variant": v, "seed": s}, "points": {"validation": p}, "last_checks": None}
        | {"steps": 4, "learning_rate": 1e-3}
        for v, values in {"hard": (78.0, 82.0), "full": (86.0, 88.0)}.items()
        for s, p in enumerate(values)
    ]
    found = {gain.name: gain for gain in summarise_variants(records, 90.0, task).gains}
    half = found["full beyond half of the gap between hard and teacher (70% closed)"]
    assert half.points == pytest.approx(2.0)  # 87 - (80 + 90) / 2
    assert half.standard_error == pytest.approx((2 / 2 + 8 / 2 / 4) ** 0.5)
    assert found["full - teacher"].points == pytest.approx(-3.0)


def test_settings_of_the_wrong_kind_are_refused(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    student, stages = quick(teacher)
    opened = make_set(copies=1)
    with pytest.raises(AblationError, match="VariantSettings"):
        D.ablate(
            opened, out=tmp_path / "a", student=student, stages=stages, settings=AblateSettings()
        )
    with pytest.raises(AblationError, match="AblateSettings"):
        D.ablate(opened, out=tmp_path / "a", settings=VariantSettings())
    with pytest.raises(ValueError, match='did you mean "full"'):
        VariantSettings(variants=("ful",))


def test_the_command_line_ablates_a_recipe_of_stages(
    make_set: Make, teacher: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "some.toml"
    recipe.write_text(
        '[student]\nkind = "tinybert"\nlayers = 2\nteacher = "teacher"\n'
        '[[stage]]\nobjectives = { "soft-cross-entropy" = 1 }\nsteps = 2\n'
        "[ablate]\nseeds = 1\nprocesses = 1\nevaluations = 1\n"
    )
    assert read(recipe).ablate == VariantSettings(seeds=1, processes=1, evaluations=1)
    call = ["ablate", str(recipe), "--set", str(make_set(copies=1).path)]
    call += ["--out", str(tmp_path / "a"), "--variants", "hard,full", "--rows", "4"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert "every stage, transfer set" in done.output
    recipe.write_text(recipe.read_text().replace("seeds = 1", "batch = 8"))
    with pytest.raises(SettingsError, match="batch"):
        read(recipe)
