"""The set on disk: opened whole or refused, and the same table for every reader."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from augment.errors import SetError
from augment.transferset import MANIFEST, Manifest, Task, TransferSet, write_set
from augment.verify import verify

TRAIN = pa.table(
    {
        "text": ["one", "two", "[MASK]"],
        "label": pa.array([0, 1, 0], pa.int64()),
        "source": pa.array([0, 1, 0], pa.int64()),
        "copy": pa.array([0, 0, 1], pa.int32()),
        "ops": ["", "", "mask"],
    }
)
DEV = pa.table({"text": ["three"], "label": pa.array([1], pa.int64())})
TASK = Task("classification", ("bad", "good"))


@pytest.fixture
def made(tmp_path: Path) -> TransferSet:
    return write_set(
        tmp_path / "set", train=TRAIN, task=TASK, text=["text"], held_out={"dev": DEV}, seed=3
    )


def test_what_was_written_is_read(made: TransferSet) -> None:
    opened = TransferSet.open(made.path)
    assert opened.manifest == made.manifest
    assert opened.splits == ("train", "dev")
    assert (opened.rows(), opened.rows("dev")) == (3, 1)
    assert opened.read().to_pylist() == TRAIN.to_pylist()
    assert opened.read("dev", ["text"]).to_pylist() == [{"text": "three"}]
    parts = list(opened.batches("train", ["text"], rows=2))
    assert [p.num_rows for p in parts] == [2, 1]
    assert not opened.labelled
    assert verify(made.path) == []


def test_a_manifest_becomes_json_and_a_manifest_again(made: TransferSet) -> None:
    assert Manifest.from_json(made.manifest.to_json()) == made.manifest


def test_other_readers_read_the_same_rows(made: TransferSet) -> None:
    assert pq.read_table(made.path / "data", filters=None).num_rows == 4
    (shard,) = made.manifest.splits["train"]
    assert pq.read_table(made.path / shard.path).to_pylist() == TRAIN.to_pylist()


def test_outputs_follow_from_the_task() -> None:
    assert TASK.outputs == 2
    assert Task("regression").outputs == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a manifest"),
        ("[]", "not a manifest"),
        ("{}", "not a manifest"),
        ('{"format": 999}', "format 999, this version reads"),
    ],
)
def test_a_manifest_that_is_none_is_refused(made: TransferSet, content: str, message: str) -> None:
    (made.path / MANIFEST).write_text(content)
    with pytest.raises(SetError, match=message):
        TransferSet.open(made.path)


def test_a_folder_without_a_manifest_is_unfinished(made: TransferSet, tmp_path: Path) -> None:
    (made.path / MANIFEST).unlink()
    with pytest.raises(SetError, match=r"no manifest\.json, so this set is unfinished"):
        TransferSet.open(made.path)
    with pytest.raises(SetError, match="no such transfer set; make one with: augment build"):
        TransferSet.open(tmp_path / "nowhere")


def test_a_split_that_is_absent_lists_those_there_are(made: TransferSet) -> None:
    with pytest.raises(SetError, match="no split 'test'; the set has train, dev"):
        made.read("test")


def test_a_torn_shard_is_an_error_that_names_it(made: TransferSet) -> None:
    shard = made.path / made.manifest.splits["train"][0].path
    shard.write_bytes(shard.read_bytes()[:-30])
    with pytest.raises(SetError, match=f"{shard.name}: cannot be read .*augment verify"):
        made.read()


def test_a_shard_of_another_length_than_the_manifest_says_is_refused(made: TransferSet) -> None:
    path = made.path / MANIFEST
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["splits"]["train"][0]["rows"] = 7
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(SetError, match="3 rows, the manifest says 7"):
        TransferSet.open(made.path).read()


def test_names_in_folders_are_no_partitions(tmp_path: Path) -> None:
    made = write_set(tmp_path / "label=9" / "set", train=TRAIN, task=TASK, text=["text"])
    assert made.read().to_pylist() == TRAIN.to_pylist()
