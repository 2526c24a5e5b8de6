"""Shared by all tests: nothing touches the user's caches or a network, and luck has no part.

The environment is set when this file is imported, before any test module imports a library that
reads it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

_CACHE = Path(tempfile.mkdtemp(prefix="transferset-tests-"))
os.environ["TRANSFERSET_STORE"] = str(_CACHE / "store")
os.environ["HF_HOME"] = str(_CACHE / "hf")
os.environ["HF_DATASETS_CACHE"] = str(_CACHE / "datasets")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

settings.register_profile("small", derandomize=True, max_examples=40, deadline=None, database=None)
settings.load_profile("small")


def pytest_unconfigure() -> None:
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A spaCy pipeline with fixed tags: rules on a token's shape, no weights, no release to fear."""
    import spacy

    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("attribute_ruler")
    rules = [
        ("LONG", {}),
        ("SHORT", {"LENGTH": {"<=": 3}}),
        ("NUM", {"LIKE_NUM": True}),
        ("PUNCT", {"IS_PUNCT": True}),
    ]
    for tag, pattern in rules:  # where two rules fit, the later one wins
        ruler.add([[pattern]], {"TAG": tag})
    folder = tmp_path_factory.mktemp("tagger")
    nlp.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="session")
def shared_store() -> Path:
    """The store that all tests share: texts that one test has read need no reading again."""
    return _CACHE / "store"


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store that is the default one for the length of a test."""
    folder = tmp_path / "store"
    monkeypatch.setenv("TRANSFERSET_STORE", str(folder))
    return folder
