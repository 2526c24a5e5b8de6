"""Reading corpora: every kind of source gives the same rows, and nothing is guessed or lost."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from augment.corpus import Corpus, sources_of, spool
from augment.errors import CorpusError
from augment.settings import CorpusSettings
from tests.augment.corpus_rows import HARD_TEXTS, QUESTIONS, REVIEWS

SETTINGS = CorpusSettings(label="label")
Read = Callable[..., Corpus]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Spool sources with the given settings."""

    def reader(train: Any, settings: CorpusSettings = SETTINGS, **held_out: Any) -> Corpus:
        folder = tmp_path / "spool"
        folder.mkdir(exist_ok=True)
        return spool({"train": train} | held_out, settings, folder)

    return reader


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file byte for byte."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def texts(corpus: Corpus, column: str = "text") -> list[str]:
    return corpus.train[column].to_pylist()


def labels(corpus: Corpus) -> list[Any]:
    return corpus.train["label"].to_pylist()


def as_csv(rows: list[dict[str, Any]], path: Path, delimiter: str = ",") -> Path:
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_jsonl(rows: list[dict[str, Any]], path: Path) -> Path:
    path.write_text(
        "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8"
    )
    return path


def as_parquet(rows: list[dict[str, Any]], path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    return path


def as_tsv(rows: list[dict[str, Any]], path: Path) -> Path:
    lines = ["\t".join(rows[0]), *("\t".join(map(str, r.values())) for r in rows)]
    path.write_bytes(("\n".join(lines) + "\n").encode())
    return path


SOURCES: dict[str, Callable[[Path], Any]] = {
    "list of dicts": lambda tmp: REVIEWS,
    "generator": lambda tmp: (dict(row) for row in REVIEWS),
    "table": lambda tmp: pa.Table.from_pylist(REVIEWS),
    "Dataset": lambda tmp: datasets.Dataset.from_list(REVIEWS),
    "IterableDataset": lambda tmp: datasets.Dataset.from_list(REVIEWS).to_iterable_dataset(3),
    "csv": lambda tmp: as_csv(REVIEWS, tmp / "r.csv"),
    "tsv": lambda tmp: as_tsv(REVIEWS, tmp / "r.tsv"),
    "jsonl": lambda tmp: as_jsonl(REVIEWS, tmp / "r.jsonl"),
    "parquet": lambda tmp: as_parquet(REVIEWS, tmp / "r.parquet"),
    "path as a string": lambda tmp: str(as_parquet(REVIEWS, tmp / "s.parquet")),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_the_same_rows(kind: str, read: Read, tmp_path: Path) -> None:
    corpus = read(SOURCES[kind](tmp_path))
    assert texts(corpus) == [row["text"] for row in REVIEWS]
    assert labels(corpus) == [row["label"] for row in REVIEWS]
    assert corpus.train["source"].to_pylist() == list(range(len(REVIEWS)))
    assert corpus.task.classes == ("0", "1")
    assert corpus.digest == read(REVIEWS).digest


@pytest.mark.parametrize("kind", SOURCES)
def test_whole_number_ids_are_the_same_ids_in_every_kind_of_source(
    kind: str, read: Read, tmp_path: Path
) -> None:
    corpus = read(SOURCES[kind](tmp_path), CorpusSettings(label="label", id="id"))
    assert corpus.train["source"].to_pylist() == [row["id"] for row in REVIEWS]
    assert corpus.digest == read(REVIEWS).digest


def test_a_list_of_strings_is_a_corpus_of_texts(read: Read) -> None:
    corpus = read(["one", "two"], CorpusSettings())
    assert texts(corpus) == ["one", "two"]
    assert "label" not in corpus.train.column_names
    assert corpus.task.classes == ()


def test_pairs_and_other_columns(read: Read) -> None:
    corpus = read(QUESTIONS, CorpusSettings(text=("second", "first"), label="label"))
    assert corpus.text == ("second", "first")
    assert texts(corpus, "first") == [row["first"] for row in QUESTIONS]
    assert set(corpus.train.column_names) == {"first", "second", "label", "source"}


@pytest.mark.parametrize("value", [3, 2.5, None, object()])
def test_what_is_no_source_is_refused(read: Read, value: Any) -> None:
    with pytest.raises(CorpusError, match="expected a dataset, rows as dicts, a table or a path"):
        read(value)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_hard_texts_survive_every_file_format(read: Read, tmp_path: Path, ending: str) -> None:
    rows = [{"id": i, "text": t, "label": i % 2} for i, t in enumerate(HARD_TEXTS)]
    writers = {"csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet}
    assert texts(read(writers[ending](rows, tmp_path / f"hard.{ending}"))) == HARD_TEXTS


def test_hard_texts_survive_a_tsv_that_has_no_quoting(read: Read, tmp_path: Path) -> None:
    hard = [t for t in HARD_TEXTS if "\t" not in t and "\n" not in t]
    rows = [{"id": i, "text": t, "label": i % 2} for i, t in enumerate(hard)]
    assert texts(read(as_tsv(rows, tmp_path / "hard.tsv"))) == hard


@pytest.mark.parametrize("word", ["null", "NA", "nan", "None", "N/A", "NULL", "-", "#N/A", "true"])
def test_words_that_look_like_nothing_stay_words(read: Read, file: Any, word: str) -> None:
    assert texts(read(file("a.csv", f"text,label\n{word},0\nx,1\n"))) == [word, "x"]
    assert texts(read(file("a.tsv", f"text\tlabel\n{word}\t0\nx\t1\n"))) == [word, "x"]


def test_texts_of_digits_only_stay_as_they_are_written(read: Read, file: Any) -> None:
    assert texts(read(file("a.csv", "text,label\n007,0\n1e3,1\n1.0,0\n"))) == ["007", "1e3", "1.0"]
    assert texts(read(file("a.tsv", "text\tlabel\n007\t0\n08\t1\n"))) == ["007", "08"]


def test_dates_stay_as_they_are_written(read: Read, file: Any) -> None:
    rows = [{"text": "2021-01-01", "label": 0}, {"text": "2021-01-02", "label": 1}]
    assert texts(read(file("a.csv", "text,label\n2021-01-01,0\n2021-01-02,1\n")))[0] == "2021-01-01"
    lines = "".join(json.dumps(r) + "\n" for r in rows)
    assert texts(read(file("a.jsonl", lines))) == ["2021-01-01", "2021-01-02"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "\ufefftext,label\none,0\ntwo,1\n"),
        ("a.tsv", "\ufefftext\tlabel\none\t0\ntwo\t1\n"),
        ("a.jsonl", '\ufeff{"text": "one", "label": 0}\n{"text": "two", "label": 1}\n'),
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_column(
    read: Read, file: Any, name: str, content: str
) -> None:
    corpus = read(file(name, content))
    assert texts(corpus) == ["one", "two"]
    assert labels(corpus) == [0, 1]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "end"])
def test_line_ends_of_either_kind_are_no_part_of_a_value(
    read: Read, file: Any, end: str, last: str
) -> None:
    close = end if last else ""
    for name, sep in (("a.csv", ","), ("a.tsv", "\t")):
        content = end.join([f"label{sep}text", f"0{sep}one", f"1{sep}two"]) + close
        corpus = read(file(name, content))
        assert texts(corpus) == ["one", "two"]
        assert labels(corpus) == [0, 1]


def test_bare_quotes_in_a_tsv_are_characters(read: Read, file: Any) -> None:
    lines = ["text\tlabel", '"open\t0', 'a "b" c\t1', "it's\t0", '""\t1']
    corpus = read(file("a.tsv", "\n".join(lines) + "\n"))
    assert texts(corpus) == ['"open', 'a "b" c', "it's", '""']
    assert labels(corpus) == [0, 1, 0, 1]


def test_quotes_inside_a_csv_value_are_characters(read: Read, file: Any) -> None:
    content = 'text,label\n"say ""hi"", you",0\n6" nails,1\n"two\nlines",0\n'
    assert texts(read(file("a.csv", content))) == ['say "hi", you', '6" nails', "two\nlines"]


def test_a_bare_carriage_return_ends_no_line(read: Read, file: Any) -> None:
    corpus = read(file("a.tsv", "text\tlabel\none\rstill one\t0\ntwo\t1\n"))
    assert texts(corpus) == ["one\rstill one", "two"]
    corpus = read(file("a.csv", 'text,label\n"one\rstill one",0\ntwo,1\n'))
    assert texts(corpus) == ["one\rstill one", "two"]


def test_an_unquoted_carriage_return_in_a_csv_makes_no_row(read: Read, file: Any) -> None:
    path = file("a.csv", "text,label\none\rstill one,0\ntwo,1\n")
    try:
        corpus = read(path)
    except CorpusError:
        return
    assert len(texts(corpus)) == 2


def test_a_value_that_ends_in_a_quoted_carriage_return_keeps_it(read: Read, file: Any) -> None:
    assert texts(read(file("a.csv", 'label,text\n0,"one\r"\n1,two\n'))) == ["one\r", "two"]


def test_leading_and_trailing_spaces_belong_to_the_text(read: Read, file: Any) -> None:
    assert texts(read(file("a.csv", "text,label\n  one ,0\n two,1\n"))) == ["  one ", " two"]
    assert texts(read(file("a.tsv", "text\tlabel\n  one \t0\n two\t1\n"))) == ["  one ", " two"]


def test_empty_texts_are_rows(read: Read, file: Any) -> None:
    assert texts(read(file("a.csv", 'text,label\n,0\n"",1\nx,0\n'))) == ["", "", "x"]
    assert texts(read(file("a.tsv", "text\tlabel\n\t0\nx\t1\n"))) == ["", "x"]
    one = CorpusSettings()
    assert texts(read(file("b.csv", 'text\n""\nx\n'), one)) == ["", "x"]


def test_an_empty_line_of_a_file_of_single_texts_shifts_no_row(read: Read, file: Any) -> None:
    # Texts alone, one a line: dropping the empty one would give every later row another number.
    for content in ("text\none\n\nthree\n", "text\none\n  \nthree\n"):
        try:
            corpus = read(file("a.tsv", content), CorpusSettings())
        except CorpusError:
            continue
        assert len(texts(corpus)) == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,label\nHello, world,1\nBye, all,0\n"),
        ("a.csv", "text,label\nfine,0\nHello, world,1\n"),
        ("a.tsv", "text\tlabel\nHello\tworld\t1\nBye\tall\t0\n"),
    ],
)
def test_a_row_with_more_fields_than_the_header_is_an_error(
    read: Read, file: Any, name: str, content: str
) -> None:
    with pytest.raises(CorpusError, match=name):
        read(file(name, content))


