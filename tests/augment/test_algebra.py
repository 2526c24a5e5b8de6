"""The algebra: classes, operators and TOML say the same; what cannot be meant is refused."""

import tomllib
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import augment as A
from augment.errors import SettingsError
from augment.recipe import fingerprint_of, from_steps, op_name, to_steps
from augment.settings import AugmentSettings, CorpusSettings, parse, read_recipe

TANG = (A.Mask(0.1) | A.ReplacePOS(0.1)) >> A.SampleNGram(0.25)
TOML = """
steps = [
  {choice = [{mask = {rate = 0.1}}, {replace_pos = {}}]},
  {ngram = {rate = 0.25}},
]
"""


def test_classes_operators_and_toml_are_equal() -> None:
    classes = A.Chain([A.Choice([A.Mask(0.1), A.ReplacePOS(0.1)]), A.SampleNGram(0.25)])
    assert classes == TANG
    assert from_steps(tomllib.loads(TOML)["steps"]) == TANG
    assert hash(classes) == hash(TANG)


def test_a_chain_becomes_steps_and_a_chain_again() -> None:
    assert from_steps(to_steps(TANG)) == TANG
    assert to_steps(TANG) == [
        {"choice": [{"mask": {"rate": 0.1}}, {"replace_pos": {"rate": 0.1}}]},
        {"ngram": {"rate": 0.25}},
    ]


def test_repr_prints_the_algebra() -> None:
    assert repr(TANG) == "(Mask(0.1) | ReplacePOS(0.1)) >> SampleNGram(0.25)"
    assert repr(A.Mask(0.1) | A.Mask(0.2)) == "Mask(0.1) | Mask(0.2)"
    assert repr(A.ReplacePOS(0.1, tagger="x")) == "ReplacePOS(0.1, tagger='x')"


@pytest.mark.parametrize(
    "chain",
    [
        TANG,
        A.Chain([A.Mask(0.25)]),
        A.Mask(0.1) >> A.Mask(0.2) >> A.SampleNGram(1.0, longest=2),
        A.SampleNGram() >> (A.Mask(0.3) | A.Mask(0.3) | A.ReplacePOS(0.4, tagger="t")),
    ],
    ids=repr,
)
def test_what_repr_prints_evaluates_to_the_same(chain: A.Chain) -> None:
    names = {n: getattr(A, n) for n in ("Mask", "ReplacePOS", "SampleNGram")}
    read = eval(repr(chain), names)  # noqa: S307
    assert A.Chain([read]) == chain


def test_choices_are_flat_however_bracketed() -> None:
    a, b, c = A.Mask(0.1), A.Mask(0.2), A.Mask(0.3)
    assert (a | b) | c == a | (b | c) == a | b | c == A.Choice([a, b, c])
    assert (a | b | c).parts == (a, b, c)


def test_chains_are_flat_however_bracketed() -> None:
    a, b, c = A.Mask(0.1), A.SampleNGram(0.2), A.Mask(0.3)
    assert (a >> b) >> c == a >> (b >> c) == a >> b >> c == A.Chain([a, b, c])
    assert (a >> b >> c).steps == (a, b, c)


def test_a_choice_of_one_is_its_part_in_a_chain() -> None:
    assert A.Chain([A.Choice([A.Mask(0.1)])]) == A.Chain([A.Mask(0.1)])


def test_or_between_a_token_and_a_row_transform_shows_the_fix() -> None:
    with pytest.raises(TypeError, match="chain it: >>"):
        A.Mask(0.1) | A.SampleNGram(0.25)
    with pytest.raises(TypeError, match="chain it: >>"):
        A.SampleNGram(0.25) | A.Mask(0.1)


def test_a_chain_to_the_left_of_or_shows_the_fix_for_that_order() -> None:
    # Python reads a >> b | c as (a >> b) | c; what was meant is a >> (b | c).
    with pytest.raises(TypeError) as error:
        A.SampleNGram(0.2) >> A.Mask(0.1) | A.ReplacePOS(0.1)
    assert "SampleNGram(0.2) >> (Mask(0.1) | ReplacePOS(0.1))" in str(error.value)


