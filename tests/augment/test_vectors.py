"""Word vectors drawn from an encoder: one a word, readable by everybody, the same every time."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import augment as A
from augment import vectors
from augment.errors import ResourceError, SettingsError
from tests.augment.corpus_rows import REVIEWS
from tests.augment.tiny import save_classifier


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_classifier(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> A.TransferSet:
    out = tmp_path_factory.mktemp("vectors") / "set"
    return A.build(REVIEWS, A.Mask(0.5), label="label", copies=3, out=out)


def test_the_vocabulary_is_of_the_originals_lower_cased_commonest_first(
    made: A.TransferSet,
) -> None:
    import spacy

    nlp = spacy.blank("en")
    counts = Counter(t.lower_ for r in REVIEWS for t in nlp(r["text"]) if not t.is_space)
    words = vectors.vocabulary(made)
    assert words == sorted(counts, key=lambda w: (-counts[w], w))
    assert "[mask]" not in words
    assert vectors.vocabulary(made, min_count=3) == [w for w in words if counts[w] >= 3]


def test_vectors_are_centred_of_one_scale_and_follow_from_the_word_alone(encoder: str) -> None:
    words = ["film", "good", "bad", "the", "soup", "extraordinarily"]
    table = vectors.encode(words, encoder, show=False)
    assert table.shape == (6, 32)
    assert table.dtype == np.float32
    assert np.abs(table.mean(axis=0)).max() < 1e-5
    assert table.std() == pytest.approx(vectors.SCALE, rel=1e-4)
    turned = vectors.encode(words[::-1], encoder, show=False)
    assert np.abs(turned[::-1] - table).max() < 1e-4


def test_fewer_dimensions_keep_the_leading_directions(encoder: str) -> None:
    words = [chr(c) for c in range(97, 123)]
    whole, few = (vectors.encode(words, encoder, dims=d, show=False) for d in (None, 4))
    assert few.shape == (26, 4)
    spread = few.std(axis=0)
    assert (np.diff(spread) <= 1e-6).all(), "the widest direction first"
    singular = np.linalg.svd(whole, compute_uv=False)[:4]
    kept = np.linalg.svd(few, compute_uv=False)
    assert kept / kept[0] == pytest.approx(singular / singular[0], rel=1e-3)
    with pytest.raises(SettingsError, match="dims is at most 26"):
        vectors.encode(words, encoder, dims=33, show=False)


def test_what_is_saved_is_read_back_by_gensim(
    made: A.TransferSet, encoder: str, tmp_path: Path
) -> None:
    from gensim.models import KeyedVectors

    path = vectors.make(made, tmp_path / "deep" / "words.bin", encoder=encoder, dims=8, show=False)
    table = KeyedVectors.load_word2vec_format(str(path), binary=True)
    assert table.index_to_key == vectors.vocabulary(made)
    assert table.vectors.shape == (len(table.index_to_key), 8)
    assert b"pickle" not in path.read_bytes()
    assert [p.name for p in path.parent.iterdir()] == ["words.bin"]


def test_an_encoder_that_cannot_be_had_says_what_to_do(made: A.TransferSet, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="hf download"):
        vectors.make(made, tmp_path / "x.bin", encoder=str(tmp_path / "nowhere"), show=False)
    assert not (tmp_path / "x.bin").exists()
