"""Labelling: one set in, another out with a teacher's logits; no text is ever labelled twice."""

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from augment.arrow import matrix, whole
from augment.arrow import rows as lists_of
from augment.asking import Part, ask, parts_of
from augment.digest import content_digest
from augment.errors import SetError, SettingsError, TeacherError
from augment.files import begin, claimed, compare, settle
from augment.runtimes import RuntimeName
from augment.settings import LabelSettings, Recipe, TeacherSettings, parse, read_recipe
from augment.store import Namespace, Store
from augment.teacher import Labeller, Teacher, class_order
from augment.transferset import MANIFEST, Shard, Task, TransferSet, finish, write_shard

WORK = ".work"


@dataclass(frozen=True, slots=True)
class Labelling:
    """What a labelling did.

    Attributes:
        set: the labelled set.
        texts: distinct texts (or pairs) in all splits.
        known: of these, already in the store.
        asked: of these, put to the teacher now.
        accuracy: the teacher's accuracy on held-out rows by split, where they have labels.
    """

    set: TransferSet
    texts: int
    known: int
    asked: int
    accuracy: dict[str, float]


def label(
    source: str | Path | TransferSet,
    teacher: str | Path | Labeller,
    out: str | Path,
    *,
    max_tokens: int = 128,
    precision: str = "auto",
    runtime: RuntimeName = "torch",
    label_map: str = "refuse",
    threads: int | None = None,
    window: int = 200_000,
    store: str | Path | None = None,
    show: bool = True,
) -> Labelling:
    """Label every distinct text of a set once, and write the set again with its logits.

    Args:
        source: a finished, unlabelled set.
        teacher: a classifier's folder or name, or an object that labels (see ``Labeller``).
        out: folder of the labelled set. An unfinished one is gone on with.
        max_tokens: word pieces the teacher reads of a text or pair.
        precision: "fp32", "bf16", or "auto": bf16 where the hardware has it.
        runtime: what computes the logits; "openvino" is an extra, for CPUs.
        label_map: "refuse" or "by-name", when teacher and corpus order their classes differently.
        threads: of the CPU; all cores when left out.
        window: texts tokenised at once; changes no logit.
        store: folder of the store; the user's cache folder when left out.
        show: draw progress on a terminal.

    Raises:
        SettingsError: a setting is wrong.
        SetError: the source is unfinished or labelled, or ``out`` holds something else.
        TeacherError: the teacher's classes do not fit; raised before it reads any text.
        ResourceError: the teacher cannot be loaded.
    """
    how = {"precision": precision, "runtime": runtime, "label_map": label_map}
    parse(LabelSettings, how | {"threads": threads, "window": window}, "label")
    opened = TransferSet.of(source)
    if opened.labelled:
        raise SetError(f"{opened.path}: labelled already; label the set it was made from")
    out = Path(out)
    if out.resolve() == opened.path.resolve():
        raise SetError(f"{out}: a finished set is never edited; choose another folder for --out")
    labeller: Labeller = (
        Teacher.from_pretrained(
            str(teacher),
            max_tokens=max_tokens,
            precision=precision,
            threads=threads,
            runtime=runtime,
        )
        if isinstance(teacher, str | os.PathLike)
        else teacher
    )
    columns, task = _fit(labeller, opened.task, label_map)
    outputs = len(columns)
    space = (Store() if store is None else Store(Path(store))).namespace(
        labeller.identity, pa.list_(pa.float32(), outputs), {"what": "logits"} | labeller.about
    )
    plan = {
        "train rows": opened.manifest.digest,
        "held-out rows": {
            split: content_digest(opened.batches(split))
            for split in opened.splits
            if split != "train"
        },
        "task": [task.kind, *task.classes],
        "teacher": labeller.identity,
        "class order": columns,
    }
    with claimed(out, "a transfer set", MANIFEST):
        if (out / MANIFEST).exists():
            done = TransferSet.open(out)
            compare(out, (done.manifest.teacher or {}).get("plan", {}), plan)
            texts = int((done.manifest.teacher or {}).get("texts", 0))
            settle(out)
            shutil.rmtree(out / WORK, ignore_errors=True)
            return Labelling(done, texts, texts, 0, _accuracies(done))
        begin(out, plan)
        try:
            parts = parts_of(opened, out / WORK)
            texts = sum(int(part.first.sum()) for part in parts)
            fresh = [part.first.copy() for part in parts]
            for part, mask in zip(parts, fresh, strict=True):
                mask[mask] = ~space.has(part.keys[mask])
            asked = sum(int(mask.sum()) for mask in fresh)
            ask(opened, labeller, space, parts, fresh, window=window, show=show)
            about = labeller.about | {"texts": texts, "plan": plan}
            done = _write(opened, space, parts, columns, task, about, out)
        finally:
            shutil.rmtree(out / WORK, ignore_errors=True)
        settle(out)
    return Labelling(done, texts, texts - asked, asked, _accuracies(done))


