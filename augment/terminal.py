"""What both commands do with errors and warnings: one sentence, and an exit code that says which.

2: the input was wrong and nothing was done. 1: the machine failed, and finished work is kept.
130: stopped from the keyboard.
"""

import errno
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from rich.console import Console

from augment.errors import MachineError, TransfersetError

_AGAIN = "finished work is kept, the same command goes on from there"
_REMEDIES = {
    errno.ENOSPC: f"make room; {_AGAIN}",
    errno.EDQUOT: f"the quota is used up, make room; {_AGAIN}",
    errno.EFBIG: f"raise the limit on file sizes (ulimit -f); {_AGAIN}",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
}


def run(app: Callable[[], Any]) -> None:
    """Run a command line; documented errors become one sentence, without a traceback."""
    warnings.showwarning = lambda text, *rest, **more: _print(f"warning: {text}", "yellow")
    try:
        app()
    except MachineError as error:
        _end(str(error), 1)
    except TransfersetError as error:
        _end(str(error), 2)
    except MemoryError:
        _end(f"out of memory: use fewer --workers or a smaller model; {_AGAIN}", 1)
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        place = f"{error.filename}: " if error.filename else ""
        _end(f"{place}{error.strerror}: {_REMEDIES[error.errno]}", 1)


def _end(message: str, code: int) -> NoReturn:
    _print(f"error: {message}", "red")
    sys.exit(code)


def _print(text: str, style: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(text, style=style, markup=False)