def test_a_row_with_fewer_fields_than_the_header_is_an_error(read: Read, file: Any) -> None:
    with pytest.raises(CorpusError, match="row 1"):
        read(file("a.tsv", "label\ttext\n0\tone\n1\n"))


def test_a_missing_column_is_named_with_the_nearest(read: Read) -> None:
    with pytest.raises(CorpusError, match=r'train: no column "txet"; did you mean "text"\?'):
        read(REVIEWS, CorpusSettings(text=("txet",)))
    with pytest.raises(CorpusError, match=r'no column "gold"; known: id, text, label'):
        read(REVIEWS, CorpusSettings(label="gold"))


def test_a_missing_text_names_row_and_column(read: Read) -> None:
    rows = [*REVIEWS[:5], {"id": 5, "text": None, "label": 0}]
    with pytest.raises(CorpusError, match='train, row 5: "text" is missing; give every row a text'):
        read(rows)
    many = [{"text": "x", "label": i % 2} for i in range(10_003)]
    many[10_001]["text"] = None  # type: ignore[call-overload]
    with pytest.raises(CorpusError, match='train, row 10001: "text" is missing'):
        read(many)


def test_a_column_that_is_no_text_is_refused(read: Read) -> None:
    with pytest.raises(CorpusError, match='train: column "id" holds int64, expected text'):
        read(REVIEWS, CorpusSettings(text=("id",), label="label"))


