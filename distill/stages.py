"""Recipe sections of a transformer student: ``[student] kind = "tinybert"`` and its stages."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from augment.settings import suggestion

INITS = ("random", "teacher", "teacher-first")
ON_SCORES = ("attention", "attention-kl")
ON_STATES = ("hidden", "cosine", "patience")
INSIDE = (*ON_SCORES, *ON_STATES, "embedding")
"""Objectives that need the teacher itself, on the student's own tokens."""
ON_LOGITS = ("soft-cross-entropy", "logits-mse")
PREDICTION = (*ON_LOGITS, "hard-cross-entropy")
"""Objectives that read the transfer set's columns, and no teacher."""
PARTS = ("embeddings", "encoder", "pooler", "classifier")
RULES = ("uniform", "top", "bottom")


@dataclass(frozen=True, slots=True)
class TinyBERTSettings:
    """A small BERT as student.

    ``size`` is the paper's 4 or 6 layers; else ``layers``, with the teacher's widths where they are
    left out. ``init`` is ``random``; ``teacher`` (its layers, evenly spaced) or ``teacher-first``
    (its first ones); or the folder of a saved BERT of this shape. ``teacher`` names the folder of
    vocabulary and layers; by default the teacher that labelled the set. ``tokenizer`` is the folder
    of another vocabulary, for stages on predictions alone. ``max_tokens`` bounds a row, pairs
    jointly, special tokens included.
    """

    kind: Literal["tinybert"] = "tinybert"
    size: Literal[4, 6] | None = None
    layers: int | None = None
    hidden: int | None = None
    intermediate: int | None = None
    heads: int | None = None
    init: str = "random"
    teacher: str | None = None
    tokenizer: str | None = None
    dropout: float = 0.1
    max_tokens: int = 128

    def __post_init__(self) -> None:
        sizes = ("layers", "hidden", "intermediate", "heads")
        for name in (*sizes, "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is a count of at least 1, got {value}")
        given = [name for name in sizes if getattr(self, name) is not None]
        if self.size is not None and given:
            raise ValueError(f"size = {self.size} says {given[0]} already; keep one of them")
        if self.size is None and self.layers is None and self.init in INITS:
            raise ValueError("the student's depth is missing; write size = 4 or layers = 4")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a probability in [0, 1), got {self.dropout}")
        near = difflib.get_close_matches(self.init, INITS, n=1, cutoff=0.7)
        if self.init not in INITS and near and not Path(self.init).exists():
            raise ValueError(
                f'init is {", ".join(INITS)} or a folder, got "{self.init}"; '
                f'did you mean "{near[0]}"?'
            )
        if self.tokenizer is not None and self.init != "random":
            raise ValueError(
                f'tokenizer names another vocabulary, and init = "{self.init}" comes with its own; '
                'write init = "random" or leave tokenizer out'
            )

    @property
    def start(self) -> str | None:
        """The folder of saved weights that the student starts from, if any."""
        return None if self.init in INITS else self.init


