from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
import torch

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.data_parallel.all_reduce import PeerLost
from rlrun.engine.learner.data_parallel.parameter_server import (
    ParameterServers,
    ParameterShard,
    full_optimizer_state,
    shard_configs,
)
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from tests.policies import plain_policy
from tests.rounding import rounding_error


def policy_loss(outputs, batch, scheduled):
    log_probs = outputs.distribution.log_prob(batch["actions"])
    loss = -masked_mean(log_probs * batch["advantages"], batch["valid"].float())
    return Loss(loss, {"policy_loss": loss})


def value_loss(outputs, batch, scheduled):
    loss = masked_mean((outputs.values - batch["advantages"]).square(), batch["valid"].float())
    return Loss(loss, {"value_loss": loss})


def both_losses(outputs, batch, scheduled):
    policy, value = policy_loss(outputs, batch, scheduled), value_loss(outputs, batch, scheduled)
    return Loss(policy.total + value.total, {**policy.statistics, **value.statistics})


def one_objective(bound):
    return [Objective("loss", both_losses, max_grad_norm=bound)]


def two_objectives(bound):
    return [
        Objective("value", value_loss, parameters="value_", max_grad_norm=bound),
        Objective("policy", policy_loss, parameters="policy_", max_grad_norm=bound, every=2),
    ]


def policy():
    return plain_policy(
        ActorCriticPolicy,
        gymnasium.spaces.Box(-1, 1, (3,)),
        gymnasium.spaces.Discrete(2),
        ModelConfig(hiddens=(32,)),
        seed=1,
    )


def learner_for(objectives, **more):
    settings = {"device": "cpu", "update_executor": "eager", "seed": 3, **more}
    return LocalLearner(policy(), objectives, **settings)


def shards_for(objectives, num_shards, num_learners=1, timeout_s=30.0):
    configs = shard_configs(policy(), objectives, num_shards, num_learners, timeout_s)
    shards = [ParameterShard(config) for config in configs]
    for shard in shards:
        shard.load_flat(learner_for(objectives).flat())
    return configs, shards


def served(objectives, configs, shards, rank=0, **more):
    """Returns a learner whose calls to the shards run side by side, as they do in actors."""

    def ask(method, arguments):
        with ThreadPoolExecutor(len(arguments)) as threads:
            calls = {index: threads.submit(getattr(shards[index], method), *own) for index, own in arguments.items()}
            return {index: call.result() for index, call in calls.items()}

    return learner_for(objectives, reducer=ParameterServers(configs, rank, ask), **more)


def batch_of(rows, seed=0):
    rng = np.random.default_rng(seed)
    return SampleBatch(
        obs=rng.normal(size=(rows, 1, 3)).astype(np.float32),
        actions=rng.integers(0, 2, (rows, 1)),
        advantages=rng.normal(size=(rows, 1)).astype(np.float32),
        valid=rng.random((rows, 1)) < 0.7,
    ).zero_invalid()


def learn(learner, updates=range(4)):
    """Runs 5 updates for each number."""
    for seed in updates:
        scheduled = {"lr": 1e-2 / (1 + seed)}
        learner.learn(batch_of(50, seed), num_epochs=1, minibatch_size=10, scheduled=scheduled)
    return learner.flat()


@pytest.mark.parametrize("objectives", [one_objective, two_objectives])
@pytest.mark.parametrize("bound", [None, 0.2])
@pytest.mark.parametrize("num_shards", [1, 2, 3])
def test_one_learner_with_servers_is_a_learner_alone_to_the_last_bit(objectives, bound, num_shards):
    alone = learner_for(objectives(bound))
    configs, shards = shards_for(objectives(bound), num_shards)
    remote = served(objectives(bound), configs, shards)
    np.testing.assert_array_equal(learn(remote), learn(alone))
    assert alone.sgd_steps == 20
    statistics = remote.take_statistics()
    assert statistics == pytest.approx(alone.take_statistics(), rel=rounding_error(20))
    assert len(statistics) == (3 if objectives is one_objective else 4)
    state = full_optimizer_state([shard.optimizer_state() for shard in shards])
    expected = alone.optimizer_state()
    assert list(state) == list(expected)
    assert all(np.array_equal(state[name], expected[name]) for name in expected)


def test_microbatches_change_nothing_about_that():
    alone = learner_for(one_objective(0.2), microbatch_size=4)
    remote = served(one_objective(0.2), *shards_for(one_objective(0.2), 2), microbatch_size=4)
    np.testing.assert_array_equal(learn(remote), learn(alone))


def test_two_learners_with_servers_are_one_on_the_whole():
    objectives = one_objective(0.2)
    alone = learner_for(objectives)
    configs, shards = shards_for(objectives, 3, num_learners=2)
    pair = [served(objectives, configs, shards, rank, share=(rank, 2)) for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(learn, pair)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, learn(alone), atol=rounding_error(10 + 20))
    statistics = [learner.take_statistics() for learner in pair]
    assert statistics[0] == statistics[1] == pytest.approx(alone.take_statistics(), abs=rounding_error(10 + 20))


def test_fresh_servers_go_on_from_what_others_have_held():
    objectives = one_objective(0.2)
    alone = learner_for(objectives)
    learn(alone, range(2))
    configs, shards = shards_for(objectives, 3)
    for shard in shards:
        shard.load_flat(alone.flat())
        shard.load_optimizer_state(alone.optimizer_state())
    remote = served(objectives, configs, shards)
    remote.load_flat(alone.flat())
    remote.load_state(alone.state())
    np.testing.assert_array_equal(learn(remote, range(2, 4)), learn(alone, range(2, 4)))


def test_slices_lie_side_by_side_and_may_be_empty():
    size = policy().parameters.size
    for num_shards in (1, 3, 9):
        configs = shard_configs(policy(), one_objective(None), num_shards, 1, 1.0)
        numbers = [number for config in configs for number in range(config.start, config.stop)]
        assert numbers == list(range(size))
    assert (configs[-1].start, configs[-1].stop) == (size, size)


def test_a_server_gives_a_learner_up_that_does_not_deliver(wording):
    _, (shard,) = shards_for(one_objective(None), 1, num_learners=2, timeout_s=0.1)
    gradient = torch.zeros(shard._config.stop).numpy()
    with wording.raised(PeerLost, "0.1"):
        shard.mean(gradient, 1.0)
    with pytest.raises(PeerLost, match="timed out"):
        shard.deliver(1, gradient, 1.0)
