"""A nursery of processes to kill: ``python -m tests.killed build|label|train FOLDER``.

Everything is imported once; then every line read from standard input is the number of a folder
and a time in seconds, and a fresh fork does the whole job into that folder and is killed with
SIGKILL after that time (0: left to finish). Answers ``killed`` or ``done`` and the seconds it
lived. Checkpoints and flushes come as often as possible, so that there is much to lose.
"""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import augment as A
import augment.asking
import augment.building
import augment.labelling
import augment.verify
from augment.tokens import blank

REVIEWS = Path(__file__).parents[1] / "corpora" / "reviews"
CHAIN = A.Mask(0.1) >> A.SampleNGram(0.25)


def store_of(place: Path, number: str) -> Path:
    """Return a job's store: its own, or what stands after an @ in its name."""
    return place / f"{number.split('@')[-1]}-store"


def build(place: Path, number: str) -> None:
    A.build(
        REVIEWS / "train.tsv", CHAIN, out=place / number, text="text", label="label",
        validation=REVIEWS / "dev.tsv", copies=20, seed=7, shard_rows=700,
        store=store_of(place, number), show=False,
    )  # fmt: skip


def label(place: Path, number: str) -> None:
    A.label(
        place / "set", place / "teacher", place / number, threads=1, precision="fp32",
        store=store_of(place, number), show=False,
    )  # fmt: skip


def train(place: Path, number: str) -> None:
    import distill as D

    D.train(
        place / "labelled", out=place / number, student=D.BiLSTM(hidden=8, head=8, dims=16),
        stages=[D.Stage(steps=60, batch=32, evaluations=3), D.Stage(steps=40, batch=16, seed=1)],
        show=False,
    )  # fmt: skip


def stages(place: Path, number: str) -> None:
    import distill as D

    inside = {"attention": 1.0, "hidden": 1.0, "embedding": 1.0}
    D.train(
        place / "labelled", out=place / number,
        student=D.TinyBERT(layers=1, hidden=16, heads=2, intermediate=32),
        stages=[
            D.TransformerStage(objectives=inside, steps=40, layer_map="top", learning_rate=1e-3),
            D.TransformerStage(objectives={"soft-cross-entropy": 1.0}, steps=40, evaluations=3),
        ],
        show=False,
    )  # fmt: skip


JOBS: dict[str, Callable[[Path, str], None]] = {
    "build": build,
    "label": label,
    "train": train,
    "stages": stages,
}


def main() -> None:
    job, place = JOBS[sys.argv[1]], Path(sys.argv[2])
    augment.asking._FLUSH_ROWS = 300
    blank("en")
    if sys.argv[1] != "build":
        import transformers.models.bert.modeling_bert  # noqa: F401

        import distill.resume
        import distill.runs

        distill.resume.SECONDS = 0.0
    print("ready", flush=True)
    for line in sys.stdin:
        number, seconds = line.split()
        start = time.monotonic()
        child = os.fork()
        if not child:
            warnings.simplefilter("ignore")
            job(place, number)
            os._exit(0)
        killed = False
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if not killed and 0 < float(seconds) < time.monotonic() - start:
                os.kill(child, signal.SIGKILL)
                killed = True
            time.sleep(0.002)
        print("killed" if killed else "done", time.monotonic() - start, flush=True)


if __name__ == "__main__":
    main()
