"""Draws: pinned values, uniformity, and independence between every two places."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from augment.batch import TokenBatch
from augment.draws import Draws, Place, mix

N = 100_000
ROWS = np.arange(N, dtype=np.uint64)
ONES = np.ones(N, np.int32)


def at(
    seed: int = 0, place: int = 0, column: int = 0, rows: np.ndarray = ROWS, copies: object = 1
) -> Draws:
    return Draws.at(seed, place, column, rows, np.broadcast_to(np.int32(copies), rows.shape))


def tokens(draws: Draws, length: int) -> np.ndarray:
    """Return the draws of rows of equal length, (N, length)."""
    offsets = length * np.arange(len(draws.keys) + 1, dtype=np.int64)
    return draws.tokens(offsets).reshape(len(draws.keys), length)


def test_the_mixer_is_the_published_one() -> None:
    # The first outputs of SplitMix64 from seed 1234567, as printed at rosettacode.org.
    gamma = 0x9E3779B97F4A7C15
    state = np.array([(1234567 + i * gamma) % 2**64 for i in range(1, 6)], np.uint64)
    assert mix(state).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


GOLDEN_TOKENS = [
    "0x1.155be99267c08p-2",
    "0x1.c64206d58bbaep-1",
    "0x1.eca054d80b606p-1",
    "0x1.85eeed3893014p-3",
    "0x1.b2c540e8614e4p-2",
]
GOLDEN_ROWS = [
    "0x1.b76a9c5bc1800p-3",
    "0x1.c546296a0fc6fp-1",
    "0x1.61fe3c7743776p-1",
    "0x1.0f329bb1a6cd1p-1",
]


def test_golden_draws_do_not_change_between_versions() -> None:
    draws = Draws.at(
        7, 2, 1, np.array([0, 1, 2**63, 2**64 - 1], np.uint64), np.array([0, 1, 2, 20], np.int32)
    )
    drawn = draws.tokens(np.array([0, 2, 2, 3, 5], np.int64))
    assert [x.hex() for x in drawn.tolist()] == GOLDEN_TOKENS
    assert [x.hex() for x in draws.rows().tolist()] == GOLDEN_ROWS


def test_negative_seeds_are_seeds_too() -> None:
    few = np.arange(5, dtype=np.uint64)
    assert at(seed=-1, rows=few).keys.tolist() == at(seed=2**64 - 1, rows=few).keys.tolist()
    assert at(seed=-1, rows=few).keys.tolist() != at(seed=1, rows=few).keys.tolist()


def test_draws_lie_in_the_unit_interval_and_are_uniform() -> None:
    u = tokens(at(seed=3), 10).ravel()
    assert u.min() >= 0
    assert u.max() < 1
    assert kstest(u, "uniform").pvalue > 1e-4
    assert kstest(at(seed=3).rows(), "uniform").pvalue > 1e-4


def test_draws_of_some_positions_are_those_of_all_positions() -> None:
    few = np.arange(50, dtype=np.uint64)
    table = tokens(at(rows=few), 12)
    rng = np.random.default_rng(0)
    row, position = rng.integers(0, 50, 300), rng.integers(0, 12, 300)
    assert at(rows=few).at_positions(row, position).tolist() == table[row, position].tolist()


def test_draws_do_not_depend_on_the_rows_beside_them() -> None:
    lengths = np.random.default_rng(1).integers(0, 9, 10_000)  # more rows than one block
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    rows = np.arange(10_000, dtype=np.uint64)
    whole = at(rows=rows).tokens(offsets)
    for first, last in ((0, 1), (4095, 4097), (3, 9000), (9999, 10_000)):
        part = at(rows=rows[first:last])
        expected = whole[offsets[first] : offsets[last]].tolist()
        assert part.tokens(offsets[first : last + 1] - offsets[first]).tolist() == expected
        assert part.tokens(offsets[first : last + 1]).tolist() == expected


def test_no_rows_draw_nothing() -> None:
    none = at(rows=np.zeros(0, np.uint64))
    assert none.rows().tolist() == []
    assert none.tokens(np.zeros(1, np.int64)).tolist() == []


def test_place_hands_its_coordinates_to_the_draws() -> None:
    empty = np.zeros(3, np.int32)
    rows = np.arange(3, dtype=np.uint64)
    import pyarrow as pa

    batch = TokenBatch(
        rows, np.array([1, 2, 3], np.int32), np.zeros(4, np.int64), empty[:0], empty[:0], empty,
        pa.array([""], pa.large_string()),
    )  # fmt: skip
    here = Place(seed=5, column=1, number=2).after(3)
    expected = Draws.at(5, 5, 1, rows, batch.copies)
    assert here.draws(batch).keys.tolist() == expected.keys.tolist()


def streams() -> dict[str, np.ndarray]:
    """Draws that differ in one coordinate each, (N,) uniforms, all of the same rows."""
    base = tokens(at(seed=7), 8)
    return {
        "position 0": base[:, 0],
        "position 1": base[:, 1],
        "position 2": base[:, 2],
        "position 7": base[:, 7],
        "copy 2": tokens(at(seed=7, copies=2), 1)[:, 0],
        "copy 3": tokens(at(seed=7, copies=3), 1)[:, 0],
        "column 1": tokens(at(seed=7, column=1), 1)[:, 0],
        "place 1": tokens(at(seed=7, place=1), 1)[:, 0],
        "seed 8": tokens(at(seed=8), 1)[:, 0],
        "next row": tokens(at(seed=7, rows=ROWS + np.uint64(1)), 1)[:, 0],
        "per row": at(seed=7).rows(),
        "lane 1, per row": at(seed=7).lane(1).rows(),
        "lane 2, per row": at(seed=7).lane(2).rows(),
        "lane 1, position 0": tokens(at(seed=7).lane(1), 2)[:, 0],
        "lane 1, position 1": tokens(at(seed=7).lane(1), 2)[:, 1],
    }


STREAMS = streams()


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(STREAMS, 2)))
def test_draws_of_two_places_are_independent(one: str, other: str) -> None:
    u, v = STREAMS[one], STREAMS[other]
    # Correlation of N independent pairs has standard error 1/sqrt(N); 105 pairs, so five of them.
    assert abs(np.corrcoef(u, v)[0, 1]) < 5 / np.sqrt(N)
    joint = np.histogram2d(u, v, bins=8, range=[[0, 1], [0, 1]])[0]
    assert chisquare(joint.ravel()).pvalue > 1e-6


def test_a_low_draw_says_nothing_about_the_draw_behind_it() -> None:
    # What is chosen (u < rate) must not bend what it is replaced by (a lane of the same place).
    wide = tokens(at(seed=9), 10)
    behind = tokens(at(seed=9).lane(1), 10)
    for position in (0, 1, 9):
        picked = behind[wide[:, position] < 0.1, position]
        assert kstest(picked, "uniform").pvalue > 1e-4


def test_edits_of_neighbouring_words_meet_as_often_as_chance_says() -> None:
    picked = tokens(at(seed=10), 20) < 0.1
    pairs = picked[:, 1:] & picked[:, :-1]
    # Pairs overlap, so take every other one.
    apart = pairs[:, ::2]
    error = np.sqrt(0.01 * 0.99 / apart.size)
    assert abs(apart.mean() - 0.01) < 4 * error


def test_row_ids_far_apart_or_alike_in_their_low_bits_draw_apart() -> None:
    few = np.arange(1, 1000, dtype=np.uint64)
    sets = [few, few << np.uint64(32), few << np.uint64(50), ~few]
    drawn = np.concatenate([at(rows=r).rows() for r in sets])
    assert len(np.unique(drawn)) == len(drawn)


@pytest.mark.parametrize("limit", [0.0, 1e-9, 0.1, 0.3, 1 - 2**-53, 1.0])
def test_below_finds_what_looking_through_all_tokens_finds(limit: float) -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2**63, 9000).astype(np.uint64)
    offsets = np.append(0, np.cumsum(rng.integers(0, 4, 9000)))
    draws = at(seed=4, rows=rows)
    all_of_them = draws.tokens(offsets)
    found, u = draws.below(offsets, limit)
    assert found.tolist() == np.flatnonzero(all_of_them < limit).tolist()
    assert u.tolist() == all_of_them[found].tolist()


def test_below_of_no_rows_is_nothing() -> None:
    found, u = at(rows=ROWS[:0]).below(np.zeros(1, np.int64), 0.5)
    assert found.tolist() == u.tolist() == []
