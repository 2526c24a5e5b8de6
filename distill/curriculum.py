"""All stages of a transformer student, in order: where it starts, who teaches it, what is kept.

A teacher is loaded for the stages that look inside it, and once for a student that starts from its
layers or takes its vocabulary. From the first stage on, the run folder holds the student's config
and tokenizer, so that a run that goes on after its last such stage needs no teacher.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from augment.files import follower
from augment.progress import quiet
from augment.rawtext import read_texts
from augment.transferset import Task, TransferSet
from distill.evaluation import evaluate
from distill.examples import Examples, read_examples, text_examples
from distill.losses import StageResult
from distill.matching import check_stage, rows_of, run_matching
from distill.models import (
    begun_student,
    check_length,
    check_teacher,
    encoder,
    new_student,
    teacher_of,
)
from distill.resume import STATE, keep, kept, read, save
from distill.stages import TinyBERTSettings, TransformerStage

Texts = tuple[tuple[str, ...], tuple[str, ...], int]
"""Which raw text a stage reads: files, columns, the least words."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What training through every stage gave."""

    results: list[StageResult]
    metrics: dict[str, dict[str, float]]
    words: int


@dataclass(frozen=True, slots=True)
class Rows:
    """What stages read, as tokens: the set's splits, and raw texts."""

    splits: dict[str, Examples] = field(default_factory=dict)
    raw: dict[Texts, Examples] = field(default_factory=dict)

    def of(self, stage: TransformerStage) -> Examples:
        """Return what a stage chooses its rows from."""
        return self.raw[_texts_of(stage)] if stage.raw else self.splits["train"]


def go_through(
    opened: TransferSet | None,
    settings: TinyBERTSettings,
    stages: Sequence[TransformerStage],
    folder: Path,
    *,
    show: bool | None = None,
) -> Finished:
    """Train a student through ``stages`` and save it into ``folder``; a killed run goes on.

    Without a set every stage reads raw text, and what is saved is the encoder alone.

    Raises:
        CorpusError: a raw text cannot be read.
        StageError: a stage lacks a column, a teacher, or the teacher's vocabulary.
        StudentError: the student cannot be built as asked.
    """
    state = folder / STATE
    done = [StageResult(**result) for result in read(state, tensors=False)[0].get("mark", [])]
    left = stages[len(done) :]
    texts = read_raw(left)  # first, since a file that is not there costs no model a load
    if state.exists() and (folder / "config.json").is_file():
        student, tokenizer = begun_student(folder, headed=opened is not None)
    else:
        student, tokenizer = new_student(opened, settings, stages)
    for stage in left:
        if stage.inside:
            check_teacher(teacher_of(opened, settings, stage), stage, student.config, tokenizer)
    limit = min(settings.max_tokens, student.config.max_position_embeddings)
    rows = read_rows(opened, texts, tokenizer, limit)
    for number, stage in enumerate(left, start=len(done) + 1):
        chosen = rows_of(stage, rows.of(stage))
        place = f"stage {number}" if opened is None else str(opened.path)
        check_stage(stage, chosen, Task() if opened is None else opened.task, place)
        if stage.inside:
            check_length(teacher_of(opened, settings, stage), int(chosen.lengths.max()))
    # From here on, what a resumed run needs is in the folder.
    if not state.exists() and not follower():
        with quiet():
            student.config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    kept(state, student)
    done = go_on(opened, settings, stages, student, rows, done=done, state=state, show=show)
    metrics = {
        split: evaluate(student, examples, Task() if opened is None else opened.task)
        for split, examples in rows.splits.items()
        if split != "train"
    }
    save(student, tokenizer, folder)
    return Finished(done, metrics, len(tokenizer))


def go_on(
    opened: TransferSet | None,
    settings: TinyBERTSettings,
    stages: Sequence[TransformerStage],
    student: Any,
    rows: Rows,
    *,
    done: Sequence[StageResult] = (),
    state: Path | None = None,
    show: bool | None = None,
) -> list[StageResult]:
    """Train ``student`` in place through the stages that are not ``done``; returns all results.

    Args:
        opened: the set; names the teacher where neither stage nor settings do.
        settings: the student's.
        stages: all of them, in order.
        student: as the stages done left it.
        rows: what the stages read; checks are made on the split ``validation``, if it is there.
        done: results of the first stages.
        state: a file that keeps what a killed process goes on from.
        show: a progress bar; by default on terminals only.
    """
    results = list(done)
    for stage in stages[len(results) :]:
        teacher = encoder(teacher_of(opened, settings, stage)) if stage.inside else None
        result = run_matching(
            student,
            rows.of(stage),
            stage,
            task=Task() if opened is None else opened.task,
            teacher=teacher,
            validation=rows.splits.get("validation"),
            show=show,
            checkpoint=state,
            mark=[asdict(result) for result in results],
        )
        del teacher  # before the next one is loaded
        results.append(result)
        if state is not None:
            keep(state, student, [asdict(result) for result in results])
    return results


def read_raw(stages: Sequence[TransformerStage]) -> dict[Texts, list[str]]:
    """Read the raw text of stages, once where several read the same.

    Raises:
        CorpusError: it cannot be read.
    """
    wanted = dict.fromkeys(_texts_of(stage) for stage in stages if stage.raw)
    return {key: read_texts(key[0], key[1], [key[2]]) for key in wanted}


def read_rows(
    opened: TransferSet | None,
    texts: dict[Texts, list[str]],
    tokenizer: PreTrainedTokenizerBase,
    limit: int,
) -> Rows:
    """Tokenise every split and raw text; a row has at most ``limit`` tokens.

    Texts are taken out of ``texts`` as they are tokenised: a large one need not stay in memory.
    """
    splits: dict[str, Examples] = {}
    if opened is not None:
        for split in opened.splits:
            splits[split] = read_examples(opened, split, tokenizer, max_tokens=limit)
    raw = {key: text_examples(texts.pop(key), tokenizer, max_tokens=limit) for key in list(texts)}
    return Rows(splits, raw)


def _texts_of(stage: TransformerStage) -> Texts:
    return tuple(stage.texts), tuple(stage.columns), stage.min_words
