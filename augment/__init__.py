"""Turn a small labelled corpus into a large transfer set, and label it with a teacher, once.

>>> import augment as A
>>> chain = (A.Mask(0.1) | A.ReplacePOS(0.1)) >> A.SampleNGram(0.25)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from augment.building import build, build_recipe
    from augment.labelling import label, label_recipe
    from augment.recipe import from_steps, to_steps
    from augment.store import Store
    from augment.teacher import Teacher
    from augment.transferset import Task, TransferSet
    from augment.transforms import Mask, ReplacePOS, SampleNGram, Substitute
    from augment.transforms.protocol import Chain, Choice, RowTransform, TokenTransform, Transform

# Names are fetched when first used: importing the package costs next to nothing.
_WHERE = {
    "Chain": "augment.transforms.protocol",
    "Choice": "augment.transforms.protocol",
    "Mask": "augment.transforms",
    "ReplacePOS": "augment.transforms",
    "RowTransform": "augment.transforms.protocol",
    "SampleNGram": "augment.transforms",
    "Store": "augment.store",
    "Substitute": "augment.transforms",
    "Task": "augment.transferset",
    "Teacher": "augment.teacher",
    "TokenTransform": "augment.transforms.protocol",
    "TransferSet": "augment.transferset",
    "Transform": "augment.transforms.protocol",
    "build": "augment.building",
    "build_recipe": "augment.building",
    "from_steps": "augment.recipe",
    "label": "augment.labelling",
    "label_recipe": "augment.labelling",
    "to_steps": "augment.recipe",
}
__all__ = [
    "Chain",
    "Choice",
    "Mask",
    "ReplacePOS",
    "RowTransform",
    "SampleNGram",
    "Store",
    "Substitute",
    "Task",
    "Teacher",
    "TokenTransform",
    "TransferSet",
    "Transform",
    "build",
    "build_recipe",
    "from_steps",
    "label",
    "label_recipe",
    "to_steps",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    # The modules are called building and labelling so that A.build stays the function.
    if name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
    elif name[:1].isupper() and name in (found := _catalogue()):
        value = found[name]
    else:
        raise AttributeError(f"module 'augment' has no attribute {name!r}")
    globals()[name] = value
    return value


def _catalogue() -> dict[str, Any]:
    """Return the transforms by class name: one line in the catalogue makes a public name."""
    from augment.transforms import CATALOGUE

    return {kind.__name__: kind for kind in CATALOGUE.values()}


def __dir__() -> list[str]:
    """List public names."""
    return sorted(__all__)
