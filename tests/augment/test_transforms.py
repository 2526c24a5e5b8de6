"""The catalogue keeps its laws, and each transform does what it says."""

from collections import Counter
from collections.abc import Callable
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import augment as A
from augment.batch import TokenBatch, cut
from augment.draws import Place
from augment.errors import NotFittedError, SettingsError
from augment.transforms import CATALOGUE
from augment.transforms.protocol import extend
from augment.transforms.replace import WordsByTag
from tests.augment.corpus_rows import HARD_TEXTS, REVIEWS
from tests.augment.laws import LAWS, annotated, example, fit

TEXTS = [*(row["text"] for row in REVIEWS), *HARD_TEXTS]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_transform_keeps(
    name: str, law: Callable[[A.Transform, list[str]], None], tagger: str
) -> None:
    law(example(name, tagger), TEXTS)


# A million words without a tokenizer: 50,000 rows of 20 words, by a law we know.
ROWS, LENGTH = 50_000, 20
TOKENS = ROWS * LENGTH
WORDS = np.array([f"w{i:02d}" for i in range(40)])
TAGS = ("A", "B", "C")


@pytest.fixture(scope="module")
def million() -> TokenBatch:
    """A tagged batch: word i is Zipf-like, its tag follows from the word."""
    rng = np.random.default_rng(11)
    chance = 1 / np.arange(1, len(WORDS) + 1)
    code = rng.choice(len(WORDS), (ROWS, LENGTH), p=chance / chance.sum())
    text = pa.array([" ".join(row) for row in WORDS[code]], pa.large_string())
    starts = 4 * np.arange(LENGTH)
    bounds = np.tile(np.stack([starts, starts + 3], axis=1).ravel(), ROWS)
    batch = cut(text, bounds, np.full(ROWS, LENGTH))
    from dataclasses import replace

    tags = (code.ravel() % len(TAGS)).astype(np.int32)
    return replace(batch, copies=np.ones(ROWS, np.int32), tags=tags, tag_names=TAGS)


def strings(batch: TokenBatch) -> np.ndarray:
    return np.array(batch.table.take(pa.array(batch.words)).to_pylist())


def within(observed: int, trials: int, rate: float, errors: float = 4.0) -> bool:
    """Whether a count lies within four standard errors of what its rate promises."""
    return abs(observed / trials - rate) <= errors * sqrt(rate * (1 - rate) / trials)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.4])
def test_masks_occur_at_their_rate_over_a_million_words(million: TokenBatch, rate: float) -> None:
    done = A.Mask(rate).apply(million, Place(seed=1))
    masked = strings(done) == "[MASK]"
    assert len(masked) == TOKENS
    assert within(masked.sum(), TOKENS, rate)
    for position in (0, 1, LENGTH - 1):
        assert within(masked[position::LENGTH].sum(), ROWS, rate)


def new_words() -> WordsByTag:
    """Words that the corpus lacks, so that every replacement can be seen; word i occurs 1 + i times."""
    rows = [{"tag": t, "word": f"new-{t}-{i}", "count_all": 1 + i} for t in TAGS for i in range(3)]
    return WordsByTag.of(pa.Table.from_pylist(rows))


def test_a_choice_masks_and_replaces_at_both_rates_and_never_the_same_word(
    million: TokenBatch,
) -> None:
    choice = A.Choice([A.Mask(0.1), A.ReplacePOS(0.2, words=new_words())])
    words = strings(choice.apply(million, Place(seed=2)))
    masked, replaced = words == "[MASK]", np.char.startswith(words, "new-")
    assert within(masked.sum(), TOKENS, 0.1)
    assert within(replaced.sum(), TOKENS, 0.2)
    kept = ~masked & ~replaced
    assert (words[kept] == strings(million)[kept]).all()


def test_what_a_word_is_replaced_by_does_not_depend_on_the_draw_that_picked_it(
    million: TokenBatch,
) -> None:
    # At a small rate every draw that picks is small; it must not serve to choose the word too.
    replacing = A.ReplacePOS(0.1, words=new_words())
    for choice in (replacing | A.Mask(0.1), A.Mask(0.1) | replacing):
        words = strings(choice.apply(million, Place(seed=2)))
        for tag in TAGS:
            seen = np.array([(words == f"new-{tag}-{i}").sum() for i in range(3)])
            assert chisquare(seen, seen.sum() * np.array([1, 2, 3]) / 6).pvalue > 1e-4


