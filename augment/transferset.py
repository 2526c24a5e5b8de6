"""Transfer sets on disk: a folder that is at the same time a Hugging Face dataset repository.

``README.md`` (card), ``manifest.json`` (written last: a folder without one is unfinished) and
``data/<split>-<shard>.parquet``. A finished set is never edited.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from augment.digest import content_digest
from augment.errors import SetError
from augment.files import replacing, write_atomic
from augment.settings import PLACEHOLDER

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Task:
    """What the label means: one of ``classes``, or a number.

    ``classes`` is empty for a regression, and for a text-only corpus until a teacher labels it.
    """

    kind: Literal["classification", "regression"] = "classification"
    classes: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        """Number of logits per row."""
        return 1 if self.kind == "regression" else len(self.classes)


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file: its path below the set's folder, rows, and SHA-256 of its bytes."""

    path: str
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything needed to know how a set was made and whether it is whole.

    ``digest`` is the content digest of the train rows, free of shard boundaries; ``counts`` holds
    source rows, copies, duplicates and guarded rows; ``teacher`` is None until labelled.
    """

    task: Task
    text: tuple[str, ...]
    splits: dict[str, tuple[Shard, ...]]
    digest: str
    fingerprint: str = ""
    source: str = ""
    seed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    teacher: dict[str, Any] | None = None
    placeholder: str = PLACEHOLDER
    versions: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> str:
        """Return the manifest as JSON text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Read a manifest.

        Raises:
            ValueError, KeyError, TypeError: the text is no manifest of this format.
        """
        raw = json.loads(text)
        if raw["format"] != FORMAT:
            raise ValueError(f"format {raw['format']}, this version reads {FORMAT}")
        task = Task(raw["task"]["kind"], tuple(raw["task"]["classes"]))
        splits = {k: tuple(Shard(**s) for s in v) for k, v in raw["splits"].items()}
        rest = {k: v for k, v in raw.items() if k not in ("task", "splits", "text")}
        return cls(task=task, text=tuple(raw["text"]), splits=splits, **rest)


@dataclass(frozen=True, slots=True)
class TransferSet:
    """A finished transfer set, opened for reading.

    Train columns: the text columns, ``label`` (class index, or float64; absent for a text-only
    corpus), ``source`` (row number or user's id), ``copy`` (0 is the original), ``ops`` (names of
    the transforms that changed the row) and, once labelled, ``logits`` (float32, one per output).
    """

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path) -> "TransferSet":
        """Open a finished set.

        Raises:
            SetError: no such folder, unfinished, damaged, or of another format version.
        """
        path = Path(path)
        if not path.is_dir():
            raise SetError(f"{path}: no such transfer set; make one with: augment build")
        try:
            text = (path / MANIFEST).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise SetError(
                f"{path}: no {MANIFEST}, so this set is unfinished; "
                "run the same build or label command again, it goes on where it stopped"
            ) from None
        try:
            manifest = Manifest.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise SetError(f"{path / MANIFEST}: not a manifest: {error}") from error
        return cls(path, manifest)

    @classmethod
    def of(cls, source: "TransferSet | str | Path") -> "TransferSet":
        """Return a set that is open already, or open its folder; raises as :meth:`open` does."""
        return source if isinstance(source, cls) else cls.open(Path(str(source)))

    @property
    def task(self) -> Task:
        """What the label means."""
        return self.manifest.task

    @property
    def text(self) -> tuple[str, ...]:
        """Names of the one or two text columns."""
        return self.manifest.text

    @property
    def labelled(self) -> bool:
        """Whether the rows carry a teacher's logits."""
        return self.manifest.teacher is not None

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits; ``train`` comes first."""
        return tuple(sorted(self.manifest.splits, key=lambda s: (s != "train", s)))

    @property
    def identity(self) -> str:
        """Digest of all a run learns from or is judged by: train rows, held-out rows, classes."""
        held_out = {
            split: [shard.digest for shard in self._shards(split)]
            for split in self.splits
            if split != "train"
        }
        facts = [self.manifest.digest, self.text, self.task.kind, self.task.classes, held_out]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def rows(self, split: str = "train") -> int:
        """Return the number of rows of a split."""
        return sum(shard.rows for shard in self._shards(split))

    def read(self, split: str = "train", columns: Sequence[str] | None = None) -> pa.Table:
        """Return a whole split as one table."""
        tables = [self.table(s, columns) for s in self._shards(split)]
        return pa.concat_tables(tables)

    def batches(
        self, split: str = "train", columns: Sequence[str] | None = None, rows: int = 8192
    ) -> Iterator[pa.RecordBatch]:
        """Yield a split in order, at most ``rows`` rows at a time, one shard in memory."""
        for shard in self._shards(split):
            yield from self.table(shard, columns).combine_chunks().to_batches(max_chunksize=rows)

    def _shards(self, split: str) -> tuple[Shard, ...]:
        try:
            return self.manifest.splits[split]
        except KeyError:
            have = ", ".join(self.splits)
            raise SetError(f"{self.path}: no split {split!r}; the set has {have}") from None

    def table(self, shard: Shard, columns: Sequence[str] | None = None) -> pa.Table:
        """Return one shard."""
        try:
            table = pq.read_table(
                self.path / shard.path, columns=columns and list(columns), partitioning=None
            )
        except (OSError, pa.ArrowException) as error:
            raise SetError(
                f"{self.path / shard.path}: cannot be read ({error}); "
                f"see what is wrong with: augment verify {self.path}"
            ) from error
        if table.num_rows != shard.rows:
            raise SetError(
                f"{self.path / shard.path}: {table.num_rows} rows, the manifest says {shard.rows}"
            )
        return table


def with_features(table: pa.Table, task: Task, mark: str = "") -> pa.Table:
    """Return the table with its columns described the way ``datasets`` reads them back.

    A ``mark`` says under which plan the rows were made.
    """
    features: dict[str, Any] = {}
    for column in table.schema:
        if column.name == "label" and task.kind == "classification" and task.classes:
            features["label"] = {"names": list(task.classes), "_type": "ClassLabel"}
        elif pa.types.is_fixed_size_list(column.type):
            inner = {"dtype": "float32", "_type": "Value"}
            size = column.type.list_size
            features[column.name] = {"feature": inner, "length": size, "_type": "List"}
        else:
            kind = str(column.type).replace("double", "float64")
            features[column.name] = {"dtype": kind, "_type": "Value"}
    note = json.dumps({"info": {"features": features}}, ensure_ascii=False)
    return table.replace_schema_metadata({"huggingface": note} | ({"plan": mark} if mark else {}))


def write_shard(folder: Path, name: str, table: pa.Table, task: Task, mark: str = "") -> Shard:
    """Write one Parquet file whole or not at all, and return its record."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    path = f"data/{name}.parquet"
    described = with_features(table, task, mark)
    with replacing(folder / path) as temporary:
        pq.write_table(described, temporary, compression="zstd", use_dictionary=["ops"])
        with open(temporary, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Shard(path, table.num_rows, digest)


def existing_shard(folder: Path, name: str, rows: int, mark: str) -> Shard | None:
    """Return the record of a shard that an interrupted run left whole, None if there is none.

    One of another plan is none: a killed build's worker may finish its shard after the folder was
    emptied for another build.
    """
    path = folder / "data" / f"{name}.parquet"
    try:
        found = pq.read_metadata(path)
        if found.num_rows != rows or (found.metadata or {}).get(b"plan") != mark.encode():
            return None
    except (OSError, pa.ArrowException):
        return None
    with open(path, "rb") as file:
        return Shard(f"data/{name}.parquet", rows, hashlib.file_digest(file, "sha256").hexdigest())


def versions() -> dict[str, str]:
    """Versions of the libraries that could change a set's bytes."""
    found = {}
    for name in ("transferset", "pyarrow", "numpy", "spacy", "datasets", "transformers", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def finish(folder: Path, manifest: Manifest) -> TransferSet:
    """Write the card, then the manifest: from now on the folder is a finished set."""
    write_atomic(folder / "README.md", card(manifest).encode())
    write_atomic(folder / MANIFEST, manifest.to_json().encode())
    return TransferSet(folder, manifest)


def write_set(
    path: str | Path,
    *,
    train: pa.Table,
    task: Task,
    text: Sequence[str],
    held_out: Mapping[str, pa.Table] | None = None,
    seed: int = 0,
    recipe: dict[str, Any] | None = None,
    teacher: dict[str, Any] | None = None,
) -> TransferSet:
    """Write tables that already have the columns of a set as a finished set, one shard a split."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    splits: dict[str, tuple[Shard, ...]] = {}
    splits["train"] = (write_shard(folder, "train-00000", train, task),)
    for name, table in (held_out or {}).items():
        splits[name] = (write_shard(folder, f"{name}-00000", table, task),)
    manifest = Manifest(
        task=task,
        text=tuple(text),
        splits=splits,
        digest=content_digest([train]),
        seed=seed,
        recipe=recipe or {},
        teacher=teacher,
        versions=versions(),
    )
    return finish(folder, manifest)


def card(manifest: Manifest) -> str:
    """Return the dataset card: what the Hub shows and how ``datasets`` finds the splits."""
    files = "\n".join(
        f"  - split: {name}\n    path: data/{name}-*.parquet" for name in manifest.splits
    )
    rows = "\n".join(
        f"| {name} | {sum(s.rows for s in shards):,} |" for name, shards in manifest.splits.items()
    )
    counts = "\n".join(f"- {k.replace('_', ' ')}: {v:,}" for k, v in manifest.counts.items())
    steps = manifest.recipe.get("chain", "")
    taught = "not labelled yet"
    if manifest.teacher:
        taught = (
            f"labelled by `{manifest.teacher.get('name')}` ({manifest.teacher.get('precision')})"
        )
    return (
        f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}\n---\n"
        f"# Transfer set\n\nMade by transferset; {taught}.\n\n"
        f"| split | rows |\n|---|---|\n{rows}\n\n{counts}\n\n"
        f"Recipe: `{steps}`, seed {manifest.seed}.\n\n"
        f"Content digest of train: `{manifest.digest}`\n"
    )
