"""Transforms elsewhere: strings, lists, datasets, streams, torch loaders, spaCy."""

import itertools
from pathlib import Path
from typing import Any

import datasets
import pytest
import spacy

import augment as A
from augment.errors import CorpusError
from tests.augment.corpus_rows import HARD_TEXTS, QUESTIONS, REVIEWS

CHAIN = A.Mask(0.3) >> A.SampleNGram(0.2)
TEXT = "I loved the comedy, and so did everybody else in the room."


@pytest.mark.parametrize("copies", [1, 3, 50])
def test_a_string_gives_exactly_as_many_strings_as_asked(copies: int) -> None:
    made = CHAIN(TEXT, copies=copies, seed=7)
    assert isinstance(made, list)
    assert len(made) == copies
    assert all(isinstance(t, str) for t in made)


def test_no_copies_of_a_string_are_an_empty_list() -> None:
    assert CHAIN(TEXT, copies=0) == []
    assert CHAIN([TEXT, TEXT], copies=0) == [[], []]


def test_a_string_gives_repeats_rather_than_fewer_strings() -> None:
    assert A.Mask(1.0)("One word", copies=4) == ["[MASK] [MASK]"] * 4
    assert A.Mask(0.0)("One word", copies=4) == ["One word"] * 4


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_every_string_passes(text: str) -> None:
    assert len(CHAIN(text, copies=2)) == 2
    assert A.Mask(0.0)(text) == [text]


def test_a_strings_copies_follow_from_text_and_seed_alone() -> None:
    assert CHAIN(TEXT, copies=5, seed=7) == CHAIN(TEXT, copies=5, seed=7)
    assert CHAIN(TEXT, copies=5, seed=7) != CHAIN(TEXT, copies=5, seed=8)
    assert CHAIN(TEXT, copies=9, seed=7)[:5] == CHAIN(TEXT, copies=5, seed=7)


def test_a_list_gives_a_list_of_copies_for_every_string() -> None:
    made = CHAIN([TEXT, "Another one.", ""], copies=3, seed=7)
    assert made == [CHAIN(t, copies=3, seed=7) for t in (TEXT, "Another one.", "")]
    assert CHAIN([], copies=3) == []


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(
        TypeError, match="expected a string, a list of strings or a dataset, got int"
    ):
        CHAIN(3)
    with pytest.raises(CorpusError, match="row 1, text column 0: expected text, got None"):
        CHAIN(["a", None])


def reviews() -> datasets.Dataset:
    return datasets.Dataset.from_list(REVIEWS)


def test_a_dataset_gives_a_dataset_with_originals_and_copies() -> None:
    made = CHAIN(reviews(), text="text", copies=2, seed=7)
    assert isinstance(made, datasets.Dataset)
    assert len(made) == 3 * len(REVIEWS)
    assert made["copy"][:6] == [0, 1, 2, 0, 1, 2]
    assert made["source"][:6] == [0, 0, 0, 1, 1, 1]
    assert made.filter(lambda r: r["copy"] == 0)["text"][:] == [r["text"] for r in REVIEWS]
    by_source = {r["id"]: r["label"] for r in REVIEWS}
    assert all(r["label"] == by_source[r["id"]] for r in made), "labels go with their rows"


def test_a_dataset_without_originals_holds_the_copies_only() -> None:
    made = CHAIN(reviews(), text="text", copies=2, originals=False)
    assert made["copy"][:4] == [1, 2, 1, 2]


def test_an_iterable_dataset_stays_lazy_and_gives_the_same_rows() -> None:
    read = 0

    def rows() -> Any:
        nonlocal read
        for row in REVIEWS * 100:
            read += 1
            yield row

    stream = datasets.IterableDataset.from_generator(rows)
    made = CHAIN(stream, text="text", copies=2, seed=7)
    assert isinstance(made, datasets.IterableDataset)
    first = list(itertools.islice(made, 9))
    assert read < 2000, "only what was asked for is read"
    assert first == list(itertools.islice(CHAIN(reviews(), text="text", copies=2, seed=7), 9))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_datasets_map_gives_the_same_rows_at_every_batch_size(size: int) -> None:
    options = {"batched": True, "with_indices": True, "remove_columns": ["id", "text", "label"]}
    step = CHAIN.batched("text", copies=3, seed=7)
    made = reviews().map(step, batch_size=size, **options)
    assert made.to_list() == CHAIN(reviews(), text="text", copies=3, seed=7).to_list()


def test_an_id_column_gives_the_same_copies_in_any_order() -> None:
    step = CHAIN.batched("text", copies=2, seed=7, id="id")
    options = {"batched": True, "remove_columns": ["id", "text", "label"]}
    straight = reviews().map(step, **options).to_list()
    shuffled = reviews().shuffle(seed=1).map(step, **options).to_list()
    key = lambda r: (r["source"], r["copy"])
    assert sorted(shuffled, key=key) == sorted(straight, key=key)
    assert straight == CHAIN(reviews(), text="text", copies=2, seed=7).to_list()