def test_choosing_uses_one_draw_so_the_first_part_does_not_feel_the_second(
    million: TokenBatch,
) -> None:
    fitted = A.ReplacePOS(0.3).fitted([million])
    alone = strings(A.Mask(0.1).apply(million, Place(seed=3)))
    chosen = strings((A.Mask(0.1) | fitted).apply(million, Place(seed=3)))
    assert ((alone == "[MASK]") == (chosen == "[MASK]")).all()


def test_replacements_follow_the_unigram_distribution_of_their_tag(million: TokenBatch) -> None:
    fitted = A.ReplacePOS(1.0).fitted([million])
    before, after = strings(million), strings(fitted.apply(million, Place(seed=4)))
    tags = million.tags
    for number in range(len(TAGS)):
        of_tag = tags == number
        corpus, drawn = Counter(before[of_tag].tolist()), Counter(after[of_tag].tolist())
        assert set(drawn) == set(corpus), "every word of the tag occurs, and no other"
        words = sorted(corpus)
        seen = np.array([drawn[w] for w in words])
        expected = np.array([corpus[w] for w in words])
        assert chisquare(seen, expected).pvalue > 1e-4


def test_a_replacement_does_not_depend_on_the_word_it_replaces(million: TokenBatch) -> None:
    fitted = A.ReplacePOS(1.0).fitted([million])
    before, after = strings(million), strings(fitted.apply(million, Place(seed=5)))
    of_tag = np.asarray(million.tags) == 0
    same = (before[of_tag] == after[of_tag]).sum()
    share = np.array(list(Counter(before[of_tag].tolist()).values())) / of_tag.sum()
    assert within(same, int(of_tag.sum()), float((share**2).sum()))


def test_a_word_of_a_tag_the_corpus_lacks_stays(million: TokenBatch) -> None:
    only_a = million.take(np.arange(2000))
    table = pa.table({"tag": ["A"], "word": ["new"], "count_all": [1]})
    after = strings(A.ReplacePOS(1.0, words=WordsByTag.of(table)).apply(only_a, Place(seed=1)))
    is_a = np.asarray(only_a.tags) == 0
    assert (after[is_a] == "new").all()
    assert (after[~is_a] == strings(only_a)[~is_a]).all()


def test_words_are_counted_over_all_batches_of_the_corpus(million: TokenBatch) -> None:
    whole = WordsByTag.count([million])
    parts = WordsByTag.count(
        [million.take(np.arange(a, a + 10_000)) for a in range(0, ROWS, 10_000)]
    )
    assert parts.words.to_pylist() == whole.words.to_pylist()
    assert parts.tags == whole.tags
    assert parts.total.tolist() == whole.total.tolist()


def test_ngrams_occur_at_their_rate(million: TokenBatch) -> None:
    done = A.SampleNGram(0.25).apply(million, Place(seed=6))
    assert within(int((done.lengths < LENGTH).sum()), ROWS, 0.25)


def test_the_length_of_an_ngram_is_uniform(million: TokenBatch) -> None:
    lengths = A.SampleNGram(1.0, longest=5).apply(million, Place(seed=7)).lengths
    seen = np.bincount(lengths, minlength=6)[1:]
    assert seen.sum() == ROWS
    assert len(seen) == 5
    assert chisquare(seen).pvalue > 1e-4


def test_every_position_of_an_ngram_is_as_likely_and_the_last_one_is_reached() -> None:
    rows, length = 60_000, 8
    text = pa.array([" ".join(map(str, range(length)))] * rows, pa.large_string())
    starts = 2 * np.arange(length)
    bounds = np.tile(np.stack([starts, starts + 1], axis=1).ravel(), rows)
    batch = cut(text, bounds, np.full(rows, length))
    done = A.SampleNGram(1.0, longest=3).apply(batch, Place(seed=8))
    first = strings(done)[done.offsets[:-1]].astype(int)
    for n in (1, 2, 3):
        seen = np.bincount(first[done.lengths == n], minlength=length)
        assert (seen[: length - n + 1] > 0).all()
        assert not seen[length - n + 1 :].any()
        assert chisquare(seen[: length - n + 1]).pvalue > 1e-4


