"""The BiLSTM: training beside a packed-sequence loop, and inference beside its teachers."""

import time
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

from augment.transferset import Task
from distill.buckets import Buckets
from distill.evaluation import evaluate
from distill.examples import Examples
from distill.recipe import StageSettings
from distill.students.bilstm import BiLSTMForSequenceClassification
from distill.students.build import bilstm, vocabulary
from distill.trainer import run_stage
from tests.benchmarks.common import SST2, best, line, sentences, skip, title

STEPS = 600
TASK = Task("classification", ("negative", "positive"))


class Packed(BiLSTMForSequenceClassification):
    """The same student, read through torch's own LSTM over packed sequences."""

    def _encode(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self._vectors(ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (states, _) = self.lstm(packed)
        return torch.cat([states[0], states[1]], dim=-1)


def examples(words: Any, split: str) -> Examples:
    """SST-2's rows as tokens with labels; logits are +-2, which costs what a teacher's would."""
    rows = (SST2 / f"{split}.tsv").read_text(encoding="utf-8").split("\n")[1:]
    pairs = [row.split("\t") for row in rows if row]
    encoded = words.tokenizer([text for text, _ in pairs])["input_ids"]
    labels = np.array([int(label) for _, label in pairs])
    starts = np.append(0, np.cumsum([len(ids) for ids in encoded]))
    logits = np.where(labels[:, None] == np.arange(2), 2.0, -2.0).astype(np.float32)
    count = np.arange(len(pairs))
    return Examples(
        ids=np.concatenate([np.array(ids, np.int32) for ids in encoded]), starts=starts,
        types=None, labels=labels, logits=logits, copies=np.zeros_like(count), sources=count,
    )  # fmt: skip


def student(words: Any, kind: type[BiLSTMForSequenceClassification]) -> Any:
    """A student with the paper's sizes and the same first weights."""
    made = bilstm(
        words, classes=TASK.classes, problem="single_label_classification", pair=False,
        hidden=150, head=200, channels=2, dropout=0.1, seed=0,
    )  # fmt: skip
    made.__class__ = kind
    return made


def plain_loop(model: Any, rows: Examples) -> float:
    """The usual loop: shuffled batches, padded, packed, dense AdaDelta; returns the seconds."""
    optimiser = torch.optim.Adadelta(model.parameters(), lr=1.0)
    order = np.random.default_rng(0).permutation(len(rows))
    model.train()
    start = time.perf_counter()
    for step in range(STEPS):
        batch = rows.batch(order[step * 50 : step * 50 + 50])
        targets = batch.pop("logits")
        batch.pop("labels")
        optimiser.zero_grad()
        loss = ((model(**batch).logits - targets) ** 2).sum(dim=1).mean()
        loss.backward()
        optimiser.step()
    return time.perf_counter() - start


def main() -> None:
    """Print the figures."""
    title(f"BiLSTM, {STEPS} steps of 50 rows, fp32, one thread, SST-2")
    if not SST2.is_dir():
        skip("training", "../shared/data is not here")
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    words = vocabulary(sentences(), pair=False, vectors=None, dims=300, min_count=1, max_words=128)
    train, dev = examples(words, "train"), examples(words, "dev")
    theirs = student(words, Packed)
    slow = plain_loop(theirs, train)
    ours = student(words, BiLSTMForSequenceClassification)
    stage = StageSettings(steps=STEPS, batch=50, select="last", evaluations=0)
    quick = run_stage(ours, train, stage, task=TASK, show=False).seconds
    for name, model, taken in (("packed loop, unsorted", theirs, slow), ("distill", ours, quick)):
        accuracy = evaluate(model, dev, TASK)["accuracy"]
        line(f"{name}", STEPS * 50 / taken, "rows/s", slow / taken, "the loop")
        line("  accuracy on dev after it", 100 * accuracy, "%")
    torch.set_num_threads(threads)
    _inference(ours, words, dev)


def _inference(ours: Any, words: Any, dev: Examples) -> None:
    title("Inference on SST-2's dev sentences, all cores")
    batches = [dev.batch(np.array(part)) for part in Buckets(dev.lengths, 32, 0)]
    for batch in batches:
        batch.pop("labels"), batch.pop("logits")

    def rate(model: Any, some: list[dict[str, Tensor]], turns: int = 3) -> float:
        model.eval()
        with torch.inference_mode():
            rows = sum(len(b["input_ids"]) for b in some)
            return rows / best(lambda: [model(**b) for b in some], turns)

    large = BertForSequenceClassification(BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
    ))  # fmt: skip
    six = BertForSequenceClassification(BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
    ))  # fmt: skip
    quick = rate(ours, batches)
    line("BiLSTM, fp32", quick, "rows/s")
    teacher = rate(six, batches)
    line("6-layer encoder, fp32", teacher, "rows/s", quick / teacher, "slower than the BiLSTM")
    big = rate(large, batches[:4], 1)
    line("BERT-large, random weights, fp32", big, "rows/s", quick / big, "slower than the BiLSTM")
    packed = student(words, Packed)
    packed.load_state_dict(ours.state_dict())
    line("BiLSTM through torch's LSTM", rate(packed, batches), "rows/s")
    eight = torch.ao.quantization.quantize_dynamic(packed, {nn.LSTM, nn.Linear}, torch.qint8)
    with torch.inference_mode():
        far = max(float((eight(**b).logits - ours(**b).logits).abs().max()) for b in batches)
    line("BiLSTM in 8 bits through torch's LSTM", rate(eight, batches), "rows/s")
    line("  largest change of a logit", far, "")
    _exported(ours, packed, dev)
    single = dev.batch(np.array([0]))
    single.pop("labels"), single.pop("logits")
    ours.eval()
    with torch.inference_mode():
        line("BiLSTM, one sentence at a time", 1e3 * best(lambda: ours(**single), 50), "ms")
        line("6-layer encoder, one at a time", 1e3 * best(lambda: six(**single), 20), "ms")