def test_batched_works_without_indices_keyed_by_content() -> None:
    step = CHAIN.batched("text", copies=2, seed=7)
    whole = step({"text": [TEXT, "Another one."]})
    assert step({"text": ["Another one."]})["text"] == whole["text"][3:]
    assert step({"text": []}) == {"text": [], "source": [], "copy": []}


def test_pairs_cycle_in_datasets_too() -> None:
    pairs = datasets.Dataset.from_list(QUESTIONS)
    made = A.Mask(1.0)(pairs, text=["first", "second"], copies=3)
    rows = made.to_list()[:4]
    masked = [(r["first"].startswith("[MASK]"), r["second"].startswith("[MASK]")) for r in rows]
    assert masked == [(False, False), (True, False), (False, True), (True, True)]


def test_the_same_row_is_collated_alike_in_any_batch() -> None:
    collate = CHAIN.collate("text", seed=7)
    whole = collate(REVIEWS)
    parts = [row for size in range(0, 40, 7) for row in collate(REVIEWS[size : size + 7])]
    assert parts == whole
    assert collate(list(reversed(REVIEWS))) == list(reversed(whole))
    assert {r["label"] for r in whole} == {0, 1}


def test_collating_leaves_the_rows_alone_and_differs_by_epoch() -> None:
    collate = CHAIN.collate("text", seed=7, id="id")
    before = [dict(r) for r in REVIEWS]
    first = collate(REVIEWS)
    assert before == REVIEWS
    collate.epoch = 1
    second = collate(REVIEWS)
    assert sum(a["text"] != b["text"] for a, b in zip(first, second, strict=True)) > 30
    made = CHAIN(reviews(), text="text", copies=2, seed=7, originals=False)["text"][:]
    assert [r["text"] for r in first] == made[0::2], "epoch 0 reads copy 1"
    assert [r["text"] for r in second] == made[1::2], "epoch 1 reads copy 2"


def test_collate_feeds_a_torch_loader_and_hands_on_to_the_next_function() -> None:
    from torch.utils.data import DataLoader

    collate = CHAIN.collate("text", seed=7, then=lambda rows: [r["text"] for r in rows])
    loaded = [t for batch in DataLoader(reviews(), batch_size=9, collate_fn=collate) for t in batch]
    assert loaded == collate(REVIEWS)


def example(nlp: Any, text: str, cats: dict[str, float]) -> Any:
    from spacy.training import Example

    return Example.from_dict(nlp.make_doc(text), {"cats": cats})


STEPS = [{"mask": {"rate": 0.3}}, {"ngram": {"rate": 0.2}}]


def test_the_spacy_augmenter_is_registered_and_yields_the_example_then_its_copies() -> None:
    nlp = spacy.blank("en")
    augment = spacy.registry.augmenters.get("transferset.copies.v1")(steps=STEPS, copies=3, seed=7)
    made = list(augment(nlp, example(nlp, TEXT, {"good": 1.0, "bad": 0.0})))
    assert [m.reference.text for m in made] == [TEXT, *CHAIN(TEXT, copies=3, seed=7)]
    assert all(m.reference.cats == {"good": 1.0, "bad": 0.0} for m in made)
    assert all(m.predicted.text == m.reference.text for m in made)


def test_the_spacy_augmenter_learns_from_a_file_of_texts(tagger: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(r["text"] for r in REVIEWS), encoding="utf-8")
    make = spacy.registry.augmenters.get("transferset.copies.v1")
    steps = [{"replace_pos": {"rate": 0.9, "tagger": tagger}}]
    nlp = spacy.blank("en")
    made = list(make(steps=steps, copies=2, texts=str(texts))(nlp, example(nlp, TEXT, {"x": 1.0})))
    assert len(made) == 3
    assert made[1].reference.text != TEXT


def test_the_spacy_augmenter_trains_a_text_categorizer_from_a_config(tmp_path: Path) -> None:
    from spacy.tokens import DocBin
    from spacy.training import Corpus

    nlp = spacy.blank("en")
    docs = []
    for row in REVIEWS:
        doc = nlp.make_doc(row["text"])
        doc.cats = {"good": float(row["label"]), "bad": 1.0 - row["label"]}
        docs.append(doc)
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    augment = spacy.registry.augmenters.get("transferset.copies.v1")(steps=STEPS, copies=2)
    examples = list(Corpus(tmp_path / "train.spacy", augmenter=augment)(nlp))
    assert len(examples) == 3 * len(REVIEWS)
    textcat = nlp.add_pipe("textcat")
    nlp.initialize(lambda: examples)
    losses = nlp.update(examples[:6])
    assert losses["textcat"] > 0
    assert set(textcat.labels) == {"good", "bad"}
