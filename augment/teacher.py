"""The teacher: any sequence classifier, loaded once, its logits the same for the same text.

A matrix product's rounding depends on the batch's shape, so a batch holds rows of one token length
only, always the same number of them, the last one filled up. What else is labelled along with a
text then changes no bit of its logits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from augment.digest import model_facts
from augment.errors import ResourceError, TeacherError
from augment.machine import cores, resolve, rows_per_batch
from augment.progress import quiet
from augment.runtimes import Runtime, RuntimeName, open_runtime
from augment.settings import PLACEHOLDER, model_folder
from augment.store import identity

F32 = npt.NDArray[np.float32]
FORMAT = 2  # 2: smaller batches, no mask


class Labeller(Protocol):
    """What ``label`` needs of a teacher; tests hand in a ten-line stub."""

    @property
    def identity(self) -> str:
        """Digest of everything that could change a logit."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in the order of the logits; empty for a regression."""

    @property
    def about(self) -> dict[str, Any]:
        """What the manifest says of the teacher."""

    def logits(self, columns: Sequence[Sequence[str]]) -> Iterator[tuple[npt.NDArray[Any], F32]]:
        """Yield row numbers and their logits, (M,) and (M, C), until every row had its turn.

        Args:
            columns: one or two text columns of N rows.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A loaded sequence classifier; ``from_pretrained`` only loads, ``logits`` only computes.

    Attributes:
        runtime: the model, in eval mode, and what computes it.
        tokenizer: a fast tokenizer.
        max_tokens: word pieces per text or pair, special tokens included; the rest is cut.
    """

    runtime: Runtime
    tokenizer: Any
    identity: str
    classes: tuple[str, ...]
    about: dict[str, Any]
    max_tokens: int

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        *,
        max_tokens: int = 128,
        precision: str = "auto",
        threads: int | None = None,
        runtime: RuntimeName = "torch",
    ) -> "Teacher":
        """Load a classifier: a folder, a hub name, or ``package:<module>``.

        Raises:
            ResourceError: it cannot be had, has no safetensors weights or no classification head;
                or the runtime is not installed.
        """
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        folder = model_folder(name)
        try:
            with quiet():
                tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                model, info = AutoModelForSequenceClassification.from_pretrained(
                    folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True
                )
        except (OSError, ValueError, SafetensorError) as error:
            first = str(error).strip().splitlines()[0]
            raise ResourceError(
                f"teacher {name!r} cannot be loaded: {first}; get it with: hf download {name} "
                "(offline: fine-tune one with distill teacher)"
            ) from error
        if info["missing_keys"]:
            missing = ", ".join(sorted(info["missing_keys"])[:3])
            raise ResourceError(
                f"teacher {name!r} is no trained classifier ({missing} are not in its weights); "
                "fine-tune it first: distill teacher RECIPE --set SET"
            )
        model = model.eval()
        config = model.config
        regression = config.num_labels == 1 or config.problem_type == "regression"
        classes = () if regression else tuple(config.id2label[i] for i in range(config.num_labels))
        limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
        max_tokens = min(max_tokens, *(limit for limit in limits if limit))
        precision, inputs = resolve(precision), _inputs(tokenizer)
        trials = [_trial(inputs, shape, config.vocab_size) for shape in ((4, 6), (3, 17))]
        computing = open_runtime(
            runtime, _logits(model), trials, precision=precision, threads=threads or cores()
        )
        facts = model_facts(model, tokenizer)
        fingerprint = identity(
            what="logits",
            **facts,
            mask=tokenizer.mask_token or tokenizer.unk_token,
            inputs=tokenizer.model_input_names,
            max_tokens=max_tokens,
            precision=precision,
            device=computing.device,
            runtime=runtime,
            format=FORMAT,
        )
        about = {
            "name": name,
            "folder": str(Path(folder).resolve()) if Path(folder).is_dir() else folder,
            "fingerprint": fingerprint,
            "weights": facts["weights"],
            "tokenizer": facts["tokenizer"],
            "precision": precision,
            "runtime": runtime,
            "max_tokens": max_tokens,
            "classes": list(classes),
            "parameters": sum(p.numel() for p in model.parameters()),
        }
        return cls(computing, tokenizer, fingerprint, classes, about, max_tokens)

    def logits(self, columns: Sequence[Sequence[str]]) -> Iterator[tuple[npt.NDArray[Any], F32]]:
        """Yield row numbers and their logits batch by batch, shortest rows first."""
        rows = self._encode(columns)
        lengths = np.array([len(r) for r in rows["input_ids"]], np.int64)
        with self.runtime.running() as forward:
            for length in np.unique(lengths).tolist():
                same = np.flatnonzero(lengths == length)
                size = rows_per_batch(length, self.runtime.device)
                for first in range(0, len(same), size):
                    at = same[first : first + size]
                    full = np.append(at, np.repeat(at[-1:], size - len(at)))
                    batch = {
                        key: np.array([values[i] for i in full], np.int64)
                        for key, values in rows.items()
                    }
                    yield at, forward(batch)[: len(at)]

    def _encode(self, columns: Sequence[Sequence[str]]) -> dict[str, list[list[int]]]:
        own = self.tokenizer.mask_token or self.tokenizer.unk_token or ""
        texts = [
            [t.replace(PLACEHOLDER, own) for t in column] if own != PLACEHOLDER else list(column)
            for column in columns
        ]
        if not texts[0]:
            return {"input_ids": []}
        encoded = self.tokenizer(*texts, truncation=True, max_length=self.max_tokens)
        return {name: encoded[name] for name in _inputs(self.tokenizer) if name in encoded}


