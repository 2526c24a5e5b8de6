"""Errors a user can meet; each message says where, what was expected, what arrived, what to do."""


class TransfersetError(Exception):
    """Base of every documented error; the command line prints it and exits with code 2."""


class SettingsError(TransfersetError):
    """A recipe, a setting or an argument is wrong; nothing has been done yet."""


class CorpusError(TransfersetError):
    """A source corpus cannot be read as asked (missing column, empty file, bad encoding)."""


class SetError(TransfersetError):
    """A transfer set is unfinished, damaged, or does not fit what is asked of it."""


class StoreError(TransfersetError):
    """A store segment is damaged or holds another type of value."""


class ResourceError(TransfersetError):
    """A model, a tagger or vectors cannot be had; names the command that gets them."""


class TeacherError(TransfersetError):
    """The teacher does not fit the set: class count, class order, missing weights."""


class MachineError(TransfersetError):
    """The machine failed, not the input: a worker died; finished work is kept. Exit code 1."""


class NotFittedError(TransfersetError):
    """A transform that learns from the corpus was used before ``fit``."""
