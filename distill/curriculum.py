"""All stages of a transformer student, in order: where it starts, who teaches it, what is kept.

A teacher is loaded for the stages that look inside it and for nothing else. From the first stage
on, the run folder holds the student's config and tokenizer, so that a run that goes on after its
last such stage needs no teacher either.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
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
    PreTrainedTokenizerBase,
)

from augment.files import follower
from augment.progress import quiet
from augment.settings import model_folder
from augment.transferset import TransferSet
from distill.errors import StageError, StudentError
from distill.evaluation import evaluate
from distill.examples import read_examples
from distill.layers import spread
from distill.losses import StageResult
from distill.matching import check_stage, layers_of, rows_of, run_matching
from distill.resume import STATE, keep, kept, read, save
from distill.stages import TinyBERTSettings, TransformerStage
from distill.students.tinybert import (
    SIZES,
    Shape,
    start_from_folder,
    start_from_layers,
    tinybert,
)


@dataclass(frozen=True, slots=True)
class Finished:
    """What training through every stage gave."""

    results: list[StageResult]
    metrics: dict[str, dict[str, float]]
    words: int


def go_through(
    opened: TransferSet,
    settings: TinyBERTSettings,
    stages: Sequence[TransformerStage],
    folder: Path,
    *,
    show: bool | None = None,
) -> Finished:
    """Train a student through ``stages`` and save it into ``folder``; a killed run goes on.

    Raises:
        StageError: a stage lacks a column, a teacher, or the teacher's vocabulary.
        StudentError: the student cannot be built as asked.
    """
    state = folder / STATE
    done = [StageResult(**result) for result in read(state, tensors=False)[0].get("mark", [])]
    if state.exists() and (folder / "config.json").is_file():
        student, tokenizer = _begun(folder)
    else:
        student, tokenizer = _new(opened, settings, seed=stages[0].seed)
    for stage in stages[len(done) :]:
        if stage.inside:
            _check_teacher(_teacher_of(opened, settings, stage), stage, student.config, tokenizer)
    limit = min(settings.max_tokens, student.config.max_position_embeddings)
    splits = {
        split: read_examples(opened, split, tokenizer, max_tokens=limit) for split in opened.splits
    }
    for stage in stages[len(done) :]:
        chosen = rows_of(stage, splits["train"])
        check_stage(stage, chosen, opened.task, str(opened.path))
        if stage.inside:
            _check_length(_teacher_of(opened, settings, stage), int(chosen.lengths.max()))
    if (
        not state.exists() and not follower()
    ):  # from here on, what a resumed run needs is in the folder
        with quiet():
            student.config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    kept(state, student)
    for stage in stages[len(done) :]:
        teacher = _encoder(_teacher_of(opened, settings, stage)) if stage.inside else None
        result = run_matching(
            student,
            splits["train"],
            stage,
            task=opened.task,
            teacher=teacher,
            validation=splits.get("validation"),
            show=show,
            checkpoint=state,
            mark=[asdict(result) for result in done],
        )
        done.append(result)
        keep(state, student, [asdict(result) for result in done])
    metrics = {
        split: evaluate(student, examples, opened.task)
        for split, examples in splits.items()
        if split != "train"
    }
    save(student, tokenizer, folder)
    return Finished(done, metrics, len(tokenizer))


def teachers(
    opened: TransferSet, settings: TinyBERTSettings, stages: Sequence[TransformerStage]
) -> list[Path]:
    """Return the folders of weights that a stage reads or the student starts from."""
    names = [_teacher_of(opened, settings, stage) for stage in stages if stage.inside]
    if settings.init != "random":
        names.append(settings.start or _teacher_of(opened, settings))
    return [Path(model_folder(name)) for name in dict.fromkeys(names)]


def _teacher_of(
    opened: TransferSet, settings: TinyBERTSettings, stage: TransformerStage | None = None
) -> str:
    """Return the teacher of a stage: its own, the student's, or the one that labelled the set."""
    labelled = opened.manifest.teacher or {}
    own = stage.teacher if stage is not None else None
    name = own or settings.teacher or labelled.get("folder") or labelled.get("name")
    if not name:
        raise StageError(
            f"{opened.path}: no teacher labelled this set, so none is known; "
            'name one in the stage: teacher = "FOLDER"'
        )
    return str(name)


def _begun(folder: Path) -> tuple[Any, PreTrainedTokenizerBase]:
    """Return a student of the shape that the folder was begun with; its weights follow."""
    with torch.random.fork_rng(devices=[]):
        student = BertForSequenceClassification(BertConfig.from_pretrained(folder))
    return student, AutoTokenizer.from_pretrained(folder)


def _new(
    opened: TransferSet, settings: TinyBERTSettings, *, seed: int
) -> tuple[Any, PreTrainedTokenizerBase]:
    """Return the student that the first stage starts with, and its tokenizer."""
    base = settings.start or settings.tokenizer or _teacher_of(opened, settings)
    tokenizer = _tokenizer(base)
    config = None if settings.tokenizer is not None else _config(base)
    regression = opened.task.kind == "regression"
    student = tinybert(
        _shape(settings, config),
        classes=opened.task.classes,
        problem="regression" if regression else "single_label_classification",
        seed=seed,
        teacher=config,
        tokenizer=tokenizer if config is None else None,
        dropout=settings.dropout,
    )
    if settings.start is not None:
        start_from_folder(student, model_folder(settings.start))
    elif settings.init != "random":
        teacher = _encoder(base, head=True)
        depths = student.config.num_hidden_layers, teacher.config.num_hidden_layers
        first = settings.init == "teacher-first"
        start_from_layers(student, teacher, range(1, depths[0] + 1) if first else spread(*depths))
    return student, tokenizer


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


def _check_teacher(
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
    layers_of(stage, student, config)


def _check_length(name: str, longest: int) -> None:
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
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(model_folder(name))
        return tokenizer


def _encoder(name: str, *, head: bool = False) -> Any:
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
