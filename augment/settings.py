"""Recipes: one TOML file is one experiment, read into frozen dataclasses before any work starts.

A table becomes a dataclass by :func:`parse`, which refuses unknown keys with a suggestion and
wrong types with the place. A value's range is the dataclass's own business (``__post_init__``
raising ``ValueError``); ``parse`` adds the place to its message.
"""

import dataclasses
import difflib
import importlib.util
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from augment.errors import ResourceError, SettingsError

T = TypeVar("T")

SECTIONS = ("corpus", "augment", "teacher", "label", "student", "stage", "report", "ablate")
PLACEHOLDER = "[MASK]"


@dataclass(frozen=True, slots=True)
class CorpusSettings:
    """Where the rows come from and what their columns mean.

    ``train``, ``validation`` and ``test`` are files (csv, tsv, json lines, parquet), relative to
    the recipe; with ``name`` they are split names of a ``datasets.load_dataset`` source.
    """

    train: str = "train"
    validation: str | None = None
    test: str | None = None
    text: tuple[str, ...] = ("text",)
    label: str | None = None
    task: Literal["classification", "regression"] = "classification"
    classes: tuple[str, ...] = ()
    id: str | None = None
    language: str = "en"
    name: str | None = None
    config: str | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        if len(self.text) not in (1, 2):
            raise ValueError(f"text names one or two columns, got {len(self.text)}")
        if len(set(self.text)) != len(self.text):
            raise ValueError(f"text names the column {self.text[0]!r} twice")
        taken = [n for n in ("label", "source", "copy", "ops", "logits") if n in self.text]
        if taken and not (taken == ["label"] and self.label == "label"):
            raise ValueError(
                f"a set keeps the name {taken[0]!r} for itself; rename that text column"
            )
        if self.label in self.text:
            raise ValueError(f"label {self.label!r} is also a text column")
        if self.task == "regression" and self.classes:
            raise ValueError("a regression has no classes; leave classes out")


@dataclass(frozen=True, slots=True)
class AugmentSettings:
    """How copies are made: ``steps`` is the chain (see ``augment.recipe``), ``copies`` per row."""

    steps: tuple[dict[str, Any], ...]
    copies: int = 20
    seed: int = 0
    guard: bool = True
    shard_rows: int = 100_000

    def __post_init__(self) -> None:
        if self.copies < 0:
            raise ValueError(f"copies is a count of at least 0, got {self.copies}")
        if self.shard_rows < 1:
            raise ValueError(f"shard_rows is a count of at least 1, got {self.shard_rows}")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"seed is a 64-bit integer, got {self.seed}")


@dataclass(frozen=True, slots=True)
class TeacherSettings:
    """The teacher: ``base`` is what ``distill teacher`` fine-tunes, ``model`` what labels.

    ``max_tokens`` counts word pieces, special tokens included; ``warmup`` is the share of steps.
    ``evaluations`` checks on validation are spread evenly; ``select`` keeps the best of them (what
    papers do on GLUE) or the last state.
    """

    base: str = "bert-base-uncased"
    model: str | None = None
    max_tokens: int = 128
    epochs: float = 3.0
    learning_rate: float = 5e-5
    batch: int = 32
    warmup: float = 0.1
    weight_decay: float = 0.01
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    seed: int = 0
    select: Literal["validation", "last"] = "validation"
    evaluations: int = 10

    def __post_init__(self) -> None:
        _positive(self, "max_tokens", "epochs", "learning_rate", "batch")
        if self.evaluations < 0 or (self.select == "validation" and not self.evaluations):
            raise ValueError('evaluations = 0 leaves nothing to select; write select = "last"')
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup is a share of the steps in [0, 1), got {self.warmup}")


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """How a set is labelled. ``label_map``: what to do when class orders differ.

    ``runtime`` computes the logits: "openvino" (an extra) is about twice as fast on a CPU.
    """

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    runtime: Literal["torch", "openvino"] = "torch"
    label_map: Literal["refuse", "by-name"] = "refuse"
    threads: int | None = None
    window: int = 200_000

    def __post_init__(self) -> None:
        _positive(self, "window")
        if self.threads is not None:
            _positive(self, "threads")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe file: its path and the raw tables by section name."""

    path: Path
    tables: Mapping[str, Any] = field(default_factory=dict)

    def section(self, cls: type[T], name: str) -> T:
        """Return section ``name`` as ``cls``; absent sections take the defaults."""
        return parse(cls, self.tables.get(name, {}), f"{self.path}, [{name}]")

    def resolve(self, value: str) -> Path:
        """Return a file named in the recipe; relative names start at the recipe's folder."""
        return (self.path.parent / value).resolve()

    def model(self, name: str) -> str:
        """Return a folder or file named in the recipe as a path, any other name as it is."""
        path = self.resolve(name)
        return str(path) if path.exists() else name


