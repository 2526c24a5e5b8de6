"""The store: what was put is found again, by any number of writers, and nothing else is."""

import json
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augment.errors import StoreError
from augment.keys import Keys, content_keys, find, order
from augment.store import Namespace, Segment, Store, identity

KIND = pa.list_(pa.float32(), 2)


def keys_of(*texts: str) -> Keys:
    return content_keys([pa.array(texts, pa.large_string())])


def logits(*rows: tuple[float, float]) -> pa.Array:
    return pa.array(rows, KIND)


@pytest.fixture
def space(tmp_path: Path) -> Namespace:
    return Store(tmp_path).namespace("ns", KIND, {"what": "test"})


def opened(space: Namespace) -> Namespace:
    """The same namespace as another process would see it."""
    return Namespace(space.folder, space.kind)


def test_what_was_put_is_found_in_the_order_asked(space: Namespace) -> None:
    space.put(keys_of("a", "b", "c"), logits((1, 2), (3, 4), (5, 6)))
    known, values = opened(space).get(keys_of("c", "x", "a", "c"))
    assert known.tolist() == [True, False, True, True]
    assert values.to_pylist() == [[5, 6], [1, 2], [5, 6]]
    assert opened(space).has(keys_of("c", "x", "a", "c")).tolist() == known.tolist()


def test_an_empty_namespace_knows_nothing(space: Namespace) -> None:
    known, values = space.get(keys_of("a", "b"))
    assert known.tolist() == [False, False]
    assert values.to_pylist() == []
    assert values.type == KIND


def test_asking_for_nothing_gives_nothing(space: Namespace) -> None:
    none = content_keys([pa.array([], pa.large_string())])
    assert none.shape == (0, 2)
    space.put(none, pa.array([], KIND))
    assert not list(space.folder.glob("*.arrow"))
    space.put(keys_of("a"), logits((1, 2)))
    known, values = space.get(none)
    assert len(known) == len(values) == 0


def test_several_segments_answer_together(space: Namespace) -> None:
    for number, text in enumerate("abcde"):
        space.put(keys_of(text), logits((number, 0)))
    known, values = opened(space).get(keys_of(*"ecabdx"))
    assert known.tolist() == [True] * 5 + [False]
    assert [v[0] for v in values.to_pylist()] == [4, 2, 0, 1, 3]


def test_a_reader_sees_what_is_written_after_it_opened(space: Namespace) -> None:
    reader = opened(space)
    assert not reader.has(keys_of("a")).any()
    space.put(keys_of("a"), logits((1, 2)))
    assert reader.has(keys_of("a")).all()


def test_keys_are_of_the_exact_texts() -> None:
    texts = ["a", "A", "a ", "\u00e9", "e\u0301", "", " ", "\0", "a\0"]
    assert len(np.unique(keys_of(*texts), axis=0)) == len(texts)
    assert keys_of("a").tolist() == keys_of("b", "a")[1:].tolist()


def test_keys_of_pairs_feel_where_the_texts_part() -> None:
    pair = lambda a, b: content_keys([pa.array([a]), pa.array([b])]).tolist()
    assert pair("ab", "c") != pair("a", "bc")
    assert pair("a", "") != pair("", "a") != keys_of("a").tolist()


def test_keys_are_pinned_because_they_are_on_disk() -> None:
    assert [f"{h:016x}{l:016x}" for h, l in keys_of("", "a", "日本").tolist()] == GOLDEN_KEYS


GOLDEN_KEYS = [
    "2c0a8a99dc147d5445c3b49d035665b2",
    "ea7daf8b8b8e0899adea399fbae36cb2",
    "9cea8dd01750ee7ad327184150804445",
]


def test_keys_of_a_slice_are_those_of_its_rows() -> None:
    texts = pa.array(["x", "ab", "", "cde", "y"], pa.string())
    assert content_keys([texts.slice(1, 3)]).tolist() == keys_of("ab", "", "cde").tolist()


def test_keys_that_end_in_zero_bytes_are_kept_apart(space: Namespace) -> None:
    # numpy's S16 strips trailing zero bytes and would take these for one another.
    keys = np.array([[7, 0], [7, 256], [0, 0], [7 << 56, 0], [7, 1 << 56]], np.uint64)
    space.put(keys, logits(*[(i, i) for i in range(5)]))
    known, values = opened(space).get(keys)
    assert known.all()
    assert [v[0] for v in values.to_pylist()] == [0, 1, 2, 3, 4]
    assert not opened(space).has(np.array([[7, 1], [0, 7]], np.uint64)).any()


def test_keys_with_equal_high_halves_are_told_apart(space: Namespace) -> None:
    keys = np.array([[5, low] for low in (9, 1, 4, 2**64 - 1)], np.uint64)
    space.put(keys, logits(*[(i, 0) for i in range(4)]))
    asked = np.array([[5, 4], [5, 5], [5, 2**64 - 1], [4, 9], [6, 0], [5, 9], [5, 1]], np.uint64)
    known, values = opened(space).get(asked)
    assert known.tolist() == [True, False, True, False, False, True, True]
    assert [v[0] for v in values.to_pylist()] == [2, 3, 0, 1]


