"""Layer maps: which teacher layer each student layer is matched with.

M student layers, N teacher layers, both counted from 1; 0 is the embeddings' output.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from distill.errors import StageError

Rule = Literal["uniform", "top", "bottom"]


@dataclass(frozen=True, slots=True)
class LayerMap:
    """``teacher[m - 1]`` is the teacher's layer g(m) for student layer m; 0 leaves m unmatched."""

    teacher: tuple[int, ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs (m, g(m)) of layers that are matched, in attention as in hidden states."""
        return tuple((m, g) for m, g in enumerate(self.teacher, start=1) if g)


def layer_map(rule: Rule | Sequence[int], *, student: int, teacher: int) -> LayerMap:
    """Return the map of ``student`` layers into ``teacher`` layers.

    ``uniform`` is g(m) = k m with k = N / M, ``top`` the teacher's last M layers, ``bottom`` its
    first. A list names g(1) to g(M) itself, such as [2, 4, 6, 8, 10, 0], which leaves layer 6 out.
    Source: Jiao et al. 2020 (TinyBERT), section 3.1 and table 4, https://arxiv.org/abs/1909.10351.

    Raises:
        StageError: the rule does not fit the two depths; the valid choices are listed.
    """
    if not isinstance(rule, str):
        return _explicit(tuple(rule), student, teacher)
    if not 1 <= student <= teacher:
        raise StageError(
            f"a {rule} layer map takes a student of 1 to {teacher} layers, as deep as the teacher "
            f"at most, got {student}; or list a teacher layer for each student layer"
        )
    if rule == "top":
        return LayerMap(tuple(range(teacher - student + 1, teacher + 1)))
    if rule == "bottom":
        return LayerMap(tuple(range(1, student + 1)))
    if rule != "uniform":
        raise StageError(
            f'no layer map "{rule}"; write "uniform", "top", "bottom" or a list of teacher layers'
        )
    if teacher % student:
        fitting = ", ".join(str(m) for m in range(1, teacher + 1) if teacher % m == 0)
        raise StageError(
            f"a uniform layer map needs a teacher of k times as many layers, and {teacher} is no "
            f"multiple of {student}; give the student one of {fitting} layers, or write "
            f'"top", "bottom" or a list such as {list(spread(student, teacher))}'
        )
    return LayerMap(spread(student, teacher))


def spread(student: int, teacher: int) -> tuple[int, ...]:
    """Return ``student`` evenly spaced layers of 1..``teacher``, the last one included.

    Where ``teacher`` is a multiple this is the uniform map; else positions are rounded up.
    """
    return tuple(-(-m * teacher // student) for m in range(1, student + 1))


def _explicit(layers: tuple[int, ...], student: int, teacher: int) -> LayerMap:
    if len(layers) != student:
        raise StageError(
            f"the layer map lists {len(layers)} teacher layers for {student} student layers; "
            "list one each, 0 for a layer that is not matched"
        )
    wrong = [g for g in layers if not 0 <= g <= teacher]
    if wrong:
        raise StageError(
            f"the layer map names teacher layer {wrong[0]}; the teacher has layers 1 to {teacher}"
        )
    if not any(layers):
        raise StageError("the layer map matches no layer; name at least one teacher layer")
    return LayerMap(layers)
