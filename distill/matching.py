"""One stage of a transformer student; what is matched with what stands in ``distill.terms``."""

import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
from accelerate.utils import convert_to_fp32
from torch import Tensor, nn

from augment.machine import steady_memory
from augment.progress import quiet
from augment.transferset import Task
from distill.adadelta import AdaDelta
from distill.attention import Capture, States, capturing
from distill.errors import StageError
from distill.examples import Examples
from distill.hidden import Projections
from distill.layers import LayerMap, layer_map
from distill.losses import StageResult, TermTrainer, training_arguments
from distill.stages import ON_SCORES, ON_STATES, TransformerStage
from distill.terms import Matching, captured
from distill.trainer import own_randomness, steps_of


class Matched(nn.Module):
    """The student and its projections, trained and checkpointed as one, saved apart.

    The terms are made inside ``forward``: ``DistributedDataParallel`` finds out from what comes out
    of it which parameters take part, and the projections do, a head without a say does not.
    """

    def __init__(self, student: Any, projections: Projections | None) -> None:
        super().__init__()
        self.student, self.projections = student, projections

    def forward(self, match: Callable[[], dict[str, Tensor]] | None = None, **batch: Tensor) -> Any:
        """Return the terms that ``match`` makes; without it, run the student on a batch."""
        return self.student(**batch) if match is None else match()


def run_matching(
    student: Any,
    examples: Examples,
    stage: TransformerStage,
    *,
    task: Task,
    teacher: Any = None,
    validation: Examples | None = None,
    show: bool | None = None,
    checkpoint: Path | None = None,
    mark: Any = None,
) -> StageResult:
    """Train ``student`` in place for one stage.

    Args:
        student: a transformers encoder, with a head where the stage trains predictions; left in
            its kept state, in eval mode.
        examples: rows of the set, among which the stage's ``data`` chooses, or raw text.
        stage: what to match, and for how long.
        task: what labels and logits mean.
        teacher: an encoder of the same vocabulary; needed by objectives inside the transformer.
        validation: rows for the checks; without them the last state is kept.
        show: a progress bar; by default on terminals only.
        checkpoint: a file to keep the state in meanwhile, and to go on from.
        mark: JSON facts that tell this stage's checkpoint from another's.

    Raises:
        StageError: the rows, the teacher or the layers do not serve the objectives.
    """
    examples = rows_of(stage, examples)
    check_stage(stage, examples, task, "the transfer set")
    steps = steps_of(stage, len(examples))
    layers, projections = LayerMap(()), None
    if stage.inside:
        layers = layers_of(stage, student.config.num_hidden_layers, teacher.config)
        widths = student.config.hidden_size, teacher.config.hidden_size
        projections = Projections(*widths, seed=stage.seed)
    model = Matched(student, projections)
    scores, states = captured(stage.objectives, layers, side=0)
    with (
        own_randomness(),
        steady_memory(),
        tempfile.TemporaryDirectory() as scratch,
        quiet(),
        frozen(student, stage.freeze),
        capturing(student, attention=scores, hidden=states) as learner,
        teaching(teacher if stage.inside else None, stage, layers) as guide,
    ):
        trainer = MatchingTrainer(
            model, examples, stage, learner, guide, layers, task, validation, steps, scratch,
            show=sys.stderr.isatty() if show is None else show,
            checkpoint=checkpoint, mark=mark,
        )  # fmt: skip
        result = trainer.result()
    student.eval()
    return result


