import numpy as np
import torch

from rlrun import ApexDDPG, Training
from rlrun.algorithms.dqn.apex import InitialPriorities
from rlrun.engine.data.sample_batch import SampleBatch
from tests.rounding import rounding_error

PENDULUM = {"id": "Pendulum-v1", "max_episode_steps": 25}
SMALL = {
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 5,
    "model": {"hiddens": [8]},
    "minibatch_size": 8,
    "learning_starts": 40,
    "min_env_steps_per_iteration": 100,
    "replay": {"capacity": 400, "sampling": "prioritized"},
    "compile": False,
}
NEAR = rounding_error(3 + 8 + 4 + 8)  # inputs of the layers of the actor and of the critic


def test_workers_record_critic_values_of_the_action_taken_and_of_the_actors_action():
    with Training(PENDULUM, ApexDDPG(**SMALL), seed=1) as training:
        training.start()
        policy = training.running.trainee.learner.policy
        generator = np.random.default_rng(0)
        flat = generator.normal(size=training.running.trainee.learner.flat().shape).astype(np.float32)
        behavior = policy.behavior()
        behavior.network.load(flat)
        behavior.collector.recording.load(flat)
        batch = SampleBatch(
            obs=generator.normal(size=(6, 2, 3)).astype(np.float32),
            actions=generator.uniform(-1, 1, (5, 2, 1)).astype(np.float32),
            rewards=generator.normal(size=(5, 2)).astype(np.float32),
            terminateds=np.zeros((5, 2), np.bool_),
            truncateds=np.zeros((5, 2), np.bool_),
            valid=np.ones((5, 2), np.bool_),
        )
        behavior.collector.postprocess(batch)
        outputs = policy.outputs(policy.parameters.views(torch.from_numpy(flat)), batch)
        obs, actions = torch.from_numpy(batch["obs"]), torch.from_numpy(batch["actions"])
        own = outputs.values(obs, outputs.actions(obs))[0].detach().numpy()
        taken = outputs.values(obs[:-1], actions)[0].detach().numpy()
        np.testing.assert_allclose(batch["values"], own, rtol=NEAR, atol=NEAR)
        np.testing.assert_allclose(batch["taken_values"], taken, rtol=NEAR, atol=NEAR)
        prioritized = InitialPriorities(1, 0.9)(batch)
        np.testing.assert_allclose(
            prioritized["priorities"], np.abs(batch["rewards"] + 0.9 * own[1:] - taken), rtol=NEAR, atol=NEAR
        )
        assert not {"values", "taken_values"} & prioritized.keys()


def test_in_one_process_apex_ddpg_learns_at_the_configured_rate_and_resumes_bit_for_bit(tmp_path):
    with Training(PENDULUM, ApexDDPG(**SMALL, asynchrony={"weights_age": 1}), seed=4) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        expected = training.step()
        flat = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        result = restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), flat)
    assert result["sgd_steps"] == expected["sgd_steps"] > 10
    assert abs(result["minibatches_per_env_step"] - 0.1) < 0.03
    assert np.isfinite(result["learner/critics/loss"])