def test_a_choice_takes_transforms_only() -> None:
    with pytest.raises(TypeError):
        A.Mask(0.1) | 0.5  # type: ignore[operator]
    with pytest.raises(TypeError):
        A.Mask(0.1) >> "ngram"  # type: ignore[operator]
    with pytest.raises(ValueError, match="at least one transform"):
        A.Choice([])


def test_rates_of_a_choice_that_sum_above_one_are_refused_with_the_sum() -> None:
    with pytest.raises(ValueError, match=r"sum to at most 1, got 0\.7 \+ 0\.4 = 1\.1"):
        A.Mask(0.7) | A.ReplacePOS(0.4)


def test_rates_of_a_choice_may_sum_to_exactly_one() -> None:
    tenths = A.Choice([A.Mask(0.1)] * 10)
    assert tenths("every word is gone", copies=3) == ["[MASK] [MASK] [MASK] [MASK]"] * 3


def test_transforms_are_immutable() -> None:
    with pytest.raises((FrozenInstanceError, AttributeError)):
        A.Mask(0.1).rate = 0.2  # type: ignore[misc]
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        TANG.steps = ()  # type: ignore[misc]


def test_a_chain_holds_as_many_transforms_as_its_edit_bits() -> None:
    assert len(A.Chain([A.Mask(0.01)] * 63).leaves()) == 63
    with pytest.raises(ValueError, match="at most 63"):
        A.Chain([A.Mask(0.01)] * 64)


def test_the_fingerprint_sees_every_setting_that_decides_the_output() -> None:
    prints = [
        str(fingerprint_of(t))
        for t in (
            A.Mask(0.1),
            A.Mask(0.1000000001),
            A.SampleNGram(0.1),
            A.SampleNGram(0.1, longest=4),
            A.ReplacePOS(0.1),
            A.Substitute(0.1),
            A.Substitute(0.1, mode="spread"),
            A.Mask(0.1) | A.Mask(0.2),
            A.Mask(0.1) >> A.Mask(0.2),
        )
    ]
    assert len(set(prints)) == len(prints)


def test_a_models_name_is_no_part_of_the_fingerprint_what_it_holds_is_compared_elsewhere() -> None:
    for one, other in (
        (A.ReplacePOS(0.1), A.ReplacePOS(0.1, tagger="x")),
        (A.Substitute(0.1), A.Substitute(0.1, model="a/copy", vectors="copy.txt")),
    ):
        assert one != other
        assert fingerprint_of(A.Mask(0.1) | one) == fingerprint_of(A.Mask(0.1) | other)