def test_a_column_that_changes_type_on_the_way_is_an_error(read: Read) -> None:
    rows = [{"text": "x", "label": i % 2} for i in range(10_001)]
    rows[10_000]["label"] = "maybe"
    with pytest.raises(CorpusError, match="from row 10000: columns change type"):
        read(rows)


def test_labels_as_numbers_strings_and_class_labels(read: Read) -> None:
    rows = [{"text": "a", "label": "pos"}, {"text": "b", "label": " neg "}]
    assert read(rows).task.classes == ("neg", "pos")
    assert labels(read(rows)) == [1, 0]
    numbers = [{"text": "a", "label": 2}, {"text": "b", "label": 10}]
    assert read(numbers).task.classes == ("2", "10"), "numbers sort as numbers"
    assert labels(read(numbers)) == [0, 1]
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["no", "yes", "dunno"]),
        }
    )
    named = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features=features)
    assert read(named).task.classes == ("no", "yes", "dunno"), "unseen classes count as well"
    assert labels(read(named)) == [1, 0]
    assert labels(read(named.to_iterable_dataset())) == [1, 0]


def test_true_and_false_are_classes(read: Read) -> None:
    corpus = read([{"text": "a", "label": True}, {"text": "b", "label": False}])
    assert len(corpus.task.classes) == 2
    assert sorted(labels(corpus)) == [0, 1]


