"""Bad input: one sentence that names the place and the remedy, exit code 2, nothing harmed.

Each row of the table damages a copy of a small finished workplace, runs one command, and reads
what it says. The workplace: recipe.toml, train.jsonl, dev.jsonl, set, teacher, labelled, run.
"""

import json
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.augment.corpus_rows import REVIEWS
from tests.augment.tiny import save_classifier

RECIPE = """
[corpus]
train = "train.jsonl"
validation = "dev.jsonl"
text = ["text"]
label = "label"
classes = ["bad", "good"]

[augment]
copies = 2
seed = 7
steps = [{ mask = { rate = 0.1 } }, { ngram = { rate = 0.3 } }]

[teacher]
model = "teacher"
max_tokens = 32

[label]
precision = "fp32"

[student]
hidden = 4
head = 4
dims = 8

[[stage]]
steps = 3
batch = 4
evaluations = 1
"""
Run = Callable[..., tuple[int, str, str]]
Harm = Callable[[Path], None]

BUILD = ["augment", "build", "recipe.toml", "--out", "new"]
LABEL = ["augment", "label", "recipe.toml", "--set", "set", "--out", "new"]
AGAIN = ["augment", "label", "recipe.toml", "--set", "set", "--out", "labelled"]
ADAPT = ["augment", "adapt-lm", "teacher", "--corpus", "train.jsonl", "--out", "new"]
TRAIN = ["distill", "train", "recipe.toml", "--set", "labelled", "--out", "new"]


def lines(rows: list[dict[str, object]]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def recipe(old: str, new: str) -> Harm:
    def harm(place: Path) -> None:
        text = (place / "recipe.toml").read_text(encoding="utf-8")
        assert old in text
        (place / "recipe.toml").write_text(text.replace(old, new, 1), encoding="utf-8")

    return harm


def train(change: Callable[[list[dict[str, object]]], object]) -> Harm:
    def harm(place: Path) -> None:
        rows: list[dict[str, object]] = [dict(row) for row in REVIEWS]
        change(rows)
        (place / "train.jsonl").write_text(lines(rows), encoding="utf-8")

    return harm


def written(name: str, data: bytes) -> Harm:
    def harm(place: Path) -> None:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(data)

    return harm


def removed(pattern: str) -> Harm:
    def harm(place: Path) -> None:
        for path in list(place.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def teacher(*classes: str) -> Harm:
    def harm(place: Path) -> None:
        shutil.rmtree(place / "teacher")
        save_classifier(place / "teacher", classes)

    return harm


def config(name: str, value: object) -> Harm:
    def harm(place: Path) -> None:
        path = place / "teacher" / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))

    return harm


def manifest(change: Callable[[dict[str, object]], object]) -> Harm:
    def harm(place: Path) -> None:
        path = place / "set" / "manifest.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        change(found)
        path.write_text(json.dumps(found), encoding="utf-8")

    return harm


def shortened(place: Path) -> None:
    """A shard that is whole Parquet but lacks rows."""
    path = place / "set" / "data" / "train-00000.parquet"
    pq.write_table(pq.read_table(path).slice(5), path)


def nothing(place: Path) -> None:
    """The workplace stays as it is: the command is what is wrong."""


