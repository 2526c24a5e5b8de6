"""What users of such tools have suffered, and the law that spares ours; numbers as in LESSONS.md.

Every row has a test with its number in its name. Not here: rows 5 (tests/test_killed.py and
tests/distill/test_resume.py), 12 (test_files.py, test_store.py), 14 (tests/test_memory.py), 18
and 22 (tests/distill), and the halves of 9 and 10 about training.
"""

import json
import pickle
import re
import runpy
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import augment as A
from augment.errors import CorpusError, SetError, StoreError, TeacherError
from augment.store import Segment, Store
from tests.augment.corpus_rows import HARD_TEXTS, QUESTIONS, REVIEWS
from tests.augment.stub import StubTeacher
from tests.augment.tiny import save_classifier, tokenizer

CHAIN = A.Mask(0.2) >> A.SampleNGram(0.3)


def build(out: Path, source: Any = REVIEWS, transform: A.Transform = CHAIN, **options: Any) -> Any:
    return A.build(
        source, transform, out=out, **{"label": "label", "copies": 4, "seed": 7} | options
    )


def label(source: Path, teacher: Any, out: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the teacher is right on")
        return A.label(source, teacher, out, **options)


def test_lesson_01_workers_batches_and_shards_change_nothing(tmp_path: Path) -> None:
    sizes = [(1, 10), (1, 10_000), (2, 100), (3, 33)]
    sets = [
        build(tmp_path / f"set-{workers}-{rows}", workers=workers, shard_rows=rows, copies=6)
        for workers, rows in sizes
    ]
    assert len({made.manifest.digest for made in sets}) == 1
    first = sets[0].read()
    assert all(made.read().equals(first) for made in sets)
    # The same copies, dropped duplicates aside, come out of `datasets.map` in batches of any size.
    source = datasets.Dataset.from_list(REVIEWS)
    step = CHAIN.batched("text", copies=6, seed=7)
    mapped = [
        source.map(
            step, batched=True, with_indices=True, batch_size=size,
            remove_columns=source.column_names,
        ).to_list()
        for size in (1, 7, 1000)
    ]  # fmt: skip
    assert mapped[0] == mapped[1] == mapped[2]
    texts = {(row["source"], row["copy"]): row["text"] for row in mapped[0]}
    assert all(texts[r["source"], r["copy"]] == r["text"] for r in first.to_pylist())


def test_lesson_02_every_row_of_a_large_batch_gets_its_copies(tmp_path: Path) -> None:
    words = "every one of these rows has quite enough words for its copies to differ"
    texts = [f"row{i} {words}" for i in range(1000)]
    step = A.Mask(0.3).batched("text", copies=3, seed=1)
    made = step({"text": texts}, list(range(1000)))
    assert made["source"] == [i for i in range(1000) for _ in range(4)]
    assert made["copy"] == [0, 1, 2, 3] * 1000
    copies = [t for t, c in zip(made["text"], made["copy"], strict=True) if c]
    edited = sum("[MASK]" in t for t in copies)
    assert edited > 0.98 * len(copies), "not the first row alone"
    rows = [{"text": t, "label": i % 2} for i, t in enumerate(texts)]
    found = build(tmp_path / "set", rows, A.Mask(0.3)).read().to_pylist()
    assert {r["source"] for r in found if r["copy"]} == set(range(1000))


def test_lesson_03_rows_out_are_rows_in_and_copies_less_what_the_manifest_counts(
    tmp_path: Path,
) -> None:
    made = build(tmp_path / "set", [*REVIEWS, *REVIEWS[:5]], validation=REVIEWS[10:12], copies=20)
    counts = json.loads((made.path / "manifest.json").read_text(encoding="utf-8"))["counts"]
    assert counts["source_rows"] == 45
    assert counts["duplicates"] > 0
    assert counts["guarded"] > 0
    rows = made.read().to_pylist()
    assert len(rows) == 45 * (1 + 20) - counts["duplicates"] - counts["guarded"] == counts["rows"]
    originals = [r["source"] for r in rows if r["copy"] == 0]
    assert originals == [i for i in range(45) if i not in (10, 11)], "each once, repeats included"


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5), st.integers(0, 2**63 - 1))
def test_lesson_04_untouched_characters_are_byte_identical(texts: list[str], seed: int) -> None:
    assert A.Mask(0.0)(texts, seed=seed) == [[t] for t in texts]
    for text, (masked,) in zip(texts, A.Mask(0.4)(texts, seed=seed), strict=True):
        if "[MASK]" in text:  # then masks cannot be told from what the text says itself
            continue
        kept = map(re.escape, masked.split("[MASK]"))
        assert re.fullmatch(".+?".join(kept), text, re.DOTALL), "all but the masked words stands"


