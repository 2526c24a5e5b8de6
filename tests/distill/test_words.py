"""Laws of the word-level tokenizer and of word vectors."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from distill.errors import StudentError
from distill.students.vectors import random_vectors, read_vectors
from distill.students.words import word_tokenizer, words_of


def cut(text: str) -> list[str]:
    backend = word_tokenizer([["x"]]).backend_tokenizer
    pieces = backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))
    return [piece for piece, _ in pieces]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It doesn't work, it's dull.", "it does n't work , it 's dull ."),
        ("it does n't work , it 's dull .", "it does n't work , it 's dull ."),
        ("They\u2019d won't", "they 'd wo n't"),
        ("1,000.5 e-mails...", "1,000.5 e - mails ..."),
        ("naïve हिन्दी 中文 ok", "naïve हिन्दी 中 文 ok"),
    ],
)
def test_written_and_treebank_text_cut_alike(text: str, words: str) -> None:
    assert cut(text) == words.split()


@given(st.text(max_size=40))
@settings(max_examples=50, deadline=None)
def test_no_character_but_white_space_is_lost(text: str) -> None:
    backend = word_tokenizer([["x"]]).backend_tokenizer
    normal = backend.normalizer.normalize_str(text)
    pieces = "".join(p for p, _ in backend.pre_tokenizer.pre_tokenize_str(normal))
    assert "".join(pieces.split()) == "".join(normal.split())


def test_the_placeholder_reads_as_the_unknown_word() -> None:
    tokenizer = word_tokenizer([["a good [MASK] film", "a film"]])
    assert tokenizer("a [MASK] film")["input_ids"] == tokenizer("a zebra film")["input_ids"]
    assert tokenizer.convert_tokens_to_ids(["[PAD]", "[UNK]"]) == [0, 1]


def test_ids_go_by_count_then_word_whatever_the_order() -> None:
    texts = ["b a", "c b", "a b"]
    expected = ["[PAD]", "[UNK]", "b", "a", "c"]
    assert words_of(word_tokenizer([texts])) == expected
    assert words_of(word_tokenizer([texts[::-1]])) == expected
    assert words_of(word_tokenizer([texts], min_count=2)) == expected[:4]


def test_a_pair_is_told_apart_by_type_ids(tmp_path: Path) -> None:
    word_tokenizer([["a b c"]], pair=True).save_pretrained(tmp_path)
    found = AutoTokenizer.from_pretrained(tmp_path)("a b", "c")
    assert found["token_type_ids"] == [0, 0, 1]
    assert len(found["input_ids"]) == 3


def test_every_word_vector_format_reads_alike(tmp_path: Path) -> None:
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(3)
    keyed.add_vectors(["film", "good"], np.arange(6, dtype=np.float32).reshape(2, 3))
    keyed.save_word2vec_format(str(tmp_path / "a.txt"))
    keyed.save_word2vec_format(str(tmp_path / "a.bin"), binary=True)
    lines = (tmp_path / "a.txt").read_text().splitlines()[1:]
    (tmp_path / "glove.txt").write_text("\n".join(lines) + "\n")
    words = ["[PAD]", "[UNK]", "good", "zebra"]
    for name in ("a.txt", "a.bin", "glove.txt"):
        found = read_vectors(tmp_path / name, words)
        assert found.matrix[2].tolist() == [3.0, 4.0, 5.0], name
        assert found.coverage == 0.5
        assert not found.matrix[0].any()


def test_a_words_random_vector_depends_on_its_spelling_alone() -> None:
    a = random_vectors(["[PAD]", "[UNK]", "film"], 8).matrix[2]
    b = random_vectors(["[PAD]", "[UNK]", "good", "film"], 8).matrix[3]
    assert (a == b).all()


def test_missing_vectors_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(StudentError, match="augment vectors"):
        read_vectors(tmp_path / "none.bin", ["[PAD]", "[UNK]"])
