import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.operators.advantages import with_advantages
from rlrun.engine.functional.masked import standardized
from rlrun.engine.functional.tensor_returns import final_values, tensor_gae, tensor_standardized
from rlrun.engine.reward_streams.streams import ENV_ALONE

GAMMA, LAMBDA = 0.9, 0.8


def fragment(seed: int, length: int = 12) -> dict[str, NDArray[np.float64]]:
    """Columns [T, 1] of one env slot, with ends of both kinds."""
    draws = np.random.default_rng(seed)
    ended = draws.random((2, length, 1)) < 0.25
    return {
        "rewards": draws.normal(size=(length, 1)),
        "values": draws.normal(size=(length + 1, 1)),
        "final_values": draws.normal(size=(length, 1)),
        "terminateds": ended[0],
        "truncateds": ended[1],
    }


def as_next_step(columns: dict[str, NDArray[np.float64]]) -> SampleBatch:
    """The same fragment as NumPy envs record it: after an end a row with the final observation."""
    rows: dict[str, list[float]] = {name: [] for name in ("rewards", "values", "terminateds", "truncateds", "valid")}
    for t in range(len(columns["rewards"])):
        reward, value, final, terminated, truncated = (
            columns[name][t, 0] for name in ("rewards", "values", "final_values", "terminateds", "truncateds")
        )
        for name, number in zip(rows, (reward, value, terminated, truncated, True), strict=True):
            rows[name].append(number)
        if terminated or truncated:
            for name, number in zip(rows, (0.0, final, False, False, False), strict=True):
                rows[name].append(number)
    rows["values"].append(columns["values"][-1, 0])
    flags = ("terminateds", "truncateds", "valid")
    return SampleBatch({name: np.array(own, bool if name in flags else float)[:, None] for name, own in rows.items()})


@pytest.mark.parametrize("seed", range(5))
def test_advantages_in_torch_equal_those_of_the_same_episodes_in_numpy(seed: int) -> None:
    columns = fragment(seed)
    tensors = {name: torch.from_numpy(column) for name, column in columns.items()}
    advantages, targets = tensor_gae(**tensors, gamma=GAMMA, gae_lambda=LAMBDA)
    batch = as_next_step(columns)
    expected = with_advantages(batch, ENV_ALONE.all(GAMMA, LAMBDA)[0])
    steps = batch["valid"][:, 0]
    np.testing.assert_allclose(advantages[:, 0], expected["advantages"][steps, 0], rtol=1e-12)
    np.testing.assert_allclose(targets[:, 0], expected["value_targets"][steps, 0], rtol=1e-12)


def test_final_values_come_from_the_final_observation_the_step_itself_or_the_next_row() -> None:
    finals = {
        "index": torch.tensor([2]),  # row 1 of slot 0
        "obs": torch.tensor([[7.0]]),
        "state": torch.zeros((1, 0)),
        "before": torch.tensor([[False, True], [False, False]]),
    }
    batch = {"values": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), "finals": finals}
    found = final_values(batch, lambda obs, state, starts: {"values": 10 * obs[:, 0]})
    assert found.tolist() == [[1.0, 4.0], [70.0, 4.0]]


def test_standardized_tensors_equal_standardized_arrays() -> None:
    draws = np.random.default_rng(0)
    numbers, valid = draws.normal(3, 2, (5, 4)).astype(np.float32), draws.random((5, 4)) < 0.7
    found = tensor_standardized(torch.from_numpy(numbers), torch.from_numpy(valid))
    np.testing.assert_allclose(found.numpy(), standardized(numbers, valid), rtol=1e-6)
