"""The command ``distill``: train, judge and compare students of a transfer set."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from augment.terminal import run as run_app

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="""Train small students from a transfer set.

A *recipe* is one TOML file: its sections [teacher], [student], [[stage]], [report] and
[ablate] are read here. The usual way:

\b
1. `augment build RECIPE --out sets/x` makes copies of the corpus
2. `distill teacher RECIPE --set sets/x --out runs/teacher` fine-tunes a teacher on the originals
3. `augment label RECIPE --set sets/x --teacher runs/teacher --out sets/x-labelled` asks it once
4. `distill train RECIPE --set sets/x-labelled --out runs/x` trains the student
5. `distill report runs/x` compares both

`distill ablate` says how much of the gain comes from the teacher and how much from the copies.
""",
)

RecipeFile = Annotated[Path, typer.Argument(help="The recipe, a TOML file.")]
Set = Annotated[Path, typer.Option("--set", help="A finished transfer set.")]
Vectors = Annotated[
    str | None, typer.Option("--vectors", help="Word vectors, instead of the recipe's.")
]
Out = Annotated[Path, typer.Option("--out", help="Folder to write; new, or this very run's.")]


@app.command()
def teacher(recipe: RecipeFile, set_: Set, out: Out) -> None:
    r"""Fine-tune a teacher on the set's original rows, never on copies.

    Reads [teacher]: `base` names the encoder (a hub name, a folder, or `package:module` for
    weights inside an installed package). Writes a plain transformers folder.
    """
    from dataclasses import replace

    from augment.settings import TeacherSettings, read_recipe

    read = read_recipe(recipe)
    settings = read.section(TeacherSettings, "teacher")
    settings = replace(settings, base=read.model(settings.base))
    from distill.teacher import fine_tune

    taught = fine_tune(set_, settings, out=out)
    _metrics(str(out), taught.metrics)


@app.command()
def train(
    recipe: RecipeFile,
    out: Out,
    set_: Annotated[
        Path | None,
        typer.Option("--set", help="A finished transfer set; none where stages read raw text."),
    ] = None,
    vectors: Vectors = None,
) -> None:
    r"""Train a student through the recipe's stages and evaluate it.

    Reads [student] and each [[stage]]. The folder then loads with
    `AutoModelForSequenceClassification.from_pretrained`; a BiLSTM after `import distill`, a
    TinyBERT anywhere. Without --set every stage reads raw text (general distillation), and the
    folder is an encoder that other students start from: `init = "FOLDER"`.
    """
    from distill.recipe import read

    read_ = read(recipe, vectors=vectors)
    from distill.runs import train as run

    finished = run(set_, out=out, student=read_.student, stages=read_.stages)
    if finished.metrics:
        _metrics(str(out), finished.metrics)
    else:
        Console().print(f"written: {out}", highlight=False, markup=False)


@app.command()
def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Finished runs; the report goes to the first.")
    ],
    teacher: Annotated[
        Path | None, typer.Option(help="The teacher's folder, to measure its size and speed.")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="A recipe with a [report] section.")] = None,
    out: Annotated[Path | None, typer.Option(help="Another folder for the report.")] = None,
) -> None:
    """Put teacher and students side by side: accuracy with its interval, size, speed."""
    from distill.recipe import ReportSettings, read

    settings = read(recipe).report if recipe is not None else ReportSettings()
    from distill.reporting import report as make

    made = make(*runs, teacher=teacher, settings=settings, out=out)
    _table(made.header, made.rows)
    Console().print(f"written: {made.path / 'report.md'}, report.json", highlight=False)


@app.command()
def ablate(
    recipe: RecipeFile,
    set_: Set,
    out: Out,
    vectors: Vectors = None,
    seeds: Annotated[
        int | None, typer.Option(help="Seeds a cell, instead of the recipe's.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps a cell, instead of the recipe's.")
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(help="TinyBERT: names with commas between, or all, instead of the recipe's."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="TinyBERT: source rows of train, instead of the recipe's.")
    ] = None,
) -> None:
    r"""Train students that differ in one thing, at equal steps, over several seeds.

    A BiLSTM: {hard labels, logits} × {originals, copies}, which tells the gain of the teacher's
    logits from that of the copies. A TinyBERT: variants of its recipe, such as hard labels,
    predictions alone, without augmentation, without each loss, other layer maps; --variants all
    trains every one that applies. An interrupted ablation goes on where it stopped, and more seeds
    or variants are added to it.
    """
    from dataclasses import replace

    from augment.errors import SettingsError
    from distill.recipe import AblateSettings, read

    read_ = read(recipe, vectors=vectors)
    cells = isinstance(read_.ablate, AblateSettings)
    changes: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    changes |= {} if steps is None else {"steps": steps} | ({"epochs": None} if cells else {})
    changes |= {} if variants is None else {"variants": tuple(variants.split(","))}
    changes |= {} if rows is None else {"rows": rows}
    if cells and (variants is not None or rows is not None):
        raise SettingsError("--variants and --rows belong to a transformer student's ablation")
    try:
        settings = replace(read_.ablate, **changes)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    from distill.ablation import ablate as run
    from distill.stages import TransformerStage
    from distill.summary import sentences, table

    console = Console(stderr=True)
    done = run(
        set_,
        out=out,
        student=read_.student,
        stages=[stage for stage in read_.stages if isinstance(stage, TransformerStage)],
        settings=settings,
        say=lambda line: console.print(line, highlight=False),
    )
    header, lines = table(done.summary)
    _table(header, lines, title=f"{done.summary.measure}, {done.summary.seeds} seeds")
    for sentence in sentences(done.summary):
        Console().print(sentence, highlight=False)
    Console().print(f"written: {done.path / 'ablate.md'}, ablate.json", highlight=False)


def _metrics(title: str, metrics: dict[str, dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for found in metrics.values() for name in found))
    rows = [
        (split, *(f"{found[name]:.4g}" if name in found else "–" for name in names))
        for split, found in metrics.items()
    ]
    _table(("split", *names), rows, title=title)


def _table(
    header: tuple[str, ...],
    rows: Any,
    title: str | None = None,
) -> None:
    from rich.table import Table

    made = Table(title=title)
    for place, name in enumerate(header):
        made.add_column(_plain(name), justify="left" if place == 0 else "right")
    for row in rows:
        made.add_row(*map(_plain, row))
    # Into a file or a pipe the whole table goes, however wide.
    Console(width=None if sys.stdout.isatty() else 160).print(made)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def main() -> None:
    """Run the command line."""
    run_app(app)


if __name__ == "__main__":
    main()
