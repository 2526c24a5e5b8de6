"""The catalogue: every transform by the name recipes and ``ops`` use."""

from augment.transforms.mask import Mask
from augment.transforms.ngram import SampleNGram
from augment.transforms.protocol import Transform
from augment.transforms.replace import ReplacePOS
from augment.transforms.substitute import Substitute

__all__ = ["CATALOGUE", "Mask", "ReplacePOS", "SampleNGram", "Substitute", "Transform"]

CATALOGUE: dict[str, type[Transform]] = {
    "mask": Mask,
    "replace_pos": ReplacePOS,
    "ngram": SampleNGram,
    "substitute": Substitute,
}
