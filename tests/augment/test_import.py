"""Imports stay light: nothing heavy is loaded until something needs it."""

import json
import subprocess
import sys
import time

import pytest

import augment as A

HEAVY = ("torch", "spacy", "gensim", "transformers", "datasets", "sklearn", "scipy", "pandas")
TELL = "import json, sys; print(json.dumps([m for m in {heavy} if m in sys.modules]))"


def loaded_after(code: str) -> list[str]:
    tell = TELL.format(heavy=HEAVY)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", f"{code}\n{tell}"], capture_output=True, text=True)
    print(f"{time.perf_counter() - started:.2f} s: {code.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize(
    "code",
    [
        "import augment",
        "import augment as A; (A.Mask(0.1) | A.ReplacePOS(0.1)) >> A.SampleNGram(0.25)",
        "import augment as A; [getattr(A, name) for name in A.__all__]",
        "import augment.cli",
        "import augment.spacy_augmenter",
    ],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    assert loaded_after(code) == []


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"], ["store", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom augment.cli import main\n"
        f"sys.argv = ['augment', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )
    assert loaded_after(code) == []


def test_every_public_name_is_there_and_no_other() -> None:
    for name in A.__all__:
        assert getattr(A, name).__name__ == name
    assert dir(A) == sorted(A.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Maks'"):
        _ = A.Maks


def test_one_line_in_the_catalogue_makes_a_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import augment as A
    from augment.transforms import CATALOGUE

    class Shout(A.Mask):
        """Stands for a new transform."""

    with pytest.raises(AttributeError, match="no attribute 'Shout'"):
        A.Shout  # noqa: B018
    monkeypatch.setitem(CATALOGUE, "shout", Shout)
    try:
        assert A.Shout is Shout
    finally:
        vars(A).pop("Shout", None)
