"""Laws of the layer maps."""

import pytest

from distill.errors import StageError
from distill.layers import LayerMap, layer_map, spread


def test_uniform_is_the_papers_map() -> None:
    # TinyBERT4 of BERT-base: layers 3, 6, 9, 12, and the embeddings with the embeddings.
    found = layer_map("uniform", student=4, teacher=12)
    assert found.pairs == ((1, 3), (2, 6), (3, 9), (4, 12))


def test_top_and_bottom_are_the_last_and_the_first_layers() -> None:
    assert layer_map("top", student=4, teacher=12).teacher == (9, 10, 11, 12)
    assert layer_map("bottom", student=4, teacher=12).teacher == (1, 2, 3, 4)


@pytest.mark.parametrize("depth", [1, 2, 12])
def test_equal_depths_have_one_map(depth: int) -> None:
    found = {layer_map(rule, student=depth, teacher=depth) for rule in ("uniform", "top", "bottom")}
    assert found == {LayerMap(tuple(range(1, depth + 1)))}


def test_a_list_names_a_teacher_layer_each_and_zero_leaves_out() -> None:
    # BERT-PKD's skip map for 6 of 12 layers: the last layer is left to the logits.
    found = layer_map([2, 4, 6, 8, 10, 0], student=6, teacher=12)
    assert found.pairs == ((1, 2), (2, 4), (3, 6), (4, 8), (5, 10))


@pytest.mark.parametrize("teacher", range(1, 13))
def test_spread_layers_ascend_to_the_last_and_are_uniform_where_that_is_possible(
    teacher: int,
) -> None:
    for student in range(1, teacher + 1):
        layers = spread(student, teacher)
        assert list(layers) == sorted(set(layers))
        assert layers[-1] == teacher
        if teacher % student == 0:
            assert layer_map("uniform", student=student, teacher=teacher).teacher == layers


def test_a_depth_that_does_not_divide_lists_the_choices() -> None:
    with pytest.raises(StageError, match=r"one of 1, 2, 3, 6 layers.*\[2, 3, 5, 6\]"):
        layer_map("uniform", student=4, teacher=6)
    assert layer_map([2, 3, 5, 6], student=4, teacher=6).teacher == (2, 3, 5, 6)
    assert layer_map("top", student=4, teacher=6).teacher == (3, 4, 5, 6)


@pytest.mark.parametrize(
    ("rule", "student", "words"),
    [
        ("uniform", 7, "1 to 6 layers, as deep as the teacher at most, got 7"),
        ("top", 0, "1 to 6 layers"),
        ("middle", 2, 'no layer map "middle"'),
        ([2, 4], 3, "lists 2 teacher layers for 3 student layers"),
        ([2, 4, 7], 3, "names teacher layer 7; the teacher has layers 1 to 6"),
        ([2, -1, 4], 3, "names teacher layer -1"),
        ([0, 0], 2, "matches no layer"),
    ],
)
def test_maps_that_do_not_fit_are_errors(rule: object, student: int, words: str) -> None:
    with pytest.raises(StageError, match=words):
        layer_map(rule, student=student, teacher=6)  # type: ignore[arg-type]