def label_recipe(
    recipe: str | Path | Recipe,
    source: str | Path,
    out: str | Path,
    *,
    teacher: str | None = None,
    store: str | Path | None = None,
    show: bool = True,
) -> Labelling:
    """Label a set as a recipe says; ``teacher`` overrides the recipe's ``[teacher] model``.

    Raises:
        SettingsError: neither names a teacher.
    """
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    who = recipe.section(TeacherSettings, "teacher")
    how = recipe.section(LabelSettings, "label")
    name = teacher or (who.model and recipe.model(who.model))
    if name is None:
        raise SettingsError(
            f"{recipe.path}, [teacher]: names no model; pass --teacher FOLDER "
            "(make one with: distill teacher)"
        )
    return label(
        source,
        name,
        out,
        max_tokens=who.max_tokens,
        precision=how.precision,
        runtime=how.runtime,
        label_map=how.label_map,
        threads=how.threads,
        window=how.window,
        store=store,
        show=show,
    )


def _fit(teacher: Labeller, task: Task, label_map: str) -> tuple[list[int], Task]:
    """Return the order of the teacher's logits for this task, and the task with its classes."""
    name = str(teacher.about.get("name", "teacher"))
    if task.kind == "regression":
        if teacher.classes:
            raise TeacherError(
                f"teacher {name!r} classifies ({', '.join(teacher.classes)}), "
                "the corpus is a regression; it needs a teacher with one output"
            )
        return [0], task
    if not teacher.classes:
        raise TeacherError(f"teacher {name!r} gives one number, the corpus has classes")
    columns = class_order(teacher.classes, task.classes, label_map, name)
    return columns, task if task.classes else Task(task.kind, tuple(teacher.classes))


def _write(
    source: TransferSet,
    space: Namespace,
    parts: Sequence[Part],
    columns: list[int],
    task: Task,
    about: dict[str, Any],
    out: Path,
) -> TransferSet:
    splits: dict[str, tuple[Shard, ...]] = dict.fromkeys(source.splits, ())

    def written(split: str) -> Iterator[pa.Table]:
        """Write the labelled shards of a split, yielding each."""
        for part in parts:
            if part.split != split:
                continue
            known, values = space.get(part.keys)
            if not known.all():
                raise SetError(f"{out}: {int((~known).sum())} logits left the store; run it again")
            lists = lists_of(matrix(values)[:, columns])
            table = source.table(part.shard).append_column("logits", lists)
            name = Path(part.shard.path).stem
            splits[split] += (write_shard(out, name, table, task),)
            yield table

    digests = {split: content_digest(written(split)) for split in source.splits}
    draft = replace(source.manifest, task=task, splits=splits, teacher=about)
    return finish(out, replace(draft, digest=digests["train"]))


def _accuracies(done: TransferSet) -> dict[str, float]:
    """Return the teacher's accuracy on the held-out splits, and warn when it is below chance."""
    found: dict[str, float] = {}
    if done.task.kind == "regression":
        return found
    for split in done.splits:
        if split == "train":
            continue
        table = done.read(split)
        if "label" not in table.column_names:
            continue
        table = table.filter(table["label"].is_valid())
        if not table.num_rows:
            continue
        guess = matrix(whole(table["logits"])).argmax(axis=1)
        right = guess == table["label"].to_numpy()
        found[split] = float(right.mean())
        if found[split] < 0.8 / done.task.outputs:
            warnings.warn(
                f"the teacher is right on {found[split]:.1%} of {split}, below chance: "
                "are its classes in another order than the corpus's?",
                stacklevel=3,
            )
    return found
