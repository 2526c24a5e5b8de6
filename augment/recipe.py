"""Recipes in TOML and transforms in Python say the same thing, and turn into each other."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from augment.errors import SettingsError
from augment.settings import parse, settings_of, suggestion
from augment.transforms import CATALOGUE
from augment.transforms.protocol import Chain, Choice, Transform

_NAMES = {cls: name for name, cls in CATALOGUE.items()}


def from_steps(
    steps: Sequence[Mapping[str, Any]],
    where: str = "augment",
    find: Callable[[str], str] = lambda name: name,
) -> Chain:
    """Turn ``[augment] steps`` into a chain.

    A step is a table of one key: a transform's name with its settings, or ``choice`` with a list
    of token transforms: ``{choice = [{mask = {rate = 0.1}}, {replace_pos = {}}]}``.

    Args:
        steps: the tables.
        where: said in errors.
        find: turns the name of a model or file as written into one that can be opened.

    Raises:
        SettingsError: unknown transform or setting, with a suggestion and the place.
    """
    if not steps:
        raise SettingsError(f"{where}: steps is empty; name at least one transform")
    return Chain([_step(step, f"{where}.steps[{i}]", find) for i, step in enumerate(steps)])


def _step(step: Mapping[str, Any], where: str, find: Callable[[str], str]) -> Transform:
    if not isinstance(step, Mapping) or len(step) != 1:
        raise SettingsError(f"{where}: a table of one transform, got {step!r}")
    (name, settings), *_ = step.items()
    if name == "choice":
        if not isinstance(settings, list):
            raise SettingsError(f"{where}.choice: a list of transforms, got {settings!r}")
        parts = [_step(part, f"{where}.choice[{i}]", find) for i, part in enumerate(settings)]
        try:
            return Choice(parts)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{where}.choice: {error}") from error
    if name not in CATALOGUE:
        known = [*CATALOGUE, "choice"]
        raise SettingsError(f'{where}: unknown transform "{name}"{suggestion(name, known)}')
    if not isinstance(settings, Mapping):
        raise SettingsError(f"{where}.{name}: a table of settings, got {settings!r}; write {{}}")
    kind = CATALOGUE[name]
    resources = {f.name for f in settings_of(kind) if f.metadata.get("resource")}
    found = {
        k: find(v) if k in resources and isinstance(v, str) else v for k, v in settings.items()
    }
    return parse(kind, found, f"{where}.{name}")


def to_steps(transform: Transform) -> list[dict[str, Any]]:
    """Turn a transform into the ``steps`` that make it; only what differs from the defaults."""
    steps = transform.steps if isinstance(transform, Chain) else (transform,)
    return [_table(step) for step in steps]


def _table(step: Transform) -> dict[str, Any]:
    if isinstance(step, Choice):
        return {"choice": [_table(part) for part in step.parts]}
    settings = {
        f.name: getattr(step, f.name)
        for f in settings_of(step)
        if f.name == "rate" or getattr(step, f.name) != f.default
    }
    return {op_name(step): settings}


def op_name(transform: Transform) -> str:
    """Return a transform's name in recipes and in the column ``ops``."""
    return _NAMES.get(type(transform), type(transform).__name__.lower())


def fingerprint_of(transform: Transform) -> dict[str, Any]:
    """Return everything about a transform that decides its output, as plain data.

    Names of models and files are left out: a build compares what they hold.
    """
    transform = _nameless(transform)
    leaves = [
        {"name": op_name(leaf)}
        | {f.name: getattr(leaf, f.name) for f in dataclasses.fields(leaf) if _plain(f)}  # type: ignore[arg-type]
        for leaf in transform.leaves()
    ]
    return {"chain": repr(transform), "leaves": leaves}


def with_resources(transform: Transform, **names: str | None) -> Transform:
    """Return the transform with other models or files where its parts name any of that kind.

    Args:
        transform: a chain or a part of one.
        names: by setting, ``model="my/lm"``; None keeps the transform's own.
    """
    given = {name: value for name, value in names.items() if value is not None}

    def change(leaf: Any) -> Transform:
        known = {f.name for f in settings_of(leaf) if f.metadata.get("resource")}
        changed: Transform = dataclasses.replace(
            leaf, **{name: value for name, value in given.items() if name in known}
        )
        return changed

    return _mapped(transform, change)


def _nameless(transform: Transform) -> Transform:
    """Return the transform with its resources' names at their defaults."""

    def change(leaf: Any) -> Transform:
        names = [f for f in settings_of(leaf) if f.metadata.get("resource")]
        changed: Transform = dataclasses.replace(leaf, **{f.name: f.default for f in names})
        return changed

    return _mapped(transform, change)


def _mapped(transform: Transform, change: Callable[[Any], Transform]) -> Transform:
    """Return the transform with every single transform inside changed."""
    if isinstance(transform, Chain):
        return Chain([_mapped(step, change) for step in transform.steps])
    if isinstance(transform, Choice):
        return Choice([_mapped(part, change) for part in transform.parts])
    return change(transform)


def _plain(f: "dataclasses.Field[Any]") -> bool:
    return bool(f.metadata.get("setting", True))
