"""Files and folders that are whole or absent, and folders that remember what they were begun as."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from augment.errors import SetError

PLAN = "plan.json"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name; on leaving, fsync the file there and rename it to ``path``.

    When the block fails the temporary file goes and ``path`` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_folder(path.parent)


def write_atomic(path: str | Path, data: bytes) -> None:
    """Write a whole file or nothing."""
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


def fsync_folder(folder: Path) -> None:
    """Make renames inside ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def begin(out: Path, plan: Mapping[str, Any]) -> None:
    """Claim a folder for a plan, or go on with one begun under the same plan.

    Raises:
        SetError: the folder holds something else, or was begun under other settings.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / PLAN
    if path.exists():
        compare(out, json.loads(path.read_text(encoding="utf-8")), plan)
        return
    if any(not p.name.startswith(".") for p in out.iterdir()):
        raise SetError(f"{out}: not empty and not a transfer set; choose another folder")
    write_atomic(path, json.dumps(plan, indent=1, ensure_ascii=False).encode())


def compare(out: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to go on with a folder that was begun under another plan, naming what changed.

    Raises:
        SetError: something differs.
    """
    new = json.loads(json.dumps(new))
    changed = [key for key in new if old.get(key) != new[key]]
    if changed:
        what = "; ".join(f"{k} was {_short(old.get(k))}, is {_short(new[k])}" for k in changed)
        raise SetError(
            f"{out}: begun with other settings ({what}); "
            "choose another folder, or remove this one to start over"
        )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