def _inputs(tokenizer: Any) -> list[str]:
    """Return the names of the model's inputs; rows of one length need no mask, and are faster."""
    return [name for name in tokenizer.model_input_names if name != "attention_mask"]


def _logits(model: Any) -> Any:
    """Return a module that gives the model's logits and nothing else."""
    import torch

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, **inputs: Any) -> Any:
            return self.model(**inputs).logits

    return Logits().eval()


def _trial(inputs: Sequence[str], shape: tuple[int, int], words: int) -> dict[str, Any]:
    """Return a batch of a shape, each token another word."""
    ids = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape) * 7 % words
    return {name: ids if name == "input_ids" else np.zeros_like(ids) for name in inputs}


def class_order(
    teacher: Sequence[str], corpus: Sequence[str], label_map: str, name: str
) -> list[int]:
    """Return, for every class of the corpus, the number of the teacher's logit.

    Names that say nothing (``LABEL_0``, bare numbers) are taken in the order they stand.

    Raises:
        TeacherError: the counts differ, the names differ, or the orders do and may not be mapped.
    """
    if not corpus:
        return list(range(len(teacher)))
    if len(teacher) != len(corpus):
        raise TeacherError(
            f"teacher {name!r} knows {len(teacher)} classes ({', '.join(teacher)}), "
            f"the corpus {len(corpus)} ({', '.join(corpus)})"
        )
    ours, theirs = [_plain(c) for c in corpus], [_plain(c) for c in teacher]
    if ours == theirs:
        return list(range(len(corpus)))
    if sorted(ours) != sorted(theirs):
        if _says_nothing(ours) or _says_nothing(theirs):
            return list(range(len(corpus)))
        raise TeacherError(
            f"teacher {name!r} names its classes ({', '.join(teacher)}), "
            f"the corpus ({', '.join(corpus)}); rename them in [corpus] classes or in the config"
        )
    if label_map != "by-name":
        raise TeacherError(
            f"teacher {name!r} orders its labels ({', '.join(teacher)}), the corpus "
            f'({", ".join(corpus)}); pass label_map = "by-name" to reorder, '
            "or fix the teacher's config"
        )
    return [theirs.index(c) for c in ours]


def _plain(name: str) -> str:
    return name.strip().casefold().replace("-", "_").replace(" ", "_")


def _says_nothing(names: Sequence[str]) -> bool:
    return all(n.removeprefix("label_").isdigit() for n in names)