TABLE: dict[str, tuple[Harm, list[str], str]] = {
    # The recipe.
    "no recipe": (removed("recipe.toml"), BUILD, "recipe.toml: no such recipe; see corpora"),
    "broken TOML": (recipe("[augment]", "[augment"), BUILD, "recipe.toml: not valid TOML"),
    "unknown section": (recipe("[label]", "[lable]"), BUILD, r'\[lable\]; did you mean "label"'),
    "unknown key": (recipe("copies", "copis"), BUILD, '"copis"; did you mean "copies"'),
    "wrong type": (recipe("copies = 2", 'copies = "2"'), BUILD, "copies: a whole number, got '2'"),
    "rate out of range": (recipe("0.1", "10"), BUILD, r"mask: rate .* got 10; write 0.1"),
    "rates above one": (
        recipe(
            "{ mask = { rate = 0.1 } }",
            "{ choice = [{ mask = { rate = 0.7 } }, { mask = { rate = 0.7 } }] }",
        ),
        BUILD,
        r"choice: the rates of a choice sum to at most 1, got 0.7 \+ 0.7",
    ),
    "unknown transform": (recipe("ngram", "ngrm"), BUILD, '"ngrm"; did you mean "ngram"'),
    "negative copies": (recipe("copies = 2", "copies = -1"), BUILD, "copies .* got -1"),
    "unknown language": (
        recipe('label = "label"', 'label = "label"\nlanguage = "qq"'),
        BUILD,
        "language 'qq': spaCy has no tokenizer",
    ),
    "three text columns": (
        recipe('["text"]', '["text", "text2", "text3"]'),
        BUILD,
        r"\[corpus\]: .*one or two",
    ),
    "no steps": (recipe("steps = [{", "steps_ = [{"), BUILD, 'did you mean "steps"'),
    # The corpus.
    "no such file": (removed("train.jsonl"), BUILD, "train.jsonl: no such file"),
    "empty file": (written("train.jsonl", b""), BUILD, r"train.*: no rows|empty"),
    "missing column": (
        recipe('text = ["text"]', 'text = ["txt"]'),
        BUILD,
        'train: no column "txt"; did you mean "text"',
    ),
    "invalid UTF-8": (
        written("train.jsonl", b'{"text": "caf\xe9", "label": 1}\n'),
        BUILD,
        r"train.jsonl.* UTF-8",
    ),
    "a line that is no JSON": (
        written("train.jsonl", b'{"text": "a", "label": 1}\nnot json\n'),
        BUILD,
        r"train.jsonl.*line 2",
    ),
    "a text that is missing": (
        train(lambda rows: rows[3].update(text=None)),
        BUILD,
        'train, row 3: "text" is missing',
    ),
    "a text that is a number": (
        train(lambda rows: [row.update(text=5) for row in rows]),
        BUILD,
        'train: column "text" holds int64, expected text',
    ),
    "a label that is missing": (
        train(lambda rows: rows[4].update(label=None)),
        BUILD,
        'train, row 4: label "label" is missing',
    ),
    "a label of no class": (
        train(lambda rows: rows[6].update(label=7)),
        BUILD,
        'train, row 6: label "7" is none of the classes bad, good',
    ),
    "a NaN score": (
        lambda place: (
            recipe('classes = ["bad", "good"]', 'task = "regression"')(place),
            train(lambda rows: rows[5].update(label=float("nan")))(place),
        )[0],
        BUILD,
        'row 5: label "label" is not finite|missing',
    ),
    "one class only": (
        recipe('["bad", "good"]', '["bad"]'),
        BUILD,
        "classes|one class only",
    ),
    "repeated ids": (
        lambda place: (
            recipe('label = "label"', 'label = "label"\nid = "id"')(place),
            train(lambda rows: [row.update(id=1) for row in rows])(place),
        )[0],
        BUILD,
        'id "id" repeats; every row needs its own',
    ),
    # Folders.
    "out is a file": (written("new", b"x"), BUILD, "new: is a file; choose a folder"),
    "out holds a letter": (
        written("new/letter.txt", b"dear"),
        BUILD,
        "new: not empty and not a transfer set .it holds letter.txt.; choose another folder",
    ),
    "a changed recipe": (
        recipe("seed = 7", "seed = 8"),
        [*BUILD[:-1], "set"],
        "set: begun with other settings .*seed was 7, is 8.*choose another folder",
    ),
    "no workers": (nothing, [*BUILD, "--workers", "0"], "workers is a count of at least 1"),
    # Sets.
    "no set": (removed("set"), LABEL, "set: no such transfer set; make one with: augment build"),
    "no manifest": (
        removed("set/manifest.json"),
        LABEL,
        "no manifest.json, so this set is unfinished; run the same build",
    ),
    "a manifest that is no JSON": (
        written("set/manifest.json", b"{"),
        LABEL,
        "manifest.json: not a manifest",
    ),
    "a manifest of the future": (
        manifest(lambda found: found.update(format=99)),
        LABEL,
        "format 99, this version reads 1",
    ),
    "a shard removed": (
        removed("set/data/train-00000.parquet"),
        LABEL,
        "train-00000.parquet: cannot be read.*augment verify",
    ),
    "a torn shard": (
        written("set/data/train-00000.parquet", b"PAR1 and nothing more"),
        LABEL,
        "train-00000.parquet: cannot be read.*augment verify",
    ),
    "a shorter shard": (shortened, LABEL, "rows, the manifest says"),
    "a set labelled already": (
        nothing,
        ["augment", "label", "recipe.toml", "--set", "labelled", "--out", "new"],
        "labelled: labelled already; label the set it was made from",
    ),
    "labelling in place": (
        nothing,
        [*LABEL[:-1], "set"],
        "set: a finished set is never edited; choose another folder",
    ),
    # The teacher.
    "no teacher": (removed("teacher"), LABEL, "'teacher' cannot be loaded: .*distill teacher"),
    "too many classes": (
        teacher("bad", "fair", "good"),
        LABEL,
        r"knows 3 classes \(bad, fair, good\), the corpus 2",
    ),
    "permuted classes": (
        teacher("good", "bad"),
        LABEL,
        'orders its labels .*pass label_map = "by-name"',
    ),
    "other class names": (teacher("ham", "spam"), LABEL, r"names its classes \(ham, spam\)"),
    "a regression teacher": (teacher("score"), LABEL, "gives one number, the corpus has classes"),
    "an unreadable config": (
        written("teacher/config.json", b"{"),
        LABEL,
        "'.*teacher' cannot be loaded",
    ),
    "an unknown architecture": (
        config("model_type", "crystal-ball"),
        LABEL,
        "'.*teacher' cannot be loaded",
    ),
    "torn weights": (
        written("teacher/model.safetensors", b"\x08\0\0\0\0\0\0\0{"),
        LABEL,
        "'.*teacher' cannot be loaded",
    ),
    "weights in a pickle": (
        lambda place: (place / "teacher" / "model.safetensors").rename(
            place / "teacher" / "pytorch_model.bin"
        ) and None,
        LABEL,
        "'.*teacher' cannot be loaded",
    ),
    "another teacher into an old folder": (
        lambda place: (removed("teacher")(place), save_classifier(
            place / "teacher", ("bad", "good"), seed=9
        ))[0],
        AGAIN,
        "labelled: begun with other settings .teacher was",
    ),
    # A masked language model.
    "no text to adapt to": (
        removed("train.jsonl"),
        ADAPT,
        "train.jsonl: no such file",
    ),
    "no column of that name": (nothing, [*ADAPT, "--text", "txt"], "no column 'txt'.*--text"),
    "a share in per cent": (nothing, [*ADAPT, "--mask-rate", "20"], r"in \(0, 1\), got 20"),
    "no encoder": (removed("teacher"), ADAPT, "'teacher' cannot be loaded as a masked lang"),
    "adapting into a set": (nothing, [*ADAPT[:-1], "set"], "set: not empty and not an adapted"),
    # Students.
    "unknown student key": (recipe("hidden", "hiden"), TRAIN, 'did you mean "hidden"'),
    "epochs and steps": (
        recipe("steps = 3", "steps = 3\nepochs = 2"),
        TRAIN,
        r"\[\[stage\]\] 1: exactly one of epochs and steps",
    ),
    "no vectors": (
        nothing,
        [*TRAIN, "--vectors", "absent.bin"],
        "absent.bin",
    ),
    "no logits": (
        nothing,
        ["distill", "train", "recipe.toml", "--set", "set", "--out", "new"],
        "have no logits; add them with: augment label",
    ),
    "no run": (nothing, ["distill", "report", "nowhere"], "nowhere: no run.json"),
    "no copies to ablate": (
        nothing,
        ["distill", "ablate", "recipe.toml", "--set", "set", "--out", "new"],
        "no teacher's logits; add them with: augment label",
    ),
    "a teacher without labels": (
        nothing,
        ["distill", "teacher", "recipe.toml", "--set", "nowhere", "--out", "new"],
        "nowhere: no such transfer set",
    ),
    "an unknown base": (
        recipe('model = "teacher"', 'base = "nobody/nothing"'),
        ["distill", "teacher", "recipe.toml", "--set", "set", "--out", "new"],
        "base 'nobody/nothing' cannot be loaded: .*hf download nobody/nothing",
    ),
    "a package without weights": (
        recipe('model = "teacher"', 'base = "package:json"'),
        ["distill", "teacher", "recipe.toml", "--set", "set", "--out", "new"],
        "package:json",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished workplace that every row gets a copy of."""
    import augment as A

    place = tmp_path_factory.mktemp("whole")
    (place / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    (place / "train.jsonl").write_text(lines(REVIEWS), encoding="utf-8")
    (place / "dev.jsonl").write_text(lines(REVIEWS[:6]), encoding="utf-8")
    save_classifier(place / "teacher", ("bad", "good"))
    store = place / "store"
    A.build_recipe(place / "recipe.toml", place / "set", store=store, show=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the teacher is right on")
        A.label_recipe(place / "recipe.toml", place / "set", place / "labelled", store=store)
    return place


@pytest.fixture
def run(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Copy the workplace, and return what runs a command there: code, output, errors."""
    place = tmp_path / "place"
    shutil.copytree(whole, place)
    monkeypatch.chdir(place)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TRANSFERSET_STORE", str(place / "store"))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def runner(*command: str) -> tuple[int, str, str]:
        from augment import cli as augment
        from distill import cli as distill

        main = {"augment": augment.main, "distill": distill.main}[command[0]]
        monkeypatch.setattr(sys, "argv", list(command))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the teacher is right on")
            main()
        out, err = capsys.readouterr()
        return (end.value.code if isinstance(end.value.code, int) else 0), out, err

    return runner


def test_the_workplace_is_sound(run: Run) -> None:
    assert run(*BUILD)[0] == 0
    assert run("augment", "verify", "labelled")[0] == 0


def test_the_table_has_at_least_thirty_rows() -> None:
    assert len(TABLE) >= 30


@pytest.mark.parametrize(("harm", "command", "message"), TABLE.values(), ids=TABLE.keys())
def test_bad_input_is_one_sentence_with_place_and_remedy(
    harm: Harm, command: list[str], message: str, run: Run
) -> None:
    harm(Path.cwd())
    before = sorted(str(p) for p in Path("set", "data").glob("*"))
    code, out, err = run(*command)
    told = err.splitlines()[-1]
    assert code == 2, (out, err)
    assert told.startswith("error: ")
    assert re.search(message, told), told
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith("error")]) == 1
    assert sorted(str(p) for p in Path("set", "data").glob("*")) == before
    assert not Path("new", "manifest.json").exists()
    assert not Path("new", "run.json").exists()
