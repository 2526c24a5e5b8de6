"""`augment verify`: what it finds in files, columns, counts, logits and the store behind a set."""

import json
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import augment as A
from augment.arrow import matrix, rows, whole
from augment.digest import content_digest
from augment.store import Store
from augment.transferset import TransferSet, finish, write_shard
from augment.verify import verify
from tests.augment.corpus_rows import REVIEWS
from tests.augment.tiny import save_classifier

pytestmark = pytest.mark.usefixtures("own_store")


@pytest.fixture
def labelled(tmp_path: Path) -> TransferSet:
    save_classifier(tmp_path / "teacher", ("bad", "good"))
    made = A.build(
        REVIEWS, A.Mask(0.2), out=tmp_path / "set", label="label", copies=2, seed=7,
        classes=["bad", "good"], validation=REVIEWS[:5], guard=False,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the teacher is right on")
        return A.label(made.path, tmp_path / "teacher", tmp_path / "labelled", threads=1).set


def rewritten(
    made: TransferSet, change: Callable[[pa.Table], pa.Table], path: Path, **manifest: object
) -> TransferSet:
    """Return a set with a changed train table and a manifest that vouches for it."""
    shutil.copytree(made.path, path)
    table = change(made.read())
    shard = write_shard(path, "train-00000", table, made.task)
    splits = made.manifest.splits | {"train": (shard,)}
    digest = content_digest([table])
    draft = replace(made.manifest, splits=splits, digest=digest, **manifest)  # type: ignore[arg-type]
    return finish(path, draft)


def test_a_whole_set_has_no_problem_and_its_logits_come_out_again(labelled: TransferSet) -> None:
    assert verify(labelled.path, recompute=64) == []


def test_logits_that_are_not_the_teachers_are_found(labelled: TransferSet, tmp_path: Path) -> None:
    def shuffled(table: pa.Table) -> pa.Table:
        values = matrix(whole(table["logits"])).copy()
        values[[0, -1]] = values[[0, -1]] + np.float32(3)
        at = table.column_names.index("logits")
        return table.set_column(at, "logits", rows(values))

    made = rewritten(labelled, shuffled, tmp_path / "other")
    assert verify(made.path) == [], "the files vouch for each other"
    (problem,) = verify(made.path, recompute=1000)
    assert re.match(r"train: 2 of \d+ logits asked for again came out otherwise", problem)
    assert "first in row 0" in problem
    assert problem.endswith("run augment label again")


def test_a_teacher_that_was_trained_on_meanwhile_is_found(
    labelled: TransferSet, tmp_path: Path
) -> None:
    save_classifier(tmp_path / "teacher", ("bad", "good"), seed=5)
    (problem,) = verify(labelled.path, recompute=8)
    assert "no longer the teacher that labelled this set" in problem


def test_a_teacher_that_is_gone_is_a_warning(labelled: TransferSet, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "teacher")
    with pytest.warns(UserWarning, match="no logits were recomputed: teacher"):
        assert verify(labelled.path, recompute=8) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.drop_columns("ops"), "no column ops"),
        (lambda t: t.append_column("x", t["copy"]), "unknown columns x"),
        (
            lambda t: t.set_column(t.column_names.index("copy"), "copy", t["copy"].cast("int64")),
            "copy holds int64, expected int32",
        ),
        (
            lambda t: t.set_column(t.column_names.index("label"), "label", t["label"].cast("int8")),
            "label holds int8, expected int64",
        ),
    ],
)
def test_a_wrong_column_is_named(
    change: Callable[[pa.Table], pa.Table], problem: str, labelled: TransferSet, tmp_path: Path
) -> None:
    made = rewritten(labelled, change, tmp_path / "other")
    assert problem in verify(made.path)[0]


def test_counts_that_do_not_add_up_are_named(labelled: TransferSet, tmp_path: Path) -> None:
    made = rewritten(labelled, lambda t: t.slice(1), tmp_path / "other")
    assert "rows, the counts make" in verify(made.path)[0]


def test_a_damaged_segment_behind_the_set_is_named(labelled: TransferSet, own_store: Path) -> None:
    name = str((labelled.manifest.teacher or {})["fingerprint"])
    segment = next((own_store / name).glob("*.arrow"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    (problem,) = verify(labelled.path)
    assert str(segment) in problem
    assert problem.endswith("remove it with: augment store gc")
    Store(own_store).gc()
    assert verify(labelled.path) == []


def test_a_torn_shard_is_named_with_the_command(labelled: TransferSet) -> None:
    shard = labelled.path / labelled.manifest.splits["train"][0].path
    pq.write_table(labelled.read().slice(3), shard)
    (problem,) = verify(labelled.path)
    assert "its bytes are not those the manifest vouches for" in problem
    manifest = json.loads((labelled.path / "manifest.json").read_text())
    assert manifest["teacher"]["plan"]["teacher"] == manifest["teacher"]["fingerprint"]
