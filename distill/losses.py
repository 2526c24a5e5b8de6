"""A Trainer whose loss is a sum of named terms: each is logged, none dwarfs the rest unsaid."""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import TrainingArguments

from augment.machine import resolve
from distill.resume import ResumableTrainer

DWARFED = 100.0
LOGS = 50


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage did: steps, the history of losses and checks, and which state was kept."""

    steps: int
    rows: int
    seconds: float
    kept_step: int
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def checks(self) -> list[dict[str, float]]:
        """The history's evaluations on validation, in order."""
        return [entry for entry in self.history if "eval_rows" in entry]


class TermTrainer(ResumableTrainer):
    """The resumable Trainer over :meth:`terms`."""

    remedy: ClassVar[str] = "change alpha"

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.optimizer: Any
        self.sums: dict[str, Tensor] = {}
        self.summed = 0
        self.warned = False
        super().__init__(*arguments, **settings)
        # Logits and labels go to the objective, so the model must not count items for a loss.
        self.model_accepts_loss_kwargs = False

    def terms(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
        """Return the weighted terms of a batch by name, each (B,), and the model's outputs."""
        raise NotImplementedError

    def result(self) -> StageResult:
        """Train to the end, put the state to keep in place and say what happened."""
        seconds = self.run()
        kept = self.restore()
        history = [entry for entry in self.state.log_history if "train_runtime" not in entry]
        return StageResult(self.args.max_steps, len(self.train_dataset), seconds, kept, history)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return the mean over rows of the objective's weighted terms."""
        rows, outputs = self.terms(model, inputs)
        terms = {name: values.mean() for name, values in rows.items()}
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, torch.zeros(())) + value.detach().cpu()
        self.summed += 1
        loss = torch.stack(list(terms.values())).sum()
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add each weighted term by name, and warn once when one dwarfs the others."""
        if "loss" in logs and self.summed:
            means = {name: float(value) / self.summed for name, value in self.sums.items()}
            logs |= {f"loss_{name}": value for name, value in means.items()}
            self.sums, self.summed = {}, 0
            self._warn(means)
        super().log(logs, start_time)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        # The Trainer computes a norm each step only to log it; sparse gradients have none.
        return None

    def _warn(self, means: dict[str, float]) -> None:
        if self.warned or len(means) < 2:
            return
        (least, small), *_, (most, large) = sorted(means.items(), key=lambda item: item[1])
        if large > DWARFED * small:
            self.warned = True
            warnings.warn(
                f"the loss term {most} ({large:.3g}, weighted) is more than {DWARFED:.0f} times "
                f"{least} ({small:.3g}), which has next to no say; {self.remedy}",
                stacklevel=2,
            )


def training_arguments(
    scratch: str, *, steps: int, batch: int, rate: float, precision: str, seed: int, **more: Any
) -> TrainingArguments:
    """Return the Trainer's arguments of a stage; a constant rate and no clipping by default."""
    settings: dict[str, Any] = {"lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    made = TrainingArguments(
        output_dir=scratch,
        max_steps=steps,
        per_device_train_batch_size=batch,
        learning_rate=rate,
        use_cpu=not torch.accelerator.is_available(),
        bf16=resolve(precision) == "bf16",
        seed=seed,
        logging_steps=max(1, steps // LOGS),
        logging_nan_inf_filter=False,
        save_strategy="no",
        eval_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        **settings | more,
    )
    # One process, one accelerator: transformers would split batches over several with DataParallel,
    # which multiplies the rows of a step; several processes (torchrun) share the work instead.
    made._n_gpu = min(made.n_gpu, 1)
    return made