class MatchingTrainer(TermTrainer):
    """The Trainer of one stage; use :func:`run_matching`."""

    remedy: ClassVar[str] = "change its weight in objectives"

    def __init__(
        self,
        model: Matched,
        examples: Examples,
        stage: TransformerStage,
        student: Capture,
        teacher: Capture | None,
        layers: LayerMap,
        task: Task,
        validation: Examples | None,
        steps: int,
        scratch: str,
        *,
        show: bool,
        checkpoint: Path | None,
        mark: Any,
    ) -> None:
        self.stage, self.student, self.teacher, self.layers = stage, student, teacher, layers
        self.projections = model.projections
        rising = stage.schedule == "constant" and stage.warmup > 0
        arguments = training_arguments(
            scratch,
            steps=steps,
            batch=stage.batch,
            rate=stage.rate,
            precision=stage.precision,
            seed=stage.seed,
            lr_scheduler_type="constant_with_warmup" if rising else stage.schedule,
            warmup_steps=round(stage.warmup * steps),
            max_grad_norm=stage.clip,
        )
        super().__init__(
            model,
            arguments,
            examples,
            checkpoint=checkpoint,
            mark=mark,
            title="train" if show else None,
            task=task,
            validation=validation,
            evaluations=stage.checks,
            select=stage.keeps,
        )
        if teacher is not None:
            teacher.model.to(self.args.device)

    def terms(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
        """Run both sides on the same tokens; return the weighted terms and no outputs."""
        targets = {name: inputs.pop(name) for name in ("labels", "logits") if name in inputs}
        teacher = self._taught(inputs)

        def match() -> dict[str, Tensor]:
            student = self.student(inputs)
            sides = Matching(
                student=States(
                    *convert_to_fp32((student.attention, student.hidden, student.logits))
                ),
                batch=inputs | targets,
                teacher=teacher,
                layers=self.layers,
                projections=self.projections,
                temperature=self.stage.temperature,
                regression=self.task is not None and self.task.kind == "regression",
            )
            # Inside forward the encoder's precision would reach the projections too.
            with torch.autocast(self.args.device.type, enabled=False):
                return sides.terms(self.stage.objectives)

        return model(match), None

    def _taught(self, inputs: Mapping[str, Tensor]) -> States | None:
        if self.teacher is None:
            return None
        known = inspect.signature(self.teacher.model.forward).parameters  # not all read type ids
        with torch.no_grad(), self.accelerator.autocast():
            return self.teacher({name: inputs[name] for name in inputs if name in known})

    def _warn(self, means: dict[str, float]) -> None:
        # Inside the transformer each term has a scale of its own, and a student that starts from
        # the teacher's layers has met some of them before the first step.
        if not self.stage.inside:
            super()._warn(means)

    def create_optimizer(self, model: Any = None) -> Any:
        """Return the stage's optimiser over the student and its projections."""
        if self.optimizer is not None:
            return self.optimizer
        trained = [p for p in self.model.parameters() if p.requires_grad]
        if self.stage.optimiser == "adadelta":
            self.optimizer = AdaDelta(trained, lr=self.stage.rate)
        else:
            # As in BERT's own training, biases and the norms' gains do not decay.
            groups = [
                {"params": [p for p in trained if p.dim() > 1], "weight_decay": self.stage.decay},
                {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
            ]
            # Fused: most numbers are embeddings, and a loop over them takes eight times as long.
            self.optimizer = torch.optim.AdamW(groups, lr=self.stage.rate, fused=True)
        return self.optimizer


def rows_of(stage: TransformerStage, examples: Examples) -> Examples:
    """Return the rows that a stage's ``data`` chooses."""
    if stage.data == "transfer-set":
        return examples
    return examples.where(examples.column("copies") == 0)


def check_stage(stage: TransformerStage, examples: Examples, task: Task, where: str) -> None:
    """Refuse a stage whose objectives need a column that the rows lack.

    Raises:
        StageError: names the column and what adds it.
    """
    if not len(examples):
        raise StageError(f"{where}: there are no rows to train on")
    if task.kind == "regression" and stage.reads("soft-cross-entropy"):
        raise StageError(
            f"{where}: a regression's one output has no distribution for soft-cross-entropy; "
            "write logits-mse, which matches the teacher's score"
        )
    if stage.needs_logits and examples.logits is None:
        raise StageError(
            f"{where}: the objective matches a teacher's logits, but these rows have none; "
            f"add them with: augment label RECIPE --set {where} --teacher TEACHER --out LABELLED, "
            'or train on labels with objectives = { "hard-cross-entropy" = 1 }'
        )
    if stage.needs_labels and examples.labels is None:
        raise StageError(
            f"{where}: hard-cross-entropy needs a label on every row, and there is none; "
            "leave it out of objectives"
        )


def layers_of(stage: TransformerStage, student: int, teacher: Any) -> LayerMap:
    """Return the stage's map from ``student`` layers to those of a teacher's config.

    It is empty where no term reads layers.

    Raises:
        StageError: the map does not fit the two depths.
    """
    if not stage.reads(*ON_SCORES, *ON_STATES):
        return LayerMap(())
    rule: Any = "uniform" if stage.layer_map is None else stage.layer_map
    return layer_map(rule, student=student, teacher=teacher.num_hidden_layers)


@contextmanager
def teaching(teacher: Any, stage: TransformerStage, layers: LayerMap) -> Iterator[Capture | None]:
    """Capture the teacher in eval mode; None stays None."""
    if teacher is None:
        yield None
        return
    scores, states = captured(stage.objectives, layers, side=1)
    with capturing(teacher.eval(), attention=scores, hidden=states) as capture:
        yield capture


@contextmanager
def frozen(student: Any, parts: tuple[str, ...]) -> Iterator[None]:
    """Keep parts of the student as they are; afterwards they may be trained again."""
    modules = [
        student.classifier if part == "classifier" else getattr(student.base_model, part)
        for part in parts
    ]
    before = [p for module in modules for p in module.parameters() if p.requires_grad]
    for parameter in before:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in before:
            parameter.requires_grad_(True)
