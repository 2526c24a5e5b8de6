"""The models that stages begin with and learn from: a student, its tokenizer, its teachers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerBase,
)

from augment.progress import quiet
from augment.settings import model_folder
from augment.transferset import TransferSet
from distill.errors import StageError, StudentError
from distill.layers import spread
from distill.matching import layers_of
from distill.stages import TinyBERTSettings, TransformerStage
from distill.students.tinybert import (
    SIZES,
    Shape,
    start_from_folder,
    start_from_layers,
    tinybert,
)


def teachers(
    opened: TransferSet | None, settings: TinyBERTSettings, stages: Sequence[TransformerStage]
) -> list[Path]:
    """Return the folders of the teachers that the student or a stage reads."""
    names = [teacher_of(opened, settings, stage) for stage in stages if stage.inside]
    if settings.start is None and settings.init != "random":
        names.append(_base_of(opened, settings, stages))
    return [Path(model_folder(name)) for name in dict.fromkeys(names)]


def teacher_of(
    opened: TransferSet | None, settings: TinyBERTSettings, stage: TransformerStage
) -> str:
    """Return the teacher of a stage: its own, the student's, or the one that labelled the set."""
    return _first(opened, stage.teacher, settings.teacher, *_labeller(opened))


def _base_of(
    opened: TransferSet | None, settings: TinyBERTSettings, stages: Sequence[TransformerStage]
) -> str:
    """Return the teacher that the student takes its vocabulary and layers from.

    It is the student's or the one that labelled the set, else the first that a stage names.
    """
    of_stages = (stage.teacher for stage in stages)
    return _first(opened, settings.teacher, *_labeller(opened), *of_stages)


def _labeller(opened: TransferSet | None) -> tuple[str | None, str | None]:
    labelled = (opened.manifest.teacher if opened is not None else None) or {}
    return labelled.get("folder"), labelled.get("name")


def _first(opened: TransferSet | None, *names: str | None) -> str:
    for name in names:
        if name:
            return str(name)
    if opened is None:
        raise StageError('raw text has no teacher; name one in [student]: teacher = "FOLDER"')
    raise StageError(
        f"{opened.path}: no teacher labelled this set, so none is known; "
        'name one in [student] or in the stage: teacher = "FOLDER"'
    )


def begun_student(folder: Path, *, headed: bool) -> tuple[Any, PreTrainedTokenizerBase]:
    """Return a student of the shape that the folder was begun with; its weights follow."""
    kind = BertForSequenceClassification if headed else BertModel
    with torch.random.fork_rng(devices=[]):
        student = kind(BertConfig.from_pretrained(folder))
    return student, AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def new_student(
    opened: TransferSet | None, settings: TinyBERTSettings, stages: Sequence[TransformerStage]
) -> tuple[Any, PreTrainedTokenizerBase]:
    """Return the student that the first stage starts with, and its tokenizer.

    Raises:
        StageError: no teacher is named.
        StudentError: the student cannot be built as asked.
    """
    base = _vocabulary(opened, settings, stages)
    tokenizer = _tokenizer(base)
    config = None if settings.tokenizer is not None else _config(base)
    regression = opened is not None and opened.task.kind == "regression"
    problem: Any = "regression" if regression else "single_label_classification"
    student = tinybert(
        _shape(settings, config),
        classes=None if opened is None else opened.task.classes,
        problem=None if opened is None else problem,
        seed=stages[0].seed,
        teacher=config,
        tokenizer=tokenizer if config is None else None,
        dropout=settings.dropout,
    )
    if settings.start is not None:
        start_from_folder(student, model_folder(settings.start))
    elif settings.init != "random":
        teacher = encoder(base, head=True)
        depths = student.config.num_hidden_layers, teacher.config.num_hidden_layers
        first = settings.init == "teacher-first"
        start_from_layers(student, teacher, range(1, depths[0] + 1) if first else spread(*depths))
    return student, tokenizer