class _Bare(nn.Module):
    """The student for rows of one length: what an exported graph needs to hold."""

    def __init__(self, student: Any) -> None:
        super().__init__()
        self.student = student

    def forward(self, input_ids: Tensor) -> Tensor:
        _, (states, _) = self.student.lstm(self.student._vectors(input_ids))
        wide = torch.relu(self.student.wide(torch.cat([states[0], states[1]], dim=-1)))
        logits: Tensor = self.student.out(wide)
        return logits


def _exported(ours: Any, packed: Any, dev: Examples) -> None:
    """The student as an OpenVINO graph, rows of one length a batch, beside itself on these."""
    if not find_spec("openvino"):
        skip("the exported student", "the extra openvino is not installed")
        return
    from augment.runtimes import OpenVino

    lengths = np.array(dev.lengths)
    batches = []
    for length in np.unique(lengths):
        at = np.flatnonzero(lengths == length)
        batches += [dev.batch(at[i : i + 32])["input_ids"].numpy() for i in range(0, len(at), 32)]
    rows, threads = sum(map(len, batches)), torch.get_num_threads()
    with torch.inference_mode():
        plain = rows / best(lambda: [ours(input_ids=torch.from_numpy(b)) for b in batches], 3)
    line("BiLSTM, rows of one length a batch", plain, "rows/s")
    bare = _Bare(packed).eval()
    examples = [{"input_ids": batches[5]}, {"input_ids": batches[2]}]
    for precision in ("fp32", "bf16"):
        graph = OpenVino(bare, examples, precision=precision, threads=threads)
        with graph.running() as forward:
            quick = rows / best(lambda f=forward: [f({"input_ids": b}) for b in batches], 3)  # type: ignore[misc]
        line(f"  exported to OpenVINO, {precision}", quick, "rows/s", quick / plain, "itself")
