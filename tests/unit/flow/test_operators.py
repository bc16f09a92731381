import numpy as np
import pytest

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.operators import ComputeAdvantages, ConcatBatches, Standardize
from rlrun.flow.sources import from_items


def fragment(time=4, columns=2, reward=1.0):
    return SampleBatch(
        obs=np.zeros((time + 1, columns, 3), np.float32),
        values=np.zeros((time + 1, columns), np.float32),
        rewards=np.full((time, columns), reward, np.float32),
        terminateds=np.zeros((time, columns), bool),
        truncateds=np.zeros((time, columns), bool),
        valid=np.ones((time, columns), bool),
    )


def test_advantages_are_added_and_the_fragment_stays_as_it_was():
    item = fragment(time=2, columns=1)
    done = ComputeAdvantages(gamma=0.5, gae_lambda=1.0)(item)
    assert done["advantages"][:, 0].tolist() == [1.5, 1.0]
    assert done["value_targets"][:, 0].tolist() == [1.5, 1.0]
    assert "advantages" not in item


def test_fragments_are_gathered_until_they_fill_a_batch():
    sizes = [batch.num_rows for batch in from_items([fragment()] * 7).combine(ConcatBatches(20))]
    assert sizes == [24, 24]


def test_a_half_full_batch_survives_a_round_trip_through_its_state():
    first, second = ConcatBatches(16), ConcatBatches(16)
    assert list(first(fragment(reward=1.0))) == []
    second.load_state(first.state())
    (batch,) = second(fragment(reward=2.0))
    assert batch["rewards"][0].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert second.state() == {"waiting": []}


def test_standardising_counts_valid_steps_only():
    item = fragment()
    item["advantages"] = np.arange(8, dtype=np.float32).reshape(4, 2)
    item["valid"][3] = False
    done = Standardize("advantages")(item)["advantages"]
    assert done[:3].mean() == pytest.approx(0.0, abs=1e-6)
    assert done[:3].std() == pytest.approx(1.0, abs=1e-6)
    assert done[3].tolist() == [0.0, 0.0]