def test_classes_may_be_named_and_rows_hold_numbers(read: Read, file: Any) -> None:
    named = CorpusSettings(label="label", classes=("bad", "good"))
    assert read(REVIEWS, named).task.classes == ("bad", "good")
    assert labels(read(REVIEWS, named)) == [row["label"] for row in REVIEWS]
    assert labels(read(file("a.csv", "text,label\none,1\ntwo,0\n"), named)) == [1, 0]
    assert labels(read([{"text": "a", "label": "good"}, {"text": "b", "label": "bad"}], named)) == [
        1,
        0,
    ]


def test_the_order_of_named_classes_is_kept(read: Read) -> None:
    rows = [{"text": "a", "label": "a"}, {"text": "b", "label": "b"}]
    corpus = read(rows, CorpusSettings(label="label", classes=("b", "a")))
    assert labels(corpus) == [1, 0]


def test_a_label_that_is_no_class_names_its_row(read: Read) -> None:
    named = CorpusSettings(label="label", classes=("bad", "good"))
    with pytest.raises(
        CorpusError, match='train, row 1: label "ugly" is none of the classes bad, good'
    ):
        read([{"text": "a", "label": "bad"}, {"text": "b", "label": "ugly"}], named)
    with pytest.raises(CorpusError, match='row 1: label "2" is none of the classes'):
        read([{"text": "a", "label": 0}, {"text": "b", "label": 2}], named)


def test_a_held_out_label_unknown_to_train_names_its_row(read: Read) -> None:
    with pytest.raises(
        CorpusError, match='validation, row 0: label "7" is none of the classes 0, 1'
    ):
        read(REVIEWS, validation=[{"text": "a", "label": 7}])


def test_a_missing_label_in_train_names_its_row(read: Read, file: Any) -> None:
    with pytest.raises(CorpusError, match='train, row 1: label "label" is missing'):
        read([{"text": "a", "label": 1}, {"text": "b", "label": None}, {"text": "c", "label": 0}])
    with pytest.raises(CorpusError, match='train, row 1: label "label" is missing'):
        read(file("a.csv", "text,label\na,1\nb,\nc,0\n"))


def test_one_class_only_is_an_error(read: Read) -> None:
    with pytest.raises(CorpusError, match=r"one class only \(1\)"):
        read([{"text": "a", "label": 1}, {"text": "b", "label": 1}])


HIDDEN: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda file: [{"text": t, "label": v} for t, v in (("a", 1), ("b", -1), ("c", 0))],
    "strings": lambda file: [
        {"text": t, "label": v} for t, v in (("a", "1"), ("b", "-1"), ("c", "0"))
    ],
    "csv": lambda file: file("v.csv", "text,label\na,1\nb,-1\nc,0\n"),
    "csv, left empty": lambda file: file("v.csv", "text,label\na,1\nb,\nc,0\n"),
    "none": lambda file: [{"text": t, "label": v} for t, v in (("a", 1), ("b", None), ("c", 0))],
    "ClassLabel": lambda file: datasets.Dataset.from_dict(
        {"text": ["a", "b", "c"], "label": [1, -1, 0]},
        features=datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["0", "1"])}
        ),
    ),
}


@pytest.mark.parametrize("classes", [(), ("bad", "good")], ids=["found", "named"])
@pytest.mark.parametrize("kind", HIDDEN)
def test_hidden_labels_of_held_out_rows_are_missing_not_wrong(
    read: Read, file: Any, kind: str, classes: tuple[str, ...]
) -> None:
    settings = CorpusSettings(label="label", classes=classes)
    corpus = read(REVIEWS, settings, validation=HIDDEN[kind](file))
    assert corpus.held_out["validation"]["label"].to_pylist() == [1, None, 0]


def test_held_out_rows_need_no_label_column(read: Read) -> None:
    corpus = read(REVIEWS, test=[{"text": "only text"}])
    assert corpus.held_out["test"].column_names == ["text"]