def test_names_in_recipes_and_ops_agree() -> None:
    assert [op_name(leaf) for leaf in TANG.leaves()] == ["mask", "replace_pos", "ngram"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"ngram": {"rate": 25}}], r"steps\[0\]\.ngram: rate is a probability in \[0, 1\], got 25; write 0\.25"),
        ([{"mask": {}}, {"mask": {"rat": 0.1}}], r'steps\[1\]\.mask: unknown key "rat"; did you mean "rate"\?'),
        ([{"maks": {}}], r'steps\[0\]: unknown transform "maks"; did you mean "mask"\?'),
        ([{"mask": {"rate": "high"}}], r"steps\[0\]\.mask, rate: a number, got 'high'"),
        ([{"mask": {"rate": True}}], "a number, got True"),
        ([{"ngram": {"longest": 2.5}}], r"longest: a whole number, got 2\.5"),
        ([{"mask": 0.1}], r"steps\[0\]\.mask: a table of settings, got 0\.1"),
        ([{"mask": {}, "ngram": {}}], r"steps\[0\]: a table of one transform"),
        ([{"choice": {"mask": {}}}], r"steps\[0\]\.choice: a list of transforms"),
        ([{"choice": [{"mask": {"rate": 0.9}}, {"mask": {"rate": 0.9}}]}], r"steps\[0\]\.choice: the rates of a choice sum"),
        ([{"choice": [{"mask": {}}, {"ngram": {}}]}], r"steps\[0\]\.choice: .*chain it"),
        ([{"choice": [{"mask": {}}, {"mask": {"rate": 9}}]}], r"steps\[0\]\.choice\[1\]\.mask: rate"),
        ([{"choice": []}], r"steps\[0\]\.choice: a choice needs at least one"),
        ([], "steps is empty"),
        ([{"replace_pos": {"words": 1}}], r'unknown key "words"'),
    ],
)  # fmt: skip
def test_wrong_steps_are_refused_with_the_place(steps: list[dict], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        from_steps(steps, "recipe.toml, augment")


@pytest.mark.parametrize(
    ("cls", "table", "message"),
    [
        (CorpusSettings, {"txt": "a"}, r'unknown key "txt"; did you mean "text"\?'),
        (CorpusSettings, {"text": "sentence"}, r"text: a list, got 'sentence'; write \['sentence'\]"),
        (CorpusSettings, {"text": ["a", "b", "c"]}, "one or two columns, got 3"),
        (CorpusSettings, {"text": ["a", "a"]}, "names the column 'a' twice"),
        (CorpusSettings, {"text": ["a"], "label": "a"}, "'a' is also a text column"),
        (CorpusSettings, {"task": "regresion"}, "'regression', got 'regresion'; did you mean \"regression\""),
        (CorpusSettings, {"task": "regression", "classes": ["a"]}, "a regression has no classes"),
        (AugmentSettings, {}, 'the key "steps" is required'),
        (AugmentSettings, {"steps": [], "copies": -1}, "copies is a count of at least 0, got -1"),
        (AugmentSettings, {"steps": [], "copies": 1.5}, r"copies: a whole number, got 1\.5"),
        (AugmentSettings, {"steps": [], "guard": 1}, "guard: true or false, got 1"),
        (AugmentSettings, {"steps": [], "shard_rows": 0}, "shard_rows is a count of at least 1"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_with_the_place(cls: type, table: dict, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as error:
        parse(cls, table, "recipe.toml, [x]")
    assert str(error.value).startswith("recipe.toml, [x]")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[corpsu]\n", r'unknown section \[corpsu\]; did you mean "corpus"\?'),
        ("corpus = 3\n", r"corpus is a table; write \[corpus\]"),
        ("[stage]\n", r"stage is a table; write \[\[stage\]\]"),
        ("[corpus\n", "not valid TOML"),
    ],
)
def test_a_wrong_recipe_is_refused(tmp_path: Path, toml: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(toml, encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        read_recipe(path)
    with pytest.raises(SettingsError, match="no such recipe"):
        read_recipe(tmp_path / "absent.toml")


def test_a_recipe_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(b"\xef\xbb\xbf[corpus]\ntext = ['a']\n")
    assert read_recipe(path).section(CorpusSettings, "corpus").text == ("a",)


# All but general distillation's, which read raw text: no corpus, nothing to augment.
RECIPES = [
    path
    for path in sorted((Path(__file__).parents[2] / "corpora" / "recipes").glob("*.toml"))
    if "corpus" in read_recipe(path).tables
]


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_the_shipped_recipes_are_valid(path: Path) -> None:
    recipe = read_recipe(path)
    corpus = recipe.section(CorpusSettings, "corpus")
    chain = from_steps(recipe.section(AugmentSettings, "augment").steps, str(path))
    assert from_steps(to_steps(chain)) == chain
    if corpus.name is None:
        assert recipe.resolve(corpus.train).is_file()


def test_there_are_recipes_to_check() -> None:
    assert len(RECIPES) > 20


def test_a_or_b_then_c_without_parentheses_raises_and_writes_what_was_meant() -> None:
    with pytest.raises(TypeError) as error:
        A.Mask(0.1) | A.ReplacePOS(0.1) >> A.SampleNGram(0.25)
    assert "write (Mask(0.1) | ReplacePOS(0.1)) >> SampleNGram(0.25)" in str(error.value)
    with pytest.raises(TypeError) as error:
        A.Mask(0.1) | A.Mask(0.2) | A.ReplacePOS(0.1) >> A.SampleNGram(0.25) >> A.Mask(0.3)
    assert (
        "write (Mask(0.1) | Mask(0.2) | ReplacePOS(0.1)) >> SampleNGram(0.25) >> Mask(0.3)"
    ) in str(error.value)
