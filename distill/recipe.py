"""The recipe's sections that belong to `distill`: ``[student] [[stage]] [report] [ablate]``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from augment.errors import SettingsError
from augment.settings import Recipe, parse, read_recipe, suggestion
from distill.objectives import Distance, Objective
from distill.stages import INITS, TinyBERTSettings, TransformerStage


def _place(recipe: Recipe, vectors: str) -> str:
    # A bare name that is no file belongs to gensim's downloader, such as glove-wiki-gigaword-300.
    path = recipe.resolve(vectors)
    bare = not Path(vectors).suffix and Path(vectors).name == vectors
    return vectors if bare and not path.exists() else str(path)


def _counts(record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if value < 1:
            raise ValueError(f"{name} is a count of at least 1, got {value}")


@dataclass(frozen=True, slots=True)
class StudentSettings:
    """A BiLSTM student's shape and its word vectors.

    ``hidden`` is the width of one direction, ``head`` of the layer above. ``vectors`` names a file
    of word vectors (relative to the recipe) or a set of ``gensim.downloader``; its width then
    replaces ``dims``. Without it the vectors start small and random. ``max_words`` bounds each
    training text; words seen less than ``min_count`` times are unknown.
    """

    kind: Literal["bilstm"] = "bilstm"
    hidden: int = 150
    head: int = 200
    channels: int = 2
    dims: int = 300
    vectors: str | None = None
    dropout: float = 0.1
    max_words: int = 128
    min_count: int = 1

    def __post_init__(self) -> None:
        _counts(self, "hidden", "head", "dims", "max_words", "min_count")
        if self.channels not in (1, 2):
            raise ValueError(f"channels is 1 (trained) or 2 (frozen, trained), got {self.channels}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a probability in [0, 1), got {self.dropout}")


@dataclass(frozen=True, slots=True)
class StageSettings:
    """One stage of training: what is read, what is matched, for how long.

    Exactly one of ``epochs`` and ``steps`` says how long. ``alpha`` weighs the hard term against
    the distance. ``evaluations`` checks on validation are spread evenly; ``select`` keeps the best
    of them (the paper's way) or the last state. ``learning_rate`` is the optimiser's own default
    when left out: 1.0 for AdaDelta, 0.001 for AdamW.
    ``precision`` is that of the large products in training; ``auto`` is bf16 where the machine
    has it.
    """

    epochs: float | None = None
    steps: int | None = None
    data: Literal["originals", "transfer-set"] = "transfer-set"
    objective: Distance = "logits-mse"
    alpha: float = 0.0
    temperature: float = 1.0
    target: Literal["label", "argmax"] = "label"
    batch: int = 50
    optimiser: Literal["adadelta", "adamw"] = "adadelta"
    learning_rate: float | None = None
    seed: int = 0
    select: Literal["validation", "last"] = "validation"
    evaluations: int = 10
    precision: Literal["auto", "fp32", "bf16"] = "fp32"

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("exactly one of epochs and steps says how long; write epochs = 3")
        _counts(self, "batch")
        for name in ("epochs", "steps", "temperature", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is a number above 0, got {value}")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is a weight in [0, 1], got {self.alpha}")
        if self.evaluations < 0:
            raise ValueError(f"evaluations is a count of at least 0, got {self.evaluations}")
        if self.select == "validation" and not self.evaluations:
            raise ValueError('evaluations = 0 leaves nothing to select; write select = "last"')
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is a whole number in [0, 2**32), got {self.seed}")

    @property
    def rate(self) -> float:
        """The learning rate, the optimiser's default filled in."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1.0 if self.optimiser == "adadelta" else 1e-3

    def loss(self, *, regression: bool) -> Objective:
        """Return the composed objective."""
        return Objective(self.objective, self.alpha, self.temperature, self.target, regression)


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """How cost is measured: ``repeats`` timings at batch 1, and rows timed at batch 128."""

    repeats: int = 50
    rows: int = 1024
    threads: int | None = None
    figure: bool = True

    def __post_init__(self) -> None:
        _counts(self, "repeats", "rows")
        if self.threads is not None:
            _counts(self, "threads")


@dataclass(frozen=True, slots=True)
class AblateSettings:
    """Four cells at equal steps over ``seeds`` seeds, and a fifth with the teacher's argmax.

    ``steps`` for every cell; or ``epochs``, counted on the originals. ``choose_learning_rate``
    lists rates tried on ``slice_rows`` source rows held out of train; empty keeps the stage's own.
    ``choose_steps`` lets the same trials choose after which of their evaluations to stop.
    ``processes`` trains several cells at once, each with one thread: same results, other speed.
    """

    seeds: int = 3
    steps: int | None = None
    epochs: float | None = None
    batch: int = 50
    optimiser: Literal["adadelta", "adamw"] = "adadelta"
    learning_rate: float | None = None
    choose_learning_rate: tuple[float, ...] = ()
    choose_steps: bool = False
    slice_rows: int = 2000
    evaluations: int = 10
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    processes: int = 2

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs both say how long; keep one")
        _counts(self, "seeds", "batch", "slice_rows", "evaluations", "processes")
        if self.choose_steps and not self.choose_learning_rate:
            raise ValueError("choose_steps needs trials; list their rates in choose_learning_rate")
        if any(not rate > 0 for rate in self.choose_learning_rate):
            raise ValueError("choose_learning_rate lists numbers above 0")


VARIANTS = (
    "hard",
    "logits",
    "without-augmentation",
    "full",
    "without-transformer",
    "without-attention",
    "without-hidden",
    "without-embedding",
    "without-prediction",
    "without-general",
    "map-uniform",
    "map-top",
    "map-bottom",
)
"""What ``distill ablate`` can do to a transformer student's recipe; the first four by default."""


@dataclass(frozen=True, slots=True)
class VariantSettings:
    """[ablate] of a transformer student: variants of its recipe at equal steps, over seeds.

    ``variants`` are names of :data:`VARIANTS`, or ``["all"]``. ``steps`` are a variant's in all;
    without it as many as the recipe's stages make. ``rows`` source rows of train, with their
    copies, are used; all without it. ``evaluations`` checks are made in a stage that trains
    predictions, and the last state is kept. ``processes`` trains several students at once, each
    with one thread: same results, other speed.
    """

    variants: tuple[str, ...] = VARIANTS[:4]
    seeds: int = 3
    steps: int | None = None
    rows: int | None = None
    evaluations: int = 5
    processes: int = 2

    def __post_init__(self) -> None:
        _counts(self, "seeds", "processes")
        for name in ("steps", "rows"):
            if getattr(self, name) is not None:
                _counts(self, name)
        if self.evaluations < 0:
            raise ValueError(f"evaluations is a count of at least 0, got {self.evaluations}")
        if not self.variants:
            raise ValueError(f"variants names none; choose among all, {', '.join(VARIANTS)}")
        for name in self.variants:
            if name not in VARIANTS and tuple(self.variants) != ("all",):
                known = ("all", *VARIANTS)
                raise ValueError(f'variants has no "{name}"{suggestion(name, known)}')

    @property
    def names(self) -> tuple[str, ...]:
        """The variants asked for, each once."""
        every = tuple(self.variants) == ("all",)
        return VARIANTS if every else tuple(dict.fromkeys(self.variants))


@dataclass(frozen=True, slots=True)
class DistillRecipe:
    """The sections of one recipe file that `distill` reads; all checked before any work."""

    source: Recipe
    student: StudentSettings | TinyBERTSettings
    stages: tuple[StageSettings, ...] | tuple[TransformerStage, ...]
    report: ReportSettings
    ablate: AblateSettings | VariantSettings


KINDS = ("bilstm", "tinybert")
DEFAULT_STAGES = (StageSettings(epochs=3.0),)


def read(path: str | Path, *, vectors: str | None = None) -> DistillRecipe:
    """Read and check a recipe.

    Args:
        path: the TOML file.
        vectors: word vectors instead of the recipe's; relative to the current folder.

    Raises:
        SettingsError: unknown section or key, wrong type, value out of range.
    """
    recipe = read_recipe(path)
    report = recipe.section(ReportSettings, "report")
    kind = recipe.tables.get("student", {}).get("kind", KINDS[0])
    if kind not in KINDS:
        raise SettingsError(
            f"{recipe.path}, [student]: no student of the kind {kind!r}"
            f"{suggestion(str(kind), KINDS)}"
        )
    if kind == "tinybert":
        if vectors is not None:
            raise SettingsError(f"{recipe.path}: a tinybert student has no word vectors")
        variants = recipe.section(VariantSettings, "ablate")
        return DistillRecipe(recipe, *_tinybert(recipe), report, variants)
    student = recipe.section(StudentSettings, "student")
    if vectors is not None:
        student = replace(student, vectors=vectors)
    elif student.vectors is not None:
        student = replace(student, vectors=_place(recipe, student.vectors))
    stages = tuple(
        parse(StageSettings, table, f"{recipe.path}, [[stage]] {number}")
        for number, table in enumerate(recipe.tables.get("stage", []), start=1)
    )
    return DistillRecipe(
        source=recipe,
        student=student,
        stages=stages or DEFAULT_STAGES,
        report=report,
        ablate=recipe.section(AblateSettings, "ablate"),
    )


def _tinybert(recipe: Recipe) -> tuple[TinyBERTSettings, tuple[TransformerStage, ...]]:
    """Read the student and its stages; folders are relative to the recipe."""
    student = recipe.section(TinyBERTSettings, "student")
    words = {("init", word) for word in INITS}
    folders: dict[str, Any] = {
        name: recipe.model(value)
        for name in ("init", "teacher", "tokenizer")
        if (value := getattr(student, name)) is not None and (name, value) not in words
    }
    stages = [
        parse(TransformerStage, table, f"{recipe.path}, [[stage]] {number}")
        for number, table in enumerate(recipe.tables.get("stage", []), start=1)
    ]
    if not stages:
        raise SettingsError(f"{recipe.path}: a tinybert student learns in stages; write [[stage]]")
    return replace(student, **folders), tuple(_found(recipe, stage) for stage in stages)


def _found(recipe: Recipe, stage: TransformerStage) -> TransformerStage:
    """Return the stage with its teacher and its texts where the recipe means them to be."""
    texts = tuple(
        name if name.startswith("package:") else str(recipe.resolve(name)) for name in stage.texts
    )
    teacher = None if stage.teacher is None else recipe.model(stage.teacher)
    return replace(stage, teacher=teacher, texts=texts)
