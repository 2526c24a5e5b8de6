"""The tagger's matrix products: equal to numpy's but for rounding, and blind to what is beside."""

import numpy as np
import pytest

from augment.annotate.products import Blocks
from augment.machine import threads

WIDTHS = ((96, 50), (288, 288), (480, 288))
DRAWS = np.random.default_rng(0)


def matrices(rows: int, inner: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    left = DRAWS.standard_normal((rows, inner), dtype=np.float32)
    return left, DRAWS.standard_normal((columns, inner), dtype=np.float32)


@pytest.mark.parametrize(("inner", "columns"), WIDTHS)
@pytest.mark.parametrize("rows", [0, 1, 127, 128, 129, 700])
def test_products_are_right_in_every_orientation(rows: int, inner: int, columns: int) -> None:
    x, y = matrices(rows, inner, columns)
    ops = Blocks()
    want = x.astype(float) @ y.T.astype(float)
    for got in (
        ops.gemm(x, y, trans2=True),
        ops.gemm(x, np.ascontiguousarray(y.T)),
        ops.gemm(np.ascontiguousarray(x.T), y, trans1=True, trans2=True),
        ops.gemm(x, y, trans2=True, out=np.empty((rows, columns), np.float32)),
    ):
        assert got.shape == want.shape
        assert np.allclose(got, want, atol=1e-3)


@pytest.mark.parametrize(("inner", "columns"), WIDTHS)
def test_a_rows_bits_do_not_depend_on_the_rows_beside_it(inner: int, columns: int) -> None:
    x, y = matrices(1000, inner, columns)
    ops = Blocks()
    with threads(1):
        whole = ops.gemm(x, y, trans2=True)
        for rows in (1, 2, 63, 64, 100, 129, 500):
            for first in (0, 17, 401):
                part = np.ascontiguousarray(x[first : first + rows])
                assert (
                    ops.gemm(part, y, trans2=True).tobytes()
                    == whole[first : first + rows].tobytes()
                )