def _positive(record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if not value > 0:
            raise ValueError(f"{name} is a number above 0, got {value}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the nearest known name, or the list of known names."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else f"; known: {', '.join(known)}"


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe and check its section names.

    Raises:
        SettingsError: no such file, broken TOML, an unknown section.
    """
    path = Path(path)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such recipe; see corpora/recipes for examples") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    for name, table in tables.items():
        if name not in SECTIONS:
            raise SettingsError(f"{path}: unknown section [{name}]{suggestion(name, SECTIONS)}")
        many = name == "stage"
        if not isinstance(table, list if many else dict):
            shape = "[[stage]]" if many else f"[{name}]"
            raise SettingsError(f"{path}: {name} is a table; write {shape}")
    return Recipe(path, tables)


def parse(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Turn a TOML table into the frozen dataclass ``cls``.

    Raises:
        SettingsError: unknown key (with a suggestion), missing key, wrong type, value out of range.
    """
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in settings_of(cls)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in fields:
            raise SettingsError(f'{where}: unknown key "{key}"{suggestion(key, fields)}')
        values[key] = _convert(value, hints[key], f"{where}, {key}")
    for name, f in fields.items():
        absent = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if absent and name not in values:
            raise SettingsError(f'{where}: the key "{name}" is required')
    try:
        return cls(**values)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from error


def settings_of(cls: Any) -> list["dataclasses.Field[Any]"]:
    """Return the fields of a record that a recipe may set (not those marked ``setting: False``)."""
    return [f for f in dataclasses.fields(cls) if f.init and f.metadata.get("setting", True)]


def _convert(value: Any, kind: Any, where: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        kinds = [k for k in args if k is not type(None)]
        if value is None and len(kinds) < len(args):
            return None
        for k in kinds[:-1]:
            try:
                return _convert(value, k, where)
            except SettingsError:
                continue
        return _convert(value, kinds[-1], where)
    if origin is Literal:
        if value not in args:
            hint = suggestion(str(value), map(str, args))
            raise SettingsError(
                f"{where}: one of {', '.join(map(repr, args))}, got {value!r}{hint}"
            )
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SettingsError(f"{where}: a list, got {value!r}; write [{value!r}]")
        return tuple(_convert(v, args[0], f"{where}[{i}]") for i, v in enumerate(value))
    if origin is dict or kind is dict:
        return _expect(value, dict, "a table", where)
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(f"{where}: a number, got {value!r}")
        return float(value)
    if kind is int and isinstance(value, bool):
        raise SettingsError(f"{where}: a whole number, got {value!r}")
    names = {int: "a whole number", str: "a string", bool: "true or false"}
    return _expect(value, kind, names.get(kind, str(kind)), where)


def _expect(value: Any, kind: type, name: str, where: str) -> Any:
    if not isinstance(value, kind):
        raise SettingsError(f"{where}: {name}, got {value!r}")
    return value


def model_folder(name: str) -> str:
    """Return what ``from_pretrained`` takes for ``name``.

    ``package:<module>`` is the folder inside an installed Python package that holds a
    ``config.json``: the way to weights where no hub is reached. Other names (a folder, a hub
    name) come back unchanged.

    Raises:
        ResourceError: the package is absent or carries no model.
    """
    if not name.startswith("package:"):
        return name
    module = name.removeprefix("package:")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ResourceError(
            f"model {name!r}: the package {module!r} is not installed; "
            f"run: pip install {module.replace('_', '-')} (or name a model folder instead)"
        )
    for root in spec.submodule_search_locations:
        for config in sorted(Path(root).rglob("config.json")):
            if any(config.parent.glob("*.safetensors")):
                return str(config.parent)
    raise ResourceError(f"model {name!r}: the package {module!r} holds no config.json with weights")
