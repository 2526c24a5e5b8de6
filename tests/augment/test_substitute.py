"""Substitution: the batched candidates are those of one word at a time, and nothing else is touched."""

import dataclasses
import json
import re
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import augment as A
from augment.annotate import columns, layout, masked_lm
from augment.annotate.columns import Annotator
from augment.annotate.masked_lm import MaskedLM
from augment.annotate.neighbours import Neighbours
from augment.batch import Lists, TokenBatch
from augment.draws import Place
from augment.errors import ResourceError, SetError, SettingsError
from augment.recipe import from_steps
from augment.store import Store
from augment.tokens import blank
from tests.augment.corpus_rows import HARD_TEXTS, QUESTIONS, REVIEWS
from tests.augment.tiny import save_classifier, save_masked_lm, save_vectors, tokenizer

TEXTS = [*(r["text"] for r in REVIEWS), *HARD_TEXTS]
KINDS = ("uncased", "cased", "bytes", "unigram")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(place: Path) -> Any:
    return cache(lambda kind: str(save_masked_lm(place / kind, kind)))


@pytest.fixture(scope="module")
def vectors(place: Path) -> str:
    return str(save_vectors(place / "vectors.txt"))


def lists(transform: A.Transform, texts: list[str], store: Store | None = None) -> list[Any]:
    """Candidates of every word of every text: [(word, [candidate, ...]), ...] a text."""
    batch = Annotator.of(transform, "en", store).batch(pa.array(texts, pa.large_string()))
    return words_of(batch)


def words_of(batch: TokenBatch) -> list[Any]:
    found = batch.candidates
    assert found is not None
    words, strings = batch.table.to_pylist(), found.strings.to_pylist()
    rows = []
    for first, last in zip(batch.offsets, batch.offsets[1:], strict=False):
        rows.append([
            (words[batch.words[t]], [strings[c] for c in found.pool[found.first[t]:][: found.count[t]]])
            for t in range(first, last)
        ])  # fmt: skip
    return rows


def reference(
    folder: str, text: str, word: tuple[int, int], k: int, context: str, longest: int = 62
) -> list[str] | None:
    """One word at a time through plain transformers, all its vocabulary sorted; None: not one piece."""
    import torch

    model, tokenizer, pieces, begins = _plain(folder)
    start, end = word
    coded = tokenizer(text, return_offsets_mapping=True, truncation=True, max_length=longest)
    spans = coded["offset_mapping"]
    hit = [
        i for i, (s, e) in enumerate(spans)
        if e > s and s + (len(text[s:e]) - len(text[s:e].lstrip())) == start and e == end
    ]  # fmt: skip
    if not hit:
        return None
    ids = list(coded["input_ids"])
    own = ids[hit[0]]
    ids[hit[0]] = tokenizer.mask_token_id
    inputs = {"input_ids": [ids]}
    if context == "both":
        bare = tokenizer(text, add_special_tokens=False)["input_ids"]
        twice = tokenizer(text, text)["input_ids"]
        twice[hit[0]] = tokenizer.mask_token_id
        inputs = {"input_ids": [twice]}
        if "token_type_ids" in tokenizer.model_input_names:
            inputs["token_type_ids"] = [[0] * (len(bare) + 2) + [1] * (len(bare) + 1)]
    with torch.no_grad():
        logits = model(**{n: torch.tensor(v) for n, v in inputs.items()}).logits[0, hit[0]]
    spaced = pieces[own][:1] in "Ġ▁"
    found: list[str] = []
    for number in logits.argsort(descending=True).tolist():
        if number >= len(pieces) or pieces[number] in tokenizer.all_special_tokens:
            continue
        piece = pieces[number]
        if piece.startswith(("##", "[", "<")) or (piece[:1] in "Ġ▁") != spaced:
            continue
        plain = tokenizer.decode([number]).strip() if piece[:1] != "▁" else piece[1:]
        if not plain.replace("'", "").isalnum() or "\ufffd" in plain:
            continue
        if begins and not spaced and plain.casefold() not in begins:
            continue  # a piece inside words only
        same = {f.casefold() for f in found} | {
            text[start:end].casefold(),
            tokenizer.decode([own]).strip().casefold(),
        }
        if plain.casefold() not in same:
            found.append(plain)
        if len(found) == k:
            break
    return found