def test_an_ngram_of_a_short_row_is_at_most_the_row() -> None:
    batch = annotated(A.Mask(), ["one", "one two", " one  two three "])
    many = batch.take(np.repeat(np.arange(3), 500), np.tile(np.arange(1, 501, dtype=np.int32), 3))
    done = A.SampleNGram(1.0, longest=5).apply(many, Place(seed=9))
    assert set(done.text()[:500].to_pylist()) == {"one"}
    assert set(done.text()[500:1000].to_pylist()) == {"one", "two", "one two"}
    assert set(done.text()[1000:].to_pylist()) == {
        "one", "two", "three", "one  two", "two three", " one  two three ",
    }  # fmt: skip


def test_masking_a_mask_counts_as_untouched() -> None:
    batch = annotated(A.Mask(), ["x"])
    codes, table = extend(batch.table, pa.array(["[MASK]"]))
    batch = batch.with_words(np.array([0]), codes, table, 5)
    assert A.Mask(1.0).apply(batch, Place(1)).edits.tolist() == [1 << 5]


def test_replacing_before_fitting_is_an_error_that_says_so(tagger: str) -> None:
    with pytest.raises(NotFittedError, match=r"ReplacePOS\(0\.5.*call fit\(texts\) first"):
        A.ReplacePOS(0.5, tagger=tagger)("Some words.")


def test_fitting_returns_a_new_transform_and_leaves_the_old_one_unfitted(tagger: str) -> None:
    plain = A.ReplacePOS(0.5, tagger=tagger)
    fitted = plain.fit([row["text"] for row in REVIEWS])
    assert plain.words is None
    assert fitted.words is not None
    assert len(fitted.words.words) > 100


def test_fitting_learns_the_same_words_from_every_kind_of_source(tagger: str) -> None:
    import datasets

    texts = [row["text"] for row in REVIEWS]
    column = datasets.Dataset.from_list(REVIEWS)["text"]
    plain = A.ReplacePOS(0.5, tagger=tagger)
    tables = [plain.fit(t).words for t in (texts, column, pa.array(texts), iter(texts))]
    assert all(t.words.to_pylist() == tables[0].words.to_pylist() for t in tables)
    assert all(t.total.tolist() == tables[0].total.tolist() for t in tables)


def test_a_chain_fits_all_its_parts(tagger: str) -> None:
    chain = (A.Mask(0.1) | A.ReplacePOS(0.9, tagger=tagger)) >> A.SampleNGram(0.5)
    fitted = fit(chain, TEXTS)
    assert fitted == chain
    assert fitted("A short test of words.", copies=2)


def test_white_space_is_no_word_and_is_never_masked() -> None:
    text = "a  b\t\tc \n d\u00a0e  "
    assert A.Mask(1.0)(text) == ["[MASK]  [MASK]\t\t[MASK] \n [MASK]\u00a0[MASK]  "]


def test_a_chain_reads_one_tagger() -> None:
    chain = A.ReplacePOS(0.1, tagger="x") | A.ReplacePOS(0.1, tagger="y")
    with pytest.raises(SettingsError, match="one chain reads one tagger, got x, y"):
        _ = chain.tagger_name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: A.Mask(25), r"rate is a probability in \[0, 1\], got 25; write 0\.25"),
        (lambda: A.Mask(-0.1), r"rate is a probability in \[0, 1\], got -0\.1$"),
        (lambda: A.Mask(float("nan")), "got nan"),
        (lambda: A.ReplacePOS(1.5), r"got 1\.5; write 0\.015"),
        (
            lambda: A.SampleNGram(0.5, longest=0),
            "longest is a number of words of at least 1, got 0",
        ),
    ],
)
def test_a_setting_out_of_range_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