def test_held_out_rows_need_no_id(read: Read) -> None:
    corpus = read(REVIEWS, CorpusSettings(label="label", id="id"), test=[{"text": "a", "label": 0}])
    assert corpus.held_out["test"].to_pylist() == [{"text": "a", "label": 0}]


def test_a_held_out_split_is_checked_like_train(read: Read) -> None:
    with pytest.raises(CorpusError, match='validation, row 1: "text" is missing'):
        read(REVIEWS, validation=[{"text": "a", "label": 0}, {"text": None, "label": 0}])
    with pytest.raises(CorpusError, match='validation: no column "text"'):
        read(REVIEWS, validation=[{"body": "a"}])


REGRESSION = CorpusSettings(label="score", task="regression")


def test_regression_labels_are_numbers(read: Read, file: Any) -> None:
    assert labels(read([{"text": "a", "score": 1}, {"text": "b", "score": 3}], REGRESSION)) == [
        1.0,
        3.0,
    ]
    assert labels(read(file("a.csv", "text,score\na,2.5\nb,1e-1\n"), REGRESSION)) == [2.5, 0.1]
    assert read([{"text": "a", "score": 1.5}], REGRESSION).task.outputs == 1


def test_a_regression_label_that_is_not_finite_names_its_row(read: Read, file: Any) -> None:
    rows = [{"text": "a", "score": 1.0}, {"text": "b", "score": float("nan")}]
    with pytest.raises(CorpusError, match='train, row 1: label "score" is not finite'):
        read(rows, REGRESSION)
    with pytest.raises(CorpusError, match='train, row 0: label "score" is not finite'):
        read(file("a.csv", "text,score\na,nan\nb,1\n"), REGRESSION)


def test_a_regression_label_that_is_a_word_or_missing_is_refused(read: Read, file: Any) -> None:
    with pytest.raises(CorpusError, match='label "score" is not a number'):
        read(file("a.csv", "text,score\na,high\n"), REGRESSION)
    with pytest.raises(CorpusError, match='row 1: label "score" is missing'):
        read([{"text": "a", "score": 1.0}, {"text": "b", "score": None}], REGRESSION)


def test_a_hidden_regression_label_of_a_held_out_row_is_missing(read: Read, file: Any) -> None:
    held_out = file("v.csv", "text,score\na,1.5\nb,\n")
    corpus = read([{"text": "a", "score": 1.0}], REGRESSION, test=held_out)
    assert corpus.held_out["test"]["label"].to_pylist() == [1.5, None]


def test_decimal_labels_without_a_regression_say_what_to_do(read: Read) -> None:
    with pytest.raises(CorpusError, match='set task = "regression", or name the classes'):
        read([{"text": "a", "label": 1.5}, {"text": "b", "label": 2.5}])


def test_ids_are_kept_as_numbers_or_strings(read: Read) -> None:
    rows = [{"text": "a", "key": "x-1"}, {"text": "b", "key": "x-2"}]
    assert read(rows, CorpusSettings(id="key")).train["source"].to_pylist() == ["x-1", "x-2"]
    far = [{"text": "a", "key": 2**62}, {"text": "b", "key": -5}]
    assert read(far, CorpusSettings(id="key")).train["source"].to_pylist() == [2**62, -5]


def test_ids_with_leading_zeros_stay_strings(read: Read, file: Any) -> None:
    corpus = read(file("a.csv", "key,text\n007,a\n7,b\n"), CorpusSettings(id="key"))
    assert corpus.train["source"].to_pylist() == ["007", "7"]


def test_unsigned_ids_beyond_a_signed_integer_are_ids_or_one_clear_error(read: Read) -> None:
    table = pa.table({"text": ["a", "b"], "key": pa.array([1, 2**64 - 1], pa.uint64())})
    try:
        corpus = read(table, CorpusSettings(id="key"))
    except CorpusError:
        return
    assert len(set(corpus.train["source"].to_pylist())) == 2


def test_ids_that_repeat_or_miss_are_refused(read: Read) -> None:
    settings = CorpusSettings(id="key")
    with pytest.raises(CorpusError, match='id "key" repeats'):
        read([{"text": "a", "key": 1}, {"text": "b", "key": 1}], settings)
    with pytest.raises(CorpusError, match='id "key" is missing'):
        read([{"text": "a", "key": 1}, {"text": "b", "key": None}], settings)
    with pytest.raises(CorpusError, match='no column "key"'):
        read([{"text": "a"}], settings)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_an_empty_file_is_an_error_that_says_so(read: Read, file: Any, name: str) -> None:
    with pytest.raises(CorpusError, match=f"{name}: the file is empty"):
        read(file(name, b""))