@cache
def _plain(folder: str) -> Any:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    spaced = [n for n, piece in enumerate(pieces) if piece[:1] in "Ġ▁"]
    begins = {tokenizer.decode([n]).strip().casefold() for n in spaced}
    model = AutoModelForMaskedLM.from_pretrained(folder).float().eval()
    return model, tokenizer, pieces, begins


@pytest.mark.parametrize("context", ["masked", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_candidates_are_those_of_one_word_at_a_time(model: Any, kind: str, context: str) -> None:
    pieces = MaskedLM.load(model(kind), precision="fp32").tokenizer.tokenize
    most = 60 if context == "masked" else 28
    texts = [t for t in TEXTS if t.strip() and len(pieces(t)) < most][:30]
    t = A.Substitute(model=model(kind), vectors="none", context=context, precision="fp32", k=5)
    compared = several = 0
    for text, row in zip(texts, lists(t, texts), strict=True):
        at = 0
        for word, found in row:
            start = text.index(word, at)
            at = start + len(word)
            if not found:
                continue
            wanted = reference(model(kind), text, (start, at), 15, context)
            assert wanted is not None
            assert [f.casefold() for f in found] == [w.casefold() for w in wanted], (text, word)
            compared += 1
            several += len(found) > 5
    assert compared > (20 if kind in ("uncased", "cased") else 8)
    assert several > 5


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_stand_in_a_words_place(model: Any, vectors: str, kind: str) -> None:
    t = A.Substitute(model=model(kind), vectors=vectors, precision="fp32")
    rows = lists(t, TEXTS)
    found = [(word, c) for row in rows for word, each in row for c in each]
    assert len(found) > 500
    for word, candidate in found:
        assert word.isalpha()
        assert candidate.casefold() != word.casefold()
        assert not candidate.startswith(("##", "[", "<", "▁", "Ġ"))
        assert any(c.isalnum() for c in candidate)
        assert candidate == candidate.strip()
        if word.isupper() and len(word) > 1:
            assert candidate == candidate.upper()
        elif word[0].isupper() and word[1:].islower():
            assert candidate[0] == candidate[0].upper()
    for row in rows:
        for _, each in row:
            assert len({c.casefold() for c in each}) == len(each) <= 15


def test_stop_words_are_left_alone_unless_asked_for(model: Any) -> None:
    text = ["The good film was not a good one."]
    content = A.Substitute(model=model("cased"), vectors="none")
    every = dataclasses.replace(content, touch="alphabetic")
    quiet = {word for word, found in lists(content, text)[0] if found}
    loud = {word for word, found in lists(every, text)[0] if found}
    assert "good" in quiet
    assert not quiet & {"The", "was", "not", "a", "."}
    assert quiet < loud
    assert "." not in loud


def test_words_of_several_pieces_get_neighbours_in_their_own_case(model: Any, vectors: str) -> None:
    table = Neighbours.load(vectors)
    t = A.Substitute(model=model("uncased"), vectors=vectors)
    words = MaskedLM.load(model("uncased")).tokenizer
    stop = blank("en").Defaults.stop_words
    rare = [w for w in table.words if w.isalpha() and len(words.tokenize(w)) > 1 and w not in stop]
    rare = rare[:5]
    text = [" ".join(w for r in rare for w in (r, r.capitalize(), r.upper()))]
    (row,) = lists(t, text)
    seen = 0
    for number, (word, found) in enumerate(row):
        near = table.nearest([word.lower()], 15)[0]
        style = (str, str.capitalize, str.upper)[number % 3]
        assert [f.lower() for f in found] == near
        assert found[0] == style(near[0])
        seen += 1
    assert seen == 15
    without = dataclasses.replace(t, vectors="none")
    assert all(not found for _, found in lists(without, text)[0])


@pytest.mark.parametrize(
    ("kind", "mode"),
    [*((kind, "masked") for kind in KINDS), ("uncased", "spread"), ("unigram", "unmasked")],
)
def test_what_else_is_asked_along_changes_no_candidate(
    model: Any, kind: str, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = A.Substitute(model=model(kind), vectors="none", mode=mode)
    whole = lists(t, TEXTS)
    order = np.random.default_rng(2).permutation(len(TEXTS))
    assert lists(t, [TEXTS[i] for i in order]) == [whole[i] for i in order]
    for first, last in ((0, 1), (1, 30), (30, len(TEXTS))):
        assert lists(t, TEXTS[first:last]) == whole[first:last]
    # Nor does how much is laid out, kept or read at once.
    monkeypatch.setattr(layout, "_CHUNK", 50)
    monkeypatch.setattr(masked_lm, "_STATES", 5)
    monkeypatch.setattr(columns, "_PROPOSED_BYTES", 300)
    assert lists(t, TEXTS) == whole


@pytest.mark.parametrize("kind", ["bytes", "unigram"])
def test_a_letter_of_several_pieces_is_not_one_piece(model: Any, kind: str) -> None:
    t = A.Substitute(model=model(kind), vectors="none", touch="alphabetic")
    words = MaskedLM.load(model(kind)).tokenizer
    for text in ("good 猫 film", "я good", "q good z"):
        spans = words(text, return_offsets_mapping=True)["offset_mapping"]
        for word, found in lists(t, [text])[0]:
            at = text.index(word)
            covering = [(a, b) for a, b in spans if a <= at < b]
            if len(word) == 1 and found:
                assert len(covering) == 1


@pytest.mark.skipif(not find_spec("openvino"), reason="the extra openvino is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_openvino_proposes_the_same(model: Any, kind: str) -> None:
    t = A.Substitute(model=model(kind), vectors="none", precision="fp32")
    other = dataclasses.replace(t, runtime="openvino")
    ours, theirs = lists(t, TEXTS), lists(other, TEXTS)
    asked = [(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)]
    assert sum(set(a[1]) != set(b[1]) for a, b in asked) <= 0.001 * len(asked)
    part = lists(other, TEXTS[3:40])
    assert part == theirs[3:40], "what else is asked along changes no candidate"


def test_modes_differ_and_agree_where_they_must(model: Any) -> None:
    t = A.Substitute(model=model("uncased"), vectors="none", precision="fp32")
    spread, seen = (dataclasses.replace(t, mode=mode) for mode in ("spread", "unmasked"))
    short = ["good", "the good film", "bad"]
    assert lists(t, short) == lists(spread, short), "one mask a sequence is the same question"
    long = [" ".join(TEXTS[:6])]
    assert lists(t, long) != lists(spread, long)
    assert lists(t, short) != lists(seen, short), "an unmasked word is seen by the model"


def test_words_masked_together_are_far_apart() -> None:
    place = np.array([0, 1, 2, 8, 9, 16, 17, 3, 40])
    begin = np.array([0] * 7 + [100] * 2)
    group = layout._far_apart(begin, place)
    assert group.tolist() == [0, 1, 2, 0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("mode", ["masked", "spread", "unmasked"])
@pytest.mark.parametrize("context", ["masked", "both"])
def test_a_text_of_five_thousand_words_is_read_through_windows(
    model: Any, mode: str, context: str
) -> None:
    some = [w for t in TEXTS for w in t.split() if w.isalpha()]
    words = (some * 200)[:5000]
    t = A.Substitute(model=model("uncased"), vectors="none", mode=mode, context=context, k=3)
    (row,) = lists(t, [" ".join(words)])
    assert [word for word, _ in row] == words
    known = {word for word, found in row if found}
    assert len(known) > 20
    assert all(found for word, found in row if word in known), "no word is cut off"


def test_a_window_is_centred_on_its_word(model: Any) -> None:
    """In the middle of a long text a word's candidates are those in its own surroundings."""
    words = [w for t in TEXTS for w in t.split() if w.isalpha() and w.islower()] * 3
    t = A.Substitute(model=model("uncased"), vectors="none", precision="fp32", max_tokens=16)
    tokenizer = MaskedLM.load(model("uncased")).tokenizer
    words = [w for w in words if len(tokenizer.tokenize(w)) == 1][:41]
    (row,) = lists(t, [" ".join(words)])
    for middle in range(14, 27):
        near = words[middle - 7 : middle + 7]  # 14 pieces fit between the special tokens
        assert lists(t, [" ".join(near)])[0][7] == row[middle]


# The transform.


def made(count: list[int], k: int = 15) -> TokenBatch:
    """A batch of words with hand-made candidates, ``count`` of them each."""
    rows, words = 4000, len(count)
    text = pa.array([" ".join(f"w{i}" for i in range(words))] * rows, pa.large_string())
    batch = Annotator("en").batch(text)
    counts = np.tile(np.array(count, np.int32), rows)
    first = np.append(0, np.cumsum(count))[:-1]
    strings = pa.array([f"c{i}" for i in range(sum(count))], pa.large_string())
    pool = np.arange(sum(count), dtype=np.int32)
    found = Lists(np.tile(first, rows), counts, pool, strings)
    return dataclasses.replace(batch, candidates=found, copies=np.ones(rows, np.int32))


def test_words_are_replaced_at_the_rate_and_candidates_drawn_evenly() -> None:
    batch = made([0, 1, 4, 20])
    done = A.Substitute(0.4, k=15).apply(batch, Place(3))
    text = [t.split() for t in done.text().to_pylist()]
    assert {row[0] for row in text} == {"w0"}, "a word without candidates stays"
    for word, count in ((1, 1), (2, 4), (3, 15)):
        changed = [row[word] for row in text if row[word] != f"w{word}"]
        assert abs(len(changed) / len(text) - 0.4) < 4 * np.sqrt(0.24 / len(text))
        kinds, seen = np.unique(changed, return_counts=True)
        assert len(kinds) == count
        expected = len(changed) / count
        assert (abs(seen - expected) < 4.5 * np.sqrt(expected)).all()
    first = 5  # of the twenty, only k = 15 are drawn from
    assert {row[3] for row in text} <= {"w3"} | {f"c{first + i}" for i in range(15)}


def test_draws_are_pinned() -> None:
    done = A.Substitute(0.4, k=3).apply(made([3, 3, 3]), Place(7, 1, 2)).text().to_pylist()
    assert done[:4] == GOLDEN


GOLDEN = ["w0 c4 c8", "w0 w1 w2", "w0 c3 w2", "c2 w1 w2"]


def test_untouched_bytes_stay(model: Any, vectors: str) -> None:
    t = A.Substitute(1.0, model=model("cased"), vectors=vectors, k=1)
    texts = [
        *HARD_TEXTS,
        "  I LOVED it 😀\t'good'  \n— so good!  ",
        "Zoë's café, naïve: good\u00a0film",
    ]
    for text, copy in zip(texts, [c[0] for c in t(texts, copies=1, seed=1)], strict=True):
        kept = "".join(c for c in text if not c.isalpha())
        assert "".join(c for c in copy if not c.isalpha() and not c.isdigit()) == "".join(
            c for c in kept if not c.isdigit()
        )


def test_it_composes_and_counts(model: Any, vectors: str, tagger: str) -> None:
    sub = A.Substitute(0.3, model=model("uncased"), vectors=vectors)
    chain = (A.Mask(0.1) | A.ReplacePOS(0.1, tagger=tagger) | sub) >> A.SampleNGram(0.2)
    fitted = chain.fit([r["text"] for r in REVIEWS])
    copies = fitted("The good film was not a bad one.", copies=50, seed=3)
    assert len(copies) == 50
    assert len(set(copies)) > 20
    assert from_steps(A.to_steps(chain)) == chain


def test_a_very_large_k_takes_what_there_is(model: Any) -> None:
    t = A.Substitute(model=model("bytes"), vectors="none", k=2000, precision="fp32")
    words = MaskedLM.load(model("bytes"), depth=2000, precision="fp32").vocabulary
    (row,) = lists(t, ["the good film"])
    assert max(len(found) for _, found in row) > 100
    kinds = zip(words.words, words.kind, words.whole, strict=True)
    spaced = {word.casefold() for word, kind, whole in kinds if kind and whole}
    assert {c.casefold() for _, found in row[1:] for c in found} <= spaced


def test_a_chain_asks_one_model() -> None:
    two = A.Substitute(0.1) >> A.Substitute(0.1, mode="spread")
    with pytest.raises(SettingsError, match="one column of candidates"):
        _ = two.candidate_source
    deeper = A.Substitute(0.1) >> A.Substitute(0.1, k=30)
    assert deeper.candidate_source is not None
    assert deeper.candidate_source.depth == 30


# Sets.


def build(out: Path, transform: A.Transform, store: Path, **options: Any) -> A.TransferSet:
    options = {"label": "label", "copies": 4, "seed": 7, "show": False} | options
    return A.build(REVIEWS, transform, out=out, store=store, **options)


def test_workers_and_shards_change_nothing_and_the_second_set_asks_nothing(
    model: Any, vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    asked = MaskedLM.candidates
    monkeypatch.setattr(
        MaskedLM, "candidates", lambda *a, **k: calls.append(1) or asked(*a, **k)
    )  # fmt: skip
    t = A.Substitute(0.4, model=model("uncased"), vectors=vectors)
    one = build(tmp_path / "one", t, tmp_path / "store")
    assert calls
    calls.clear()
    two = build(tmp_path / "two", t, tmp_path / "store", workers=2, shard_rows=50)
    assert two.manifest.digest == one.manifest.digest
    other = A.Substitute(0.2, k=5, model=model("uncased"), vectors=vectors) >> A.SampleNGram(0.5)
    build(tmp_path / "three", other, tmp_path / "store")
    assert calls == [], "candidates come from the store"
    fresh = build(tmp_path / "four", t, tmp_path / "fresh")
    assert calls
    assert fresh.manifest.digest == one.manifest.digest


def test_a_moved_model_is_the_same_and_another_is_not(
    model: Any, vectors: str, tmp_path: Path
) -> None:
    t = A.Substitute(0.4, model=model("uncased"), vectors=vectors)
    first = build(tmp_path / "set", t, tmp_path / "store")
    moved = shutil.copytree(model("uncased"), tmp_path / "moved")
    table = shutil.copy(vectors, tmp_path / "same-vectors.txt")
    same = dataclasses.replace(t, model=str(moved), vectors=str(table))
    assert (
        build(tmp_path / "set", same, tmp_path / "store").manifest.digest == first.manifest.digest
    )
    other = dataclasses.replace(t, model=model("cased"))
    with pytest.raises(SetError, match="candidates"):
        build(tmp_path / "set", other, tmp_path / "store")


def test_what_decides_a_candidate_is_in_the_name_of_its_place(model: Any, tmp_path: Path) -> None:
    """Other weights, settings of the model, mask, or vectors under the old name: nothing is stale."""
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(model("uncased"), tmp_path / "lm"))
    table = save_vectors(tmp_path / "vectors.txt")
    t = A.Substitute(model=str(folder), vectors=str(table), precision="fp32")
    text, store = ["a good film, an unheardof one"], Store(tmp_path / "store")

    def name(t: A.Substitute = t) -> str:
        return str(Annotator.of(t, "en", store).names.candidates)

    seen, before = {name()}, lists(t, text, store)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    seen.add(name())
    assert lists(t, text, store) != before
    tokens = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens | {"mask_token": "[UNK]"}))
    seen.add(name())
    for weight in ("bert.encoder.layer.0.output.dense.bias", "cls.predictions.bias"):
        tensors = load_file(folder / "model.safetensors")
        tensors[weight][0] += 1e-6
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        seen.add(name())
    lines = table.read_text(encoding="utf-8").split("\n")
    table.write_text("\n".join([lines[0], *reversed(lines[1:-1]), ""]), encoding="utf-8")
    seen.add(name())
    assert len(seen) == 6
    changes: list[dict[str, Any]] = [
        {"mode": "spread"},
        {"context": "both"},
        {"touch": "alphabetic"},
        {"k": 20},
        {"max_tokens": 20},
    ]
    seen |= {name(dataclasses.replace(t, **change)) for change in changes}
    assert len(seen) == 11


def test_a_replaced_table_of_vectors_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("3 2\na 1 0\nb 1 0.1\nc 0 1\n")
    assert Neighbours.load(str(path)).nearest(["a"], 1) == [["b"]]
    path.write_text("3 2\na 1 0.00\nb 0 1\nc 1 0.1\n")
    assert Neighbours.load(str(path)).nearest(["a"], 1) == [["c"]]


def test_pairs_keep_each_columns_original(model: Any, vectors: str, tmp_path: Path) -> None:
    t = A.Substitute(0.6, model=model("uncased"), vectors=vectors)
    made = A.build(
        QUESTIONS, t, text=["first", "second"], out=tmp_path / "set", store=tmp_path / "store",
        copies=9, seed=1, show=False, guard=False,
    )  # fmt: skip
    originals = {i: (r["first"], r["second"]) for i, r in enumerate(QUESTIONS)}
    edits = {"first": 0, "second": 0}
    for row in made.read("train").to_pylist():
        first, second = originals[row["source"]]
        turn = (row["copy"] - 1) % 3
        if row["copy"] == 0 or turn == 1:
            assert row["first"] == first
        if row["copy"] == 0 or turn == 0:
            assert row["second"] == second
        edits["first"] += row["first"] != first
        edits["second"] += row["second"] != second
    assert min(edits.values()) > 10


def test_the_command_prints_candidates_and_the_build_counts_them(
    model: Any, vectors: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from augment.cli import app

    rows = "\n".join(f"{r['text']}\t{r['label']}" for r in REVIEWS[:20])
    (tmp_path / "train.tsv").write_text(f"text\tlabel\n{rows}\n", encoding="utf-8")
    settings = f'model = "{model("uncased")}", vectors = "{vectors}"'
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[corpus]\ntrain = "train.tsv"\nlabel = "label"\n[augment]\ncopies = 2\n'
        f"steps = [{{ substitute = {{ {settings} }} }}]\n"
    )

    def run(*arguments: str) -> str:
        app([*map(str, arguments), "--store", str(tmp_path / "store")], standalone_mode=False)
        return capsys.readouterr().out

    shown = run("candidates", str(recipe), "--text", "A good film.", "--text", "no")
    assert "A good film." in shown
    assert re.search(r"film  \w+, \w+", shown)
    assert len(run("candidates", str(recipe), "--rows", "3").split("\n\n")) == 3
    built = run("build", str(recipe), "--out", str(tmp_path / "one"))
    assert "candidates: 17 texts put to the language model" in built, "three were shown"
    again = run("build", str(recipe), "--out", str(tmp_path / "two"))
    assert "candidates: 0 texts put to the language model" in again


SHARED = Path(__file__).parents[3] / "shared"


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="../shared/models is not here")
def test_the_candidates_of_five_hundred_real_sentences_are_those_of_one_word_at_a_time() -> None:
    folder = str(SHARED / "models" / "masked-lm-minilm")
    lines = (SHARED / "data" / "glue" / "SST-2" / "dev.tsv").read_text(encoding="utf-8")
    texts = [line.split("\t")[0] for line in lines.split("\n")[1:501]]
    t = A.Substitute(model=folder, vectors="none", precision="fp32")
    same = words = 0
    for text, row in zip(texts, lists(t, texts), strict=True):
        at = 0
        for word, found in row:
            start = text.index(word, at)
            at = start + len(word)
            if found:
                wanted = reference(folder, text, (start, at), 15, "masked", longest=500)
                words += 1
                same += set(found) == set(wanted or ())
    print(f"{same:,} of {words:,} words have the same 15 candidates")
    assert words > 3000
    assert same >= 0.999 * words


# Resources.


def test_what_is_missing_says_how_to_get_it(model: Any, place: Path, tmp_path: Path) -> None:
    text = pa.array(["a good film"], pa.large_string())

    def ask(**settings: Any) -> None:
        Annotator.of(A.Substitute(**settings), "en", None).batch(text)

    with pytest.raises(ResourceError, match=r"cannot be loaded.*adapt-lm"):
        ask(model=str(tmp_path / "nothing"), vectors="none")
    with pytest.raises(ResourceError) as error:
        ask(model=str(tmp_path / "nothing"), vectors="none")
    assert "hf download /" not in str(error.value), "a folder is not fetched from the hub"
    maskless = Path(shutil.copytree(model("uncased"), tmp_path / "maskless"))
    settings = json.loads((maskless / "tokenizer_config.json").read_text())
    (maskless / "tokenizer_config.json").write_text(json.dumps(settings | {"mask_token": None}))
    with pytest.raises(ResourceError, match="has no mask token"):
        ask(model=str(maskless), vectors="none")
    short = Path(shutil.copytree(model("uncased"), tmp_path / "short"))
    tokenizer(extra=tuple(f"extra{i}" for i in range(20))).save_pretrained(short)
    with pytest.raises(ResourceError, match=r"the tokenizer knows .* pieces, the model"):
        ask(model=str(short), vectors="none")
    torn = tmp_path / "torn.bin"
    torn.write_bytes(b"99999999999 300\nword \x00\x01\x02")
    with pytest.raises(ResourceError, match="neither word2vec's format"):
        Neighbours.load(str(torn))
    headless = save_classifier(tmp_path / "classifier")
    with pytest.raises(ResourceError, match=r"no trained masked language model.*adapt-lm"):
        ask(model=str(headless), vectors="none")
    rare = pa.array(["an unheardofword"], pa.large_string())
    for name in ("vectors/absent.txt", str(tmp_path / "absent")):
        with pytest.raises(ResourceError, match="no such file of word vectors"):
            Annotator.of(A.Substitute(model=model("uncased"), vectors=name), "en", None).batch(rare)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rate": 1.5}, "probability"),
        ({"k": 0}, "k is a count of at least 1"),
        ({"max_tokens": 3}, "max_tokens"),
        ({"mode": "spred"}, 'did you mean "spread"'),
        ({"modell": "x"}, 'did you mean "model"'),
    ],
)
def test_wrong_settings_are_refused_with_the_place(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        from_steps([{"substitute": settings}], "recipe.toml, augment")