def test_lesson_04_the_address_that_came_back_mangled_elsewhere() -> None:
    text = "192.168.1.1. Ping?"
    assert A.Mask(0.0)(text) == [text]
    for copy in A.Mask(0.5)(text, copies=20):
        rest = [p for p in copy.split("[MASK]") if p]
        assert all(piece in text for piece in rest)
        assert copy.count(" ") == 1, "the space is no word"


SCRIPT = textwrap.dedent("""
    import augment as A
    from tests.augment.stub import StubTeacher
    made = A.build({train!r}, A.Mask(0.2), label="label", copies=2, seed=7, out={out!r})
    done = A.label(made.path, StubTeacher(), {out!r} + "-labelled")
""")


def test_lesson_06_a_copied_script_a_renamed_file_other_shards_and_workers_hit_the_cache_fully(
    tmp_path: Path, own_store: Path
) -> None:
    lines = "\n".join(json.dumps(r, ensure_ascii=False) for r in REVIEWS)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    first = build(tmp_path / "one", tmp_path / "a.jsonl", A.Mask(0.2), copies=2)
    teacher = StubTeacher()
    label(first.path, teacher, tmp_path / "one-labelled")
    assert teacher.asked
    segments = sorted(own_store.rglob("*.arrow"))

    (tmp_path / "a.jsonl").rename(tmp_path / "renamed.jsonl")
    there = {"train": str(tmp_path / "renamed.jsonl"), "out": str(tmp_path / "two")}
    (tmp_path / "copied.py").write_text(SCRIPT.format(**there), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the teacher is right on")
        done = runpy.run_path(str(tmp_path / "copied.py"))["done"]
    assert (done.known, done.asked) == (done.texts, 0)

    other = build(
        tmp_path / "three",
        tmp_path / "renamed.jsonl",
        A.Mask(0.2),
        copies=2,
        shard_rows=9,
        workers=2,
    )
    asked_again = StubTeacher()
    label(other.path, asked_again, tmp_path / "three-labelled", window=11)
    assert asked_again.asked == []
    assert sorted(own_store.rglob("*.arrow")) == segments, "neither logits nor words made anew"


@pytest.mark.parametrize("change", ["weights", "tokenizer", "max_tokens"])
def test_lesson_07_new_weights_tokenizer_or_length_under_the_same_name_hit_nothing(
    tmp_path: Path, own_store: Path, change: str
) -> None:
    folder = save_classifier(tmp_path / "teacher")
    made = build(tmp_path / "set", copies=1)
    options = {"precision": "fp32", "threads": 1}
    first = label(made.path, str(folder), tmp_path / "first", **options)
    assert first.asked == first.texts
    if change == "weights":
        save_classifier(folder, seed=1)
    elif change == "tokenizer":
        tokenizer(extra=("##ing",)).save_pretrained(folder)
    else:
        options["max_tokens"] = 12
    second = label(made.path, str(folder), tmp_path / "second", **options)
    assert (second.known, second.asked) == (0, second.texts)


def test_lesson_08_another_class_order_is_refused_before_the_first_call_or_reordered(
    tmp_path: Path, own_store: Path
) -> None:
    names, turned = (
        ("entailment", "neutral", "contradiction"),
        ("contradiction", "entailment", "neutral"),
    )
    rows = [r | {"label": names[i % 3]} for i, r in enumerate(REVIEWS)]
    made = build(tmp_path / "set", rows, classes=names)
    teacher = StubTeacher(turned)
    with pytest.raises(TeacherError, match="by-name"):
        label(made.path, teacher, tmp_path / "refused")
    assert teacher.asked == []
    done = label(made.path, teacher, tmp_path / "mapped", label_map="by-name").set
    for row in done.read().to_pylist():
        own = dict(zip(turned, teacher.opinion((row["text"],)).tolist(), strict=True))
        assert row["logits"] == [own[n] for n in names]


def test_lesson_09_the_logits_are_in_every_split_a_student_reads(
    tmp_path: Path, own_store: Path
) -> None:
    import datasets

    made = build(tmp_path / "set", validation=REVIEWS[:4])
    done = label(made.path, StubTeacher(), tmp_path / "labelled").set
    loaded = datasets.load_dataset(str(done.path))
    for split in ("train", "validation"):
        assert "logits" in loaded[split].column_names
        assert all(len(v) == 2 for v in loaded[split]["logits"])


@pytest.mark.parametrize("kind", ["strings", "dicts", "file"])
def test_lesson_10_a_corpus_of_texts_alone_is_built_and_labelled(
    tmp_path: Path, own_store: Path, kind: str
) -> None:
    texts = [r["text"] for r in REVIEWS]
    source: Any = {"strings": texts, "dicts": [{"text": t} for t in texts]}.get(kind)
    if kind == "file":
        source = tmp_path / "texts.jsonl"
        source.write_text("\n".join(json.dumps({"text": t}) for t in texts), encoding="utf-8")
    made = A.build(source, CHAIN, out=tmp_path / "set", copies=2, seed=7)
    assert made.read().column_names == ["text", "source", "copy", "ops"]
    teacher = StubTeacher(("bad", "good"))
    done = label(made.path, teacher, tmp_path / "labelled")
    assert done.set.task.classes == ("bad", "good"), "the classes are the teacher's"
    assert done.set.read().column_names == ["text", "source", "copy", "ops", "logits"]
    assert done.accuracy == {}


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def test_lesson_11_no_reader_unpickles_and_a_crafted_segment_is_an_error(tmp_path: Path) -> None:
    trace = tmp_path / "it-ran"
    bomb = pickle.dumps(Bomb(trace))
    pickle.loads(bomb)  # noqa: S301
    assert trace.exists(), "the bomb works"
    trace.unlink()

    kind = pa.list_(pa.float32(), 2)
    space = Store(tmp_path / "store").namespace("ns", kind, {})
    raw, table = space.folder / "a.arrow", space.folder / "b.arrow"
    raw.write_bytes(bomb)
    crafted = pa.table({"high": pa.array([1], pa.uint64()), "low": pa.array([1], pa.uint64()),
                        "value": pa.array([bomb])})  # fmt: skip
    meta = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": bomb}
    schema = crafted.schema.set(2, crafted.schema.field(2).with_metadata(meta))
    with pa.ipc.new_file(str(table), schema) as writer:
        writer.write_table(
            pa.Table.from_arrays([c.combine_chunks() for c in crafted.columns], schema=schema)
        )
    for path in (raw, table):
        with pytest.raises(StoreError):
            Segment.open(path, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Store(tmp_path / "store").stats()[0]["entries"] == 0
        Store(tmp_path / "store").gc()
    assert not trace.exists()
    sources = (Path(A.__file__).parent).rglob("*.py")
    assert not [
        p for p in sources if "import pickle" in p.read_text() or "torch.load" in p.read_text()
    ]


def test_lesson_13_workers_start_after_the_tokenizer_was_used_in_the_parent(
    tmp_path: Path,
) -> None:
    from augment.teacher import Teacher

    teacher = Teacher.from_pretrained(str(save_classifier(tmp_path / "teacher")), precision="fp32")
    assert len(list(teacher.logits([[r["text"] for r in REVIEWS]]))) > 0
    assert CHAIN("The parent has used its tokenizers by now.", copies=3)
    made = build(tmp_path / "set", workers=2, shard_rows=100)
    assert made.manifest.digest == build(tmp_path / "alone").manifest.digest


def test_lesson_15_importing_augment_loads_nothing_heavy() -> None:
    code = (
        "import sys, time\nstarted = time.perf_counter()\nimport augment\n"
        "spent = time.perf_counter() - started\n"
        "heavy = {'torch', 'spacy', 'gensim', 'transformers', 'datasets', 'numpy', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)), f'{spent:.3f}')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, spent = done.stdout.rsplit(" ", 1)
    print(f"import augment: {spent.strip()} s")
    assert loaded == "[]"


def test_lesson_16_digits_empty_one_word_long_and_foreign_texts_all_pass(
    tmp_path: Path, tagger: str, own_store: Path
) -> None:
    long = "word after word, " * 6000
    assert len(long) > 100_000
    texts = [*HARD_TEXTS, "1234567890", "x", long, "न मैं जानता हूँ", "Ὀδυσσεύς", "ไม่มีช่องว่าง"]
    rows = [{"text": t, "label": i % 2} for i, t in enumerate(texts)]
    chain = (A.Mask(0.2) | A.ReplacePOS(0.2, tagger=tagger)) >> A.SampleNGram(0.2)
    made = build(tmp_path / "set", rows, chain, copies=3)
    originals = [r["text"] for r in made.read().to_pylist() if r["copy"] == 0]
    assert originals == texts
    done = label(made.path, str(save_classifier(tmp_path / "teacher")), tmp_path / "labelled",
                 precision="fp32", threads=1)  # fmt: skip
    assert done.set.rows() == made.rows()


def test_lesson_16_what_cannot_pass_names_row_and_column(tmp_path: Path) -> None:
    rows = [*QUESTIONS[:7], {"id": 7, "first": "A question?", "second": None, "label": 1}]
    with pytest.raises(CorpusError, match='train, row 7: "second" is missing'):
        build(tmp_path / "set", rows, text=["first", "second"])


def test_lesson_17_planted_held_out_rows_are_dropped_and_counted(tmp_path: Path) -> None:
    planted = [REVIEWS[3]["text"].upper(), f"  {REVIEWS[17]['text']}\n", REVIEWS[20]["text"]]
    made = build(tmp_path / "set", test=[{"text": t, "label": 0} for t in planted], copies=0)
    kept = {r["source"] for r in made.read().to_pylist()}
    assert kept == set(range(40)) - {3, 17, 20}
    assert made.manifest.counts["guarded"] == 3
    train = {" ".join(r["text"].casefold().split()) for r in made.read().to_pylist()}
    held = {" ".join(t.casefold().split()) for t in planted}
    assert not train & held


def test_lesson_19_a_or_b_then_c_raises_and_the_text_shows_the_fix() -> None:
    with pytest.raises(TypeError) as error:
        A.Mask(0.1) | A.ReplacePOS(0.1) >> A.SampleNGram(0.25)
    fix = str(error.value).split("write ")[1]
    assert fix == "(Mask(0.1) | ReplacePOS(0.1)) >> SampleNGram(0.25)"
    names = {n: getattr(A, n) for n in ("Mask", "ReplacePOS", "SampleNGram")}
    meant = A.Chain([A.Choice([A.Mask(0.1), A.ReplacePOS(0.1)]), A.SampleNGram(0.25)])
    assert eval(fix, names) == meant  # noqa: S307


def test_lesson_20_resuming_is_the_default_and_a_changed_recipe_names_the_difference(
    tmp_path: Path,
) -> None:
    made = build(tmp_path / "set")
    stamps = {p: p.stat().st_mtime_ns for p in made.path.rglob("*") if p.is_file()}
    assert build(tmp_path / "set").manifest == made.manifest
    assert {p: p.stat().st_mtime_ns for p in made.path.rglob("*") if p.is_file()} == stamps
    with pytest.raises(SetError, match=r"seed was 7, is 8.*choose another folder"):
        build(tmp_path / "set", seed=8)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set"], "no fresh folder without a word"


def test_lesson_21_another_shard_size_on_resuming_is_refused_with_a_reason(tmp_path: Path) -> None:
    made = build(tmp_path / "set", shard_rows=30)
    digest, plan = made.manifest.digest, made.manifest.recipe["plan"]
    (made.path / "manifest.json").unlink()  # as if it had been stopped near its end
    (made.path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    shards = {p: p.stat().st_mtime_ns for p in (made.path / "data").iterdir()}
    with pytest.raises(SetError, match="shard_rows was 30, is 31.*choose another folder"):
        build(tmp_path / "set", shard_rows=31)
    assert {p: p.stat().st_mtime_ns for p in (made.path / "data").iterdir()} == shards
    assert build(tmp_path / "set", shard_rows=30, workers=2).manifest.digest == digest
    assert {p: p.stat().st_mtime_ns for p in (made.path / "data").iterdir()} == shards


def test_lesson_21_labelling_goes_on_in_windows_of_another_size(tmp_path: Path) -> None:
    made = build(tmp_path / "set", shard_rows=30)
    calm = label(made.path, StubTeacher(), tmp_path / "calm", store=tmp_path / "calm-store")
    first = label(made.path, StubTeacher(), tmp_path / "labelled", window=17)
    (tmp_path / "labelled" / "manifest.json").unlink()
    plan = (first.set.manifest.teacher or {})["plan"]
    (tmp_path / "labelled" / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    again = label(made.path, StubTeacher(), tmp_path / "labelled", window=1000)
    assert (again.known, again.asked) == (again.texts, 0)
    assert again.set.manifest.digest == calm.set.manifest.digest
