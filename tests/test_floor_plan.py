"""The floor plan: imports run downwards, inside a floor there are no circles.

``PLAN`` is the plan itself: a new module gets a place in it first. Imports are read from the
source, those inside functions included; ``if TYPE_CHECKING`` counts as well.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Lowest floor first; a name stands for a module of the package, or for all modules of a folder.
PLAN: dict[str, list[str]] = {
    "augment": [
        "errors",
        "arrow files batch digest draws keyed keys dedupe store settings progress machine runtimes terminal readers",
        "corpus tokens transferset",
        "annotate variants use transforms.protocol",
        "transforms transforms.mask transforms.ngram transforms.replace transforms.substitute",
        "recipe teacher engines",
        "unit reading asking building labelling proposals show vectors verify spacy_augmenter rawtext masking lmhead lmtraining adapt",
        "__init__ cli",
    ],
    "distill": [
        "errors",
        "objectives hidden layers attention adadelta buckets progress figure summary students registration",
        "examples evaluation stages terms recipe",
        "resume losses trainer matching models curriculum teacher runs cost",
        "cells variants worker pool ablation reporting",
        "__init__ cli",
    ],
}
# What distill may know of augment: the recipe and the set, and the housekeeping both commands
# share (errors, whole files and claimed folders, progress, precision, what the terminal is told,
# raw text as adapt-lm reads it).
HOUSEKEEPING = {"augment.errors", "augment.files", "augment.machine", "augment.progress"}
SHARED = {
    "augment.settings",
    "augment.transferset",
    "augment.terminal",
    "augment.keyed",
    "augment.rawtext",
} | HOUSEKEEPING
FOREIGN = {"augment": set(), "distill": SHARED}

PACKAGES = list(PLAN)


@cache
def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name; packages go by their folder's name."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def floor(module: str) -> int | None:
    """The floor of a module, None if the plan has no place for it."""
    package, _, name = module.partition(".")
    places = {n: number for number, names in enumerate(PLAN[package]) for n in names.split()}
    return places.get(name or "__init__", places.get(name.split(".")[0] if "." in name else name))


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of both packages that a module imports, anywhere in its source."""
    package = module.partition(".")[0]
    known = {m for p in PACKAGES for m in modules(p)}
    path = modules(package)[module]
    here = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = here.split(".")
            up = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            # `from package import name` may name a module or something inside the package.
            whole = [f"{base}.{alias.name}" for alias in node.names]
            names = [w if w in known else base for w in whole]
        else:
            continue
        found |= {name for name in names if name.split(".")[0] in PACKAGES}
    return frozenset(found - {module})


ALL = [(package, module) for package in PACKAGES for module in modules(package)]


@pytest.mark.parametrize(("package", "module"), ALL, ids=[m for _, m in ALL])
def test_every_module_has_a_floor(package: str, module: str) -> None:
    assert floor(module) is not None, (
        f"{module} has no floor: add it to PLAN in tests/test_floor_plan.py, "
        "on the lowest floor above everything it imports"
    )


@pytest.mark.parametrize(("package", "module"), ALL, ids=[m for _, m in ALL])
def test_imports_run_downwards(package: str, module: str) -> None:
    here = floor(module)
    for other in imports(module):
        if other.split(".")[0] != package:
            continue
        there = floor(other)
        assert here is not None
        assert there is not None
        assert there <= here, f"{module} (floor {here}) imports {other} (floor {there})"


@pytest.mark.parametrize("package", PACKAGES)
def test_inside_a_package_imports_run_in_no_circle(package: str) -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a circle: {' -> '.join([*path[path.index(module) :], module])}"
        if module in done:
            return
        for other in sorted(imports(module) & modules(package).keys()):
            visit(other, (*path, module))
        done.add(module)

    for module in modules(package):
        visit(module, ())
    assert done == set(modules(package))


@pytest.mark.parametrize(("package", "module"), ALL, ids=[m for _, m in ALL])
def test_a_package_knows_of_the_other_only_what_is_shared(package: str, module: str) -> None:
    foreign = {name for name in imports(module) if name.split(".")[0] != package}
    assert foreign <= FOREIGN[package], (
        f"{module} imports {', '.join(sorted(foreign - FOREIGN[package]))}"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_the_plan_names_no_module_that_is_gone(package: str) -> None:
    there = {m.partition(".")[2] or "__init__" for m in modules(package)}
    gone = {name for names in PLAN[package] for name in names.split()} - there
    assert not gone, f"remove from PLAN in tests/test_floor_plan.py: {', '.join(sorted(gone))}"


def test_imports_are_read_from_functions_and_relative_forms_too() -> None:
    # The reader itself: what the packages are known to do.
    assert "augment.building" in imports("augment.cli"), "inside a function"
    assert "augment.building" in imports("augment"), "under TYPE_CHECKING"
    assert "augment.transferset" in imports("distill.examples"), "across packages"