@dataclass(frozen=True, slots=True)
class TransformerStage:
    """One stage of a transformer student: which terms, on which rows, for how long.

    ``objectives`` are weights by name; rows' terms are added up unscaled, as the objectives
    document them, over the mapped layers. ``attention``, ``attention-kl``, ``hidden``, ``cosine``,
    ``patience`` and ``embedding`` run the ``teacher`` beside the student (a folder; by default the
    student's); the others read the set's logits and labels, and no teacher is loaded. In a
    regression ``hard-cross-entropy`` is the squared distance to the label.

    ``data = "raw-text"`` reads ``texts`` instead of the set: files, or ``package:gensim``, of whose
    tables the text ``columns`` are taken; texts of fewer than ``min_words`` words are left out.
    With a teacher that was never fine-tuned this is general distillation.
    Source: Jiao et al. 2020 (TinyBERT), section 3.2, https://arxiv.org/abs/1909.10351.

    ``freeze`` names what is not trained; ``clip`` bounds the gradient's norm, 0 not at all.
    ``evaluations`` and ``select`` belong to stages that train predictions: ten checks, the best
    state kept; other stages keep their last state.
    """

    objectives: dict[str, Any]
    epochs: float | None = None
    steps: int | None = None
    data: Literal["originals", "transfer-set", "raw-text"] = "transfer-set"
    texts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("text",)
    min_words: int = 1
    teacher: str | None = None
    layer_map: str | tuple[int, ...] | None = None
    temperature: float = 1.0
    freeze: tuple[Literal["embeddings", "encoder", "pooler", "classifier"], ...] = ()
    batch: int = 32
    optimiser: Literal["adamw", "adadelta"] = "adamw"
    learning_rate: float | None = None
    schedule: Literal["constant", "linear"] = "linear"
    warmup: float = 0.1
    weight_decay: float | None = None
    clip: float = 1.0
    seed: int = 0
    select: Literal["validation", "last"] | None = None
    evaluations: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "fp32"

    def __post_init__(self) -> None:
        _check_weights(self.objectives)
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("exactly one of epochs and steps says how long; write epochs = 3")
        for name in ("epochs", "steps", "temperature", "learning_rate", "batch"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is a number above 0, got {value}")
        if self.min_words < 1 or not self.columns:
            raise ValueError(
                "min_words is a count of at least 1 and columns names one column at least, got "
                f"{self.min_words} and {list(self.columns)}"
            )
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup is a share of the steps in [0, 1), got {self.warmup}")
        for name in ("weight_decay", "clip"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is a number of at least 0, got {value}")
        reached = (
            PARTS if self.predicts else PARTS[: 2 if self.reads(*ON_SCORES, *ON_STATES) else 1]
        )
        if set(self.freeze) >= set(reached):
            raise ValueError(
                f"freeze names every part of the student that the objectives reach "
                f"({', '.join(reached)}), so nothing is trained"
            )
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is a whole number in [0, 2**32), got {self.seed}")
        if isinstance(self.layer_map, str) and self.layer_map not in RULES:
            raise ValueError(
                "layer_map is a rule or a list of teacher layers, "
                f'got "{self.layer_map}"{suggestion(self.layer_map, RULES)}'
            )
        self._refuse_unread()
        self._refuse_idle()
        if self.select == "validation" and not self.checks:
            raise ValueError('evaluations = 0 leaves nothing to select; write select = "last"')

    def _refuse_unread(self) -> None:
        """Raw text is read where it is asked for and named, by objectives that need no more."""
        if self.raw and not self.texts:
            raise ValueError('data = "raw-text" names no files; write texts = ["FILE.txt"]')
        if self.raw and self.predicts:
            on = next(name for name in PREDICTION if self.reads(name))
            raise ValueError(
                f"raw text has neither a teacher's logits nor labels, which {on} reads; write "
                'data = "transfer-set", or keep to objectives such as hidden'
            )
        given = {
            "texts": bool(self.texts),
            "columns": tuple(self.columns) != ("text",),
            "min_words": self.min_words != 1,
        }
        for name in given:
            if given[name] and not self.raw:
                raise ValueError(
                    f'{name} is not read by data = "{self.data}"; write data = "raw-text", '
                    "or leave it out"
                )

    def _refuse_idle(self) -> None:
        """A setting that would do nothing is a mistake."""
        on = ", ".join(name for name, weight in self.objectives.items() if weight > 0)
        if self.teacher is not None and not self.inside:
            raise ValueError(f"teacher is not read by {on}, which learn from the set; leave it out")
        if not self.predicts and (outside := set(self.freeze) & {"pooler", "classifier"}):
            raise ValueError(f"{on} train no {min(outside)}, so it needs no freeze; leave it out")
        if self.layer_map is not None and not self.reads(*ON_SCORES, *ON_STATES):
            raise ValueError(f"layer_map is not read by {on}; leave it out")
        if self.temperature != 1 and not self.reads("soft-cross-entropy"):
            raise ValueError("temperature is read by soft-cross-entropy alone; leave it out")
        if self.weight_decay is not None and self.optimiser != "adamw":
            raise ValueError(f"weight_decay is not read by {self.optimiser}; leave it out")
        if self.evaluations is not None and self.evaluations < 0:
            raise ValueError(f"evaluations is a count of at least 0, got {self.evaluations}")
        if not self.predicts and (self.select == "validation" or self.evaluations):
            raise ValueError(
                f"{on} train no prediction to check on validation; leave evaluations and select out"
            )

    @property
    def raw(self) -> bool:
        """Whether the rows are raw text, and the transfer set is not read."""
        return self.data == "raw-text"

    @property
    def inside(self) -> bool:
        """Whether the teacher runs beside the student."""
        return self.reads(*INSIDE)

    @property
    def predicts(self) -> bool:
        """Whether the student's logits are trained."""
        return self.reads(*PREDICTION)

    @property
    def needs_logits(self) -> bool:
        """Whether a term with weight reads the set's logits."""
        return self.reads(*ON_LOGITS)

    @property
    def needs_labels(self) -> bool:
        """Whether a term with weight reads the set's labels."""
        return self.reads("hard-cross-entropy")

    @property
    def checks(self) -> int:
        """Evaluations on validation."""
        if self.evaluations is None:
            return 10 if self.predicts else 0
        return self.evaluations

    @property
    def keeps(self) -> Literal["validation", "last"]:
        """Which state is kept."""
        return self.select or ("validation" if self.checks else "last")

    @property
    def rate(self) -> float:
        """The learning rate, the optimiser's default filled in."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1.0 if self.optimiser == "adadelta" else 5e-5

    @property
    def decay(self) -> float:
        """AdamW's weight decay."""
        return 0.01 if self.weight_decay is None else self.weight_decay

    def reads(self, *names: str) -> bool:
        """Whether one of these objectives has weight."""
        return any(self.objectives.get(name, 0) > 0 for name in names)


def _check_weights(objectives: dict[str, Any]) -> None:
    known = (*INSIDE, *PREDICTION)
    for name, weight in objectives.items():
        if name not in known:
            raise ValueError(f'no objective "{name}"{suggestion(name, known)}')
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 <= weight < float("inf"):
            raise ValueError(f"objectives.{name} is a weight of at least 0, got {weight!r}")
    if not any(weight > 0 for weight in objectives.values()):
        raise ValueError(
            'objectives gives no term a weight; write objectives = { "soft-cross-entropy" = 1 }'
        )
