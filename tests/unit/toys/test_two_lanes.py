from __future__ import annotations

import pytest

from rlrun.toys.two_lanes import TwoLanes


def test_the_fast_lane_drives_two_cells_and_costs_by_the_cell() -> None:
    env = TwoLanes(num_cells=5, episode_len=4)
    env.reset(seed=0)
    steps = [env.step(action) for action in (0, 1, 0, 1)]  # cells 0, 1, 3 and 0: slow, fast, fast, slow
    assert [reward for _, reward, *_ in steps] == [1.0, 2.0, 2.0, 1.0]
    assert [info["cost"] for *_, info in steps] == [0.0, 1.0, 1.0, 0.0]
    assert [over for *_, over, _, _ in steps] == [False, False, False, True]
    assert steps[-1][0].tolist() == pytest.approx([0, 1, 0, 0, 0, 0, 1])


def test_a_calm_cell_costs_less() -> None:
    env = TwoLanes(num_cells=5)
    env.reset(seed=0)
    assert env.step(1)[-1] == {"cost": 0.2}