# Small halves, so that equal high halves and equal keys are the rule.
small_keys = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)


@given(small_keys, small_keys)
def test_find_agrees_with_a_dictionary(there: list, asked: list) -> None:
    stored = np.array(sorted(set(there)), np.uint64).reshape(-1, 2)
    place = {tuple(k): i for i, k in enumerate(stored.tolist())}
    keys = np.array(asked, np.uint64).reshape(-1, 2)
    assert find(keys, *stored.T).tolist() == [place.get(tuple(k), -1) for k in asked]


def test_order_is_stable_and_sorts_by_both_halves() -> None:
    keys = np.array([[2, 1], [1, 9], [2, 0], [2, 1], [1, 9]], np.uint64)
    assert order(keys).tolist() == [1, 4, 2, 0, 3]


def test_a_torn_segment_is_ignored_and_reported_once(space: Namespace) -> None:
    space.put(keys_of("a"), logits((1, 2)))
    space.put(keys_of("b"), logits((3, 4)))
    torn = sorted(space.folder.glob("*.arrow"))[0]
    torn.write_bytes(torn.read_bytes()[:-20])
    reader = opened(space)
    with pytest.warns(UserWarning, match=f"store segment ignored: .*{torn.name}"):
        known = reader.has(keys_of("a", "b"))
    assert known.tolist() == [False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reader.get(keys_of("b"))[1].to_pylist() == [[3, 4]]


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"\x80\x04K\x01.", b"\0" * 500])
def test_a_file_that_is_no_segment_is_ignored(space: Namespace, content: bytes) -> None:
    space.put(keys_of("a"), logits((1, 2)))
    (space.folder / "0-000000.arrow").write_bytes(content)
    reader = opened(space)
    with pytest.warns(UserWarning, match="not a whole segment"):
        assert reader.has(keys_of("a")).all()


def test_a_tampered_value_is_found_out_by_the_checksum(space: Namespace) -> None:
    space.put(keys_of("a"), logits((1.5, 2.5)))
    (path,) = space.folder.glob("*.arrow")
    raw = path.read_bytes()
    place = raw.index(np.float32([1.5, 2.5]).tobytes())
    path.write_bytes(raw[:place] + np.float32([9.5, 2.5]).tobytes() + raw[place + 8 :])
    with pytest.raises(StoreError, match="checksum"):
        Segment.open(path, KIND)


def test_a_tampered_key_is_found_out_by_the_checksum(space: Namespace) -> None:
    space.put(keys_of("a"), logits((1, 2)))
    (path,) = space.folder.glob("*.arrow")
    raw, key = path.read_bytes(), keys_of("a")
    place = raw.index(key[0, :1].tobytes())
    path.write_bytes(raw[:place] + bytes(8) + raw[place + 8 :])
    with pytest.raises(StoreError, match="checksum"):
        Segment.open(path, KIND)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), 3), pa.list_(pa.float64(), 2), pa.binary()]
)
def test_a_segment_of_another_schema_is_refused(space: Namespace, kind: pa.DataType) -> None:
    space.put(keys_of("a"), logits((1, 2)))
    (path,) = space.folder.glob("*.arrow")
    with pytest.raises(StoreError, match="expected"):
        Segment.open(path, kind)


def test_further_columns_are_refused(tmp_path: Path) -> None:
    table = pa.table({"high": pa.array([1], pa.uint64()), "low": pa.array([1], pa.uint64()),
                      "value": logits((1, 2)), "code": ["import os"]})  # fmt: skip
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(StoreError, match="expected"):
        Segment.open(tmp_path / "x.arrow", KIND)


def test_compacting_keeps_everything(space: Namespace) -> None:
    for number in range(6):
        texts = [str(number), "shared", str(number + 1)]
        space.put(
            keys_of(*texts), logits(*[(7, 7) if t == "shared" else (int(t), 0) for t in texts])
        )
    reader = opened(space)
    asked = keys_of(*map(str, range(7)), "shared")
    before = reader.get(asked)
    assert opened(space).compact() == 6
    assert len(list(space.folder.glob("*.arrow"))) == 1
    for looker in (reader, opened(space), space):
        known, values = looker.get(asked)
        assert known.all()
        assert values.to_pylist() == before[1].to_pylist()
    assert opened(space).compact() == 0


def test_compacting_leaves_a_segment_it_cannot_read_where_it_is(space: Namespace) -> None:
    space.put(keys_of("a"), logits((1, 2)))
    space.put(keys_of("b"), logits((3, 4)))
    bad = space.folder / "zz-000000.arrow"
    bad.write_bytes(b"torn")
    with pytest.warns(UserWarning, match="zz-000000"):
        assert opened(space).compact() == 2
    assert bad.exists()


