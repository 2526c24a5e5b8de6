"""Students known to transformers' Auto classes, without importing transformers for it.

Importing transformers takes seconds, which ``distill --help`` need not spend. So registration
waits for the three modules that hold the Auto classes: each is told of the BiLSTM when it is
imported, or at once if it already was. After ``import distill`` a run therefore loads by
``AutoModelForSequenceClassification.from_pretrained``, whichever of the two was imported first.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def _config(module: Any) -> None:
    from distill.students.bilstm_config import BiLSTMConfig

    module.AutoConfig.register(BiLSTMConfig.model_type, BiLSTMConfig, exist_ok=True)


def _model(module: Any) -> None:
    from distill.students.bilstm import BiLSTMForSequenceClassification
    from distill.students.bilstm_config import BiLSTMConfig

    module.AutoModelForSequenceClassification.register(
        BiLSTMConfig, BiLSTMForSequenceClassification, exist_ok=True
    )


def _tokenizer(module: Any) -> None:
    from transformers import PreTrainedTokenizerFast

    from distill.students.bilstm_config import BiLSTMConfig

    module.AutoTokenizer.register(
        BiLSTMConfig, fast_tokenizer_class=PreTrainedTokenizerFast, exist_ok=True
    )


_AUTO = "transformers.models.auto."
_WAITING: dict[str, Callable[[Any], None]] = {
    _AUTO + "configuration_auto": _config,
    _AUTO + "modeling_auto": _model,
    _AUTO + "tokenization_auto": _tokenizer,
}


class _Finder(MetaPathFinder):
    """Lets the usual machinery find the Auto modules, and adds a step after their execution."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _WAITING:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _WAITING[fullname])
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader, then: Callable[[Any], None]) -> None:
        self.loader, self.then = loader, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.then(module)


def register() -> None:
    """Register the students now with what is imported, and later with what is not yet."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    for name, then in _WAITING.items():
        if name in sys.modules:
            then(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
