"""Small transfer sets made without spaCy or a teacher."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

from augment.transferset import Task, TransferSet, write_set
from distill import resume

GOOD = ["a good film", "great fun", "i loved it", "warm and clever"]
BAD = ["a bad film", "no fun", "i hated it", "cold and dull"]
CLASSES = Task("classification", ("negative", "positive"))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors run faster on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows(
    copies: int = 0, *, labels: bool = True, logits: bool = True, pair: bool = False
) -> pa.Table:
    """Return eight source rows with their copies as a set's table."""
    sources = [(text, 1) for text in GOOD] + [(text, 0) for text in BAD]
    every = [(i, c, t, y) for i, (t, y) in enumerate(sources) for c in range(copies + 1)]
    texts = [t if c == 0 else f"{t} copied{c}" for _, c, t, _ in every]
    columns: dict[str, Any] = {"text": texts}
    if pair:
        columns["other"] = ["the " + text for text in reversed(texts)]
    if labels:
        columns["label"] = pa.array([y for *_, y in every], pa.int64())
    columns["source"] = pa.array([i for i, *_ in every], pa.int64())
    columns["copy"] = pa.array([c for _, c, *_ in every], pa.int32())
    columns["ops"] = ["" if c == 0 else "mask" for _, c, *_ in every]
    if logits:
        values = [[1.5 - 3 * y, 3 * y - 1.5] for *_, y in every]
        columns["logits"] = pa.array(values, pa.list_(pa.float32(), 2))
    return pa.table(columns)


@pytest.fixture
def make_set(tmp_path: Path) -> Callable[..., TransferSet]:
    """Return a maker of sets: ``make_set(copies=2, labels=False, logits=False, pair=True)``."""

    def make(
        name: str = "set", *, copies: int = 0, pair: bool = False, **keys: bool
    ) -> TransferSet:
        held = rows(0, pair=pair, **keys)
        has_classes = keys.get("labels", True) or keys.get("logits", True)
        return write_set(
            tmp_path / name,
            train=rows(copies, pair=pair, **keys),
            held_out={"validation": held, "test": held},
            task=CLASSES if has_classes else Task("classification", ()),
            text=("text", "other") if pair else ("text",),
            teacher={"name": "oracle"} if keys.get("logits", True) else None,
        )

    return make


def regression_rows() -> pa.Table:
    """Return pairs with a score and a teacher's score."""
    table = rows(0, pair=True, logits=False)
    scores = pa.array([float(y) * 5 for y in table["label"].to_pylist()], pa.float64())
    table = table.set_column(table.column_names.index("label"), "label", scores)
    logits = pa.array([[4.0 * s / 5 + 0.5] for s in scores.to_pylist()], pa.list_(pa.float32(), 1))
    return table.append_column("logits", logits)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """Write a tiny BERT with a word-piece vocabulary of the toy texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = sorted({w for text in rows(2)["text"].to_pylist() for w in text.split()})
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", *words]
    backend = Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"
    )
    torch.manual_seed(1)  # the weights are drawn; without a seed a run may draw unlucky ones
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    folder = tmp_path / "encoder"
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_bert(folder: Path, encoder: Path, *, headed: bool = True) -> Path:
    """Write a BERT of four layers with the toy vocabulary, with the toy classes or without a head."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    torch.manual_seed(2)
    names = dict(enumerate(CLASSES.classes))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
        initializer_range=0.3,  # scores large enough to be worth matching
        **({"id2label": names, "label2id": {n: i for i, n in names.items()}} if headed else {}),
    )
    (BertForSequenceClassification if headed else BertModel)(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def teacher(encoder: Path, tmp_path: Path) -> Path:
    """Write the toy teacher."""
    return write_bert(tmp_path / "teacher", encoder)


class Killed(Exception):
    """Stands for SIGKILL: nothing after it runs."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return ``kill(n)``: from now on training dies right after its n-th checkpoint."""
    original = resume._Saves.on_save
    monkeypatch.setattr(resume, "SECONDS", 0.0)

    def arm(after: int) -> None:
        left = after

        def on_save(self: Any, *arguments: Any, **more: Any) -> None:
            nonlocal left
            original(self, *arguments, **more)
            left -= 1
            if not left:
                raise Killed

        monkeypatch.setattr(resume._Saves, "on_save", on_save)

    return arm


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, other: Path) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