def test_a_writer_does_not_overwrite_after_its_namespace_is_compacted(space: Namespace) -> None:
    space.put(keys_of("a"), logits((1, 0)))
    space.put(keys_of("b"), logits((2, 0)))
    space.compact()
    space.put(keys_of("c"), logits((3, 0)))
    assert opened(space).has(keys_of("a", "b", "c")).all()


def test_stats_count_entries_segments_bytes_and_what_is_bad(tmp_path: Path) -> None:
    store = Store(tmp_path)
    space = store.namespace("ns", KIND, {"what": "logits", "name": "t"})
    space.put(keys_of("a", "b"), logits((1, 2), (3, 4)))
    space.put(keys_of("c"), logits((5, 6)))
    (space.folder / "torn.arrow").write_bytes(b"x")
    (record,) = store.stats()
    assert record["about"] == {"what": "logits", "name": "t"}
    assert (record["entries"], record["segments"]) == (3, 2)
    assert record["bytes"] == sum(p.stat().st_size for p in space.folder.glob("*.arrow"))
    assert list(record["bad"]) == ["torn.arrow"]


def test_gc_removes_damaged_segments_and_old_temporary_files_only(tmp_path: Path) -> None:
    store = Store(tmp_path)
    space = store.namespace("ns", KIND, {})
    space.put(keys_of("a"), logits((1, 2)))
    torn = space.folder / "torn.arrow"
    torn.write_bytes(b"x")
    old, young = space.folder / ".old.tmp", space.folder / ".young.tmp"
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    assert sorted(store.gc()) == sorted([torn, old])
    assert young.exists()
    assert opened(space).has(keys_of("a")).all()
    assert store.gc() == []


@pytest.mark.parametrize("name", ["000-000000.arrow", "zzz-000000.arrow"])
def test_gc_never_removes_good_segments_because_of_a_foreign_one(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    space = store.namespace("ns", KIND, {})
    space.put(keys_of("a"), logits((1, 2)))
    space.put(keys_of("b"), logits((3, 4)))
    Segment.write(space.folder / name, keys_of("c"), pa.array([b"foreign"]))
    store.gc()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert opened(space).has(keys_of("a", "b")).all()


def test_namespaces_share_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one, other = (store.namespace(n, KIND, {"n": n}) for n in ("one", "other"))
    one.put(keys_of("a"), logits((1, 2)))
    assert not other.has(keys_of("a")).any()
    assert [f.name for f in store.namespaces()] == ["one", "other"]
    assert json.loads((one.folder / "about.json").read_text()) == {"n": "one"}


def test_a_namespace_is_a_digest_of_every_fact() -> None:
    assert identity(a=1, b="x") == identity(b="x", a=1)
    assert len({identity(a=1), identity(a="1"), identity(b=1), identity(a=1, b=None)}) == 4
    assert len(identity(a=1)) == 32


def test_the_default_store_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFERSET_STORE", str(tmp_path / "chosen"))
    assert Store().root == tmp_path / "chosen"
    monkeypatch.delenv("TRANSFERSET_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Store().root == tmp_path / "cache" / "transferset" / "store"


WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    import pyarrow as pa
    from augment.keys import content_keys
    from augment.store import Store
    kind = pa.list_(pa.float32(), 2)
    name, root = sys.argv[1], Path(sys.argv[2])
    space = Store(root).namespace("ns", kind, {})
    for number in range(10_000 if name == "killed" else 40):
        texts = [f"{name} {number} {i}" for i in range(20)] + [f"shared {number}"]
        values = [[number, i] for i in range(20)] + [[number, number]]
        space.put(content_keys([pa.array(texts)]), pa.array(values, kind))
        print(number, flush=True)
""")


def test_lesson_12_two_writers_at_once_one_of_them_killed_leave_every_finished_entry_readable(
    tmp_path: Path,
) -> None:
    start = lambda name: subprocess.Popen(
        [sys.executable, "-c", WRITER, name, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    killed, whole = start("killed"), start("whole")
    for _ in range(10):
        killed.stdout.readline()  # type: ignore[union-attr]
    killed.kill()
    done = 10 + len(killed.communicate()[0].split("\n")) - 1
    whole.communicate()
    assert whole.returncode == 0
    reader = Store(tmp_path).namespace("ns", KIND, {})
    finished = [("whole", 40), ("killed", done)]
    for name, numbers in finished:
        texts = [f"{name} {n} {i}" for n in range(numbers) for i in range(20)]
        known, values = reader.get(keys_of(*texts))
        assert known.all()
        assert values.to_pylist() == [[n, i] for n in range(numbers) for i in range(20)]
    known, values = reader.get(keys_of(*(f"shared {n}" for n in range(40))))
    assert values.to_pylist() == [[n, n] for n in range(40)]