def reading(
    opened: TransferSet, settings: TinyBERTSettings, stages: Sequence[TransformerStage]
) -> tuple[PreTrainedTokenizerBase, int]:
    """Return the tokenizer, and the tokens of a row at most, of a student yet to be built."""
    base = _vocabulary(opened, settings, stages)
    config = None if settings.tokenizer is not None else _config(base)
    most = getattr(config, "max_position_embeddings", settings.max_tokens)
    return _tokenizer(base), min(settings.max_tokens, most)


def check_map(
    opened: TransferSet,
    settings: TinyBERTSettings,
    stages: Sequence[TransformerStage],
    stage: TransformerStage,
) -> None:
    """Refuse a stage's layer map that does not fit its teacher and a student yet to be built.

    Raises:
        StageError: the valid choices are listed.
    """
    if not stage.inside:
        return
    base = None
    if settings.tokenizer is None:
        base = _config(_vocabulary(opened, settings, stages))
    layers_of(stage, _shape(settings, base).layers, _config(teacher_of(opened, settings, stage)))


def _vocabulary(
    opened: TransferSet | None, settings: TinyBERTSettings, stages: Sequence[TransformerStage]
) -> str:
    return settings.start or settings.tokenizer or _base_of(opened, settings, stages)


def _shape(settings: TinyBERTSettings, config: Any) -> Shape:
    if settings.size is not None:
        return SIZES[settings.size]
    names = {
        "layers": "num_hidden_layers",
        "hidden": "hidden_size",
        "intermediate": "intermediate_size",
        "heads": "num_attention_heads",
    }
    sizes: dict[str, Any] = {
        key: getattr(settings, key) or getattr(config, names[key], None) for key in names
    }
    if missing := [key for key, value in sizes.items() if not value]:
        raise StudentError(
            f"[student] {missing[0]} is left out, and the teacher's config names no "
            f"{names[missing[0]]}; write {missing[0]}, or size = 4"
        )
    try:
        return Shape(**sizes)
    except ValueError as error:
        raise StudentError(f"[student], with the teacher's sizes filled in: {error}") from error


def check_teacher(
    name: str, stage: TransformerStage, student: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse what training would stumble over: another vocabulary, a map that does not fit."""
    config = _config(name)
    if _tokenizer(name).get_vocab() != tokenizer.get_vocab():
        raise StageError(
            f"the student's vocabulary is not that of the teacher {name}; "
            f"{', '.join(n for n in stage.objectives)} match token by token, which needs the same "
            "tokens on both sides; leave tokenizer out of [student], or keep to soft-cross-entropy "
            "and logits-mse"
        )
    layers_of(stage, student.num_hidden_layers, config)


def check_length(name: str, longest: int) -> None:
    """Refuse rows that are longer than their teacher can read.

    Raises:
        StageError: names the setting that cuts them.
    """
    config = _config(name)
    most = getattr(config, "max_position_embeddings", None) or longest
    if "roberta" in config.model_type:  # its positions start after the padding's
        most -= config.pad_token_id + 1
    if longest > most:
        raise StageError(
            f"the teacher {name} reads {most} tokens at most, and a row has {longest}; "
            f"write max_tokens = {most} in [student]"
        )


def _config(name: str) -> Any:
    with _found(name):
        return AutoConfig.from_pretrained(model_folder(name), trust_remote_code=False)


def _tokenizer(name: str) -> PreTrainedTokenizerBase:
    with _found(name):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            model_folder(name), trust_remote_code=False
        )
        return tokenizer


def encoder(name: str, *, head: bool = False) -> Any:
    """Load a model in float32, with its classification head where that is asked for and saved."""
    folder = model_folder(name)
    config = _config(name)
    saved = str((config.architectures or [""])[0]).endswith("ForSequenceClassification")
    auto = AutoModelForSequenceClassification if head and saved else AutoModel
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # a head left out is so by intent
    try:
        # What a folder lacks is drawn, which must not move the caller's generator.
        with _found(name), quiet(), torch.random.fork_rng(devices=[]):
            return auto.from_pretrained(
                folder, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
            ).eval()
    finally:
        transformers.logging.set_verbosity(level)


@contextmanager
def _found(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise StudentError(
            f"{name}: no model to learn from or to start from ({first}); name the teacher's "
            'folder with teacher = "FOLDER"; stages on predictions alone need none when init or '
            "tokenizer names a folder"
        ) from error
