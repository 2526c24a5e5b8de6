"""Files and folders that are whole or absent, and folders that remember what they were begun as."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from augment.errors import SetError, TransfersetError

PLAN = "plan.json"
_LOCK = ".lock"
# What a killed process leaves; the last pattern is safetensors' own.
_LEFT = (".*.tmp", "data/.*.tmp", ".tmp*")


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


@contextmanager
def claimed(
    out: Path, what: str, record: str, error: type[TransfersetError] = SetError
) -> Iterator[None]:
    """Hold a folder while working in it: new, empty, or one that was begun here before.

    The lock is the kernel's, so one that a killed process held is free again. When an error of the
    input leaves before any work was done, so do the plan, and the folder if it was made here. Of
    several processes that train together the first one claims.

    Args:
        out: the folder.
        what: what it holds once finished, with its article.
        record: the file that says it is finished, written last.
        error: raised when the folder is a file, holds something else, or is held by another
            process.
    """
    from filelock import FileLock, Timeout

    if follower():
        yield
        return
    if out.exists() and not out.is_dir():
        raise error(f"{out}: is a file; choose a folder")
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    if names and not names & {_LOCK, PLAN, record}:
        raise error(
            f"{out}: not empty and not {what} (it holds {min(names)}); choose another folder"
        )
    fresh = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise error(
            f"{out}: another process is at work in it; wait for it, or choose another folder"
        ) from None
    try:
        yield
    except TransfersetError:
        if {path.name for path in out.iterdir()} == {_LOCK, PLAN}:
            (out / PLAN).unlink()
        raise
    finally:
        (out / _LOCK).unlink(missing_ok=True)
        lock.release()
        if fresh:
            with suppress(OSError):
                out.rmdir()


def finish(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record that says its folder is finished."""
    if not follower():
        write_atomic(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def begin(out: Path, plan: Mapping[str, Any], error: type[TransfersetError] = SetError) -> None:
    """Note a claimed folder's plan, or go on under the same plan as noted there before.

    Raises:
        SetError: the folder was begun under other settings (or ``error``).
    """
    path = out / PLAN
    if follower():
        return
    if path.exists():
        compare(out, read_json(path, error), plan, error)
        for pattern in _LEFT:
            for left in out.glob(pattern):
                left.unlink(missing_ok=True)
        return
    write_atomic(path, json.dumps(plan, indent=1, ensure_ascii=False).encode())


def settle(out: Path, *more: str) -> None:
    """Remove the plan and ``more`` from a finished folder: what only unfinished work needs.

    Called again for a folder found finished, since a kill may have come just before.
    """
    if follower():
        return
    for name in (PLAN, *more):
        (out / name).unlink(missing_ok=True)


def follower() -> bool:
    """Return whether another of the processes that train together does the writing."""
    # torchrun and accelerate number them.
    return os.environ.get("RANK", "0") != "0"


def read_json(path: Path, error: type[TransfersetError] = SetError) -> dict[str, Any]:
    """Return the object a JSON file holds.

    Raises:
        SetError: it cannot be read, or holds something else (or ``error``).
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be read ({problem}); choose another folder") from problem
    if not isinstance(found, dict):
        raise error(f"{path}: not what this library writes; choose another folder")
    return found


def mapped(path: Path, kind: Any, shape: tuple[int, ...]) -> Any:
    """Return a new array of zeros that lives in a file; its room is taken at once.

    Without that a full disk would show as a crash at some later write.
    """
    import numpy as np

    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(size, 1))
    return np.memmap(path, kind, "r+", shape=shape)


def compare(
    out: Path,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    error: type[TransfersetError] = SetError,
) -> None:
    """Refuse to go on with a folder that was begun under another plan, naming what changed.

    Raises:
        SetError: something differs (or ``error``).
    """
    if changes := list(_changes(old, json.loads(json.dumps(new)))):
        raise error(
            f"{out}: begun with other settings ({'; '.join(changes)}); "
            "choose another folder, or remove this one to start over"
        )


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], within: str = "") -> Iterator[str]:
    # A finished folder's record says more than the plan did; a part of the plan says just as much.
    for key in sorted(new.keys() | old.keys()) if within else new:
        before, value = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            yield from _changes(before, value, f"{within}{key}.")
        elif before != value:
            yield f"{within}{key} was {_short(before)}, is {_short(value)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
