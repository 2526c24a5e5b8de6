"""AdaDelta with sleeping rows equals the dense one."""

import pytest
import torch

from distill.adadelta import AdaDelta


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_that_slept_catch_up_exactly(sparse: bool) -> None:
    torch.manual_seed(0)
    ours = torch.nn.Parameter(torch.randn(50, 4, dtype=torch.float64))
    dense = torch.nn.Parameter(ours.detach().clone())
    mine, torchs = AdaDelta([ours]), torch.optim.Adadelta([dense], lr=1.0, rho=0.95, eps=1e-6)
    for _ in range(200):
        rows = torch.randint(0, 50, (4,))
        for table, optimiser, rare in ((ours, mine, sparse), (dense, torchs, False)):
            read = torch.nn.functional.embedding(rows, table, sparse=rare)
            optimiser.zero_grad()
            (read.square() - 1).square().sum().backward()
            optimiser.step()
    torch.testing.assert_close(ours, dense, rtol=0, atol=1e-12)