@pytest.mark.parametrize("source", [[], iter([]), pa.table({"text": pa.array([], pa.string())})])
def test_a_source_without_rows_is_an_error(read: Read, source: Any) -> None:
    with pytest.raises(CorpusError, match="train: no rows"):
        read(source, CorpusSettings())


@pytest.mark.parametrize(("name", "sep"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_header_without_rows_is_an_error(read: Read, file: Any, name: str, sep: str) -> None:
    with pytest.raises(CorpusError, match="no rows"):
        read(file(name, f"text{sep}label\n"))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("far", [0, 200_000])
def test_bytes_that_are_not_utf8_are_an_error_that_names_the_file(
    read: Read, file: Any, name: str, far: int
) -> None:
    sep = b"," if name.endswith("csv") else b"\t"
    head, row = b"text" + sep + b"label\n", b"caf\xe9" + sep + b"1\n"
    fill = b"x" * 99 + sep + b"0\n"
    if name.endswith("jsonl"):
        head, row, fill = (
            b"",
            b'{"text": "caf\xe9", "label": 1}\n',
            b'{"text": "xxxxx", "label": 0}\n',
        )
    with pytest.raises(CorpusError, match=name):
        read(file(name, head + fill * (far // len(fill)) + row + fill))


@pytest.mark.parametrize(("name", "content"), [("a.parquet", "text"), ("a.jsonl", "{no json\n")])
def test_a_file_of_another_format_is_an_error_that_names_it(
    read: Read, file: Any, name: str, content: str
) -> None:
    with pytest.raises(CorpusError, match=name):
        read(file(name, content))


def test_unknown_endings_and_absent_files_are_errors(read: Read, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"reads \.csv, .*, got '\.docx'"):
        read(tmp_path / "a.docx")
    with pytest.raises(CorpusError, match=r"absent\.csv: no such file"):
        read(tmp_path / "absent.csv")


def test_a_changed_file_is_read_anew(read: Read, file: Any) -> None:
    assert texts(read(file("a.csv", "text,label\none,0\ntwo,1\n"))) == ["one", "two"]
    assert texts(read(file("a.csv", "text,label\nuno,0\ndue,1\n"))) == ["uno", "due"]


def test_a_recipe_names_files_relative_to_itself(tmp_path: Path) -> None:
    found = sources_of(CorpusSettings(train="x/train.csv", test="t.tsv"), tmp_path)
    assert found == {"train": tmp_path / "x" / "train.csv", "test": tmp_path / "t.tsv"}


def test_a_hub_dataset_that_cannot_be_had_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="without a hub, download its files"):
        sources_of(CorpusSettings(name="no/such-dataset"), tmp_path)


def test_memory_is_mapped_and_not_held(read: Read) -> None:
    corpus = read([{"text": "some words " * 20, "label": i % 2} for i in range(20_000)])
    before = pa.total_allocated_bytes()
    whole = corpus.train.slice(0)
    assert whole.nbytes > 4_000_000
    assert pa.total_allocated_bytes() - before < 100_000
    address = corpus.train["text"].chunk(0).buffers()[2]
    assert not address.is_mutable


def test_one_hidden_label_shifts_no_other(read: Read) -> None:
    train = [{"text": str(n), "label": n} for n in (1, 2, 3)]
    held_out = [{"text": "a", "label": 1}, {"text": "b", "label": 3}, {"text": "c", "label": None}]
    corpus = read(train, validation=held_out)
    assert corpus.held_out["validation"]["label"].to_pylist() == [0, 2, None]


def test_a_column_absent_from_the_first_row_is_not_lost(read: Read) -> None:
    held_out = [{"text": "a"}, {"text": "b", "label": 1}]
    corpus = read([{"text": "x", "label": 0}, {"text": "y", "label": 1}], validation=held_out)
    assert corpus.held_out["validation"]["label"].to_pylist() == [None, 1]


def test_a_dict_of_columns_is_a_table(read: Read) -> None:
    assert read({"text": ["a", "b"]}, CorpusSettings()).train["text"].to_pylist() == ["a", "b"]
