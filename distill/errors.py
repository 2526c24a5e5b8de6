"""Errors of training, evaluating and reporting; the command line prints them and exits with 2."""

from augment.errors import TransfersetError


class StudentError(TransfersetError):
    """A student cannot be built as asked: its vectors, its vocabulary or its shape."""


class StageError(TransfersetError):
    """A stage asks for something the transfer set does not carry, such as logits or labels."""


class RunError(TransfersetError):
    """A run folder is missing, unfinished, or holds something else than what is asked for."""


class AblationError(TransfersetError):
    """An ablation cannot go on from what its folder holds."""
