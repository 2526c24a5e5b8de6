"""What workers are asked to do in tests; kept apart so that a worker imports next to nothing."""

import os
from typing import Any

from augment.errors import CorpusError


def about(job: Any, task: Any) -> Any:
    """Tell what came and who answers, or fail in one of three ways."""
    if task == "die":
        os._exit(3)
    if task == "refuse":
        raise CorpusError("the corpus is no good")
    if task == "fail":
        raise KeyError("a bug")
    return job, task, os.getpid(), os.environ.get("OMP_NUM_THREADS")
