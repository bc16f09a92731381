"""Hook events in rollout workers: one for each episode and step of the env, in envs and worlds."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from rlrun.algorithms.ppo import PPO
from rlrun.engine.hook import Hook
from rlrun.engine.rollout.worker_hooks import WorkerHooks
from rlrun.engine.settings.metric import Metric
from rlrun.engine.training.training import Training


class Notes(Hook):
    """Sums the rewards of each episode separately."""

    declared_metrics = (Metric("episode_return", "", "Return"), Metric("length", "env steps", "Length"))

    def __init__(self):
        self.episodes = []

    def on_episode_start(self, episode, observation):
        assert episode.length == 0
        episode.notes |= {"total": 0.0, "last": [float(number) for number in observation]}

    def on_episode_step(self, episode, step):
        assert not step.observation.flags.writeable
        assert [float(number) for number in step.observation] == episode.notes["last"]
        episode.notes["last"] = [float(number) for number in step.next_observation]
        episode.notes["total"] += step.reward
        assert step.action in (0, 1)

    def on_episode_end(self, episode):
        assert episode.notes["total"] == episode.episode_return
        self.episodes.append([episode.policy, episode.agent, episode.episode_return, episode.length])
        return {"episode_return": episode.episode_return, "length": episode.length}


HOOKS = ({f"{__name__}:Notes": {}},)
SMALL = {"train_batch_size": 128, "minibatch_size": 64, "num_epochs": 1, "min_env_steps_per_iteration": 0}


def training(env, **more):
    made = Training(env, PPO(**SMALL, num_envs_per_worker=2, compile=False, **more))
    made.description = replace(made.description, hooks=HOOKS)
    return made


def delivered(made):
    (worker,) = made.running.workers.state()["workers"]
    ((own,),) = [[state["state"] for state in worker["worker"]["hooks"]["hooks"].values()]]
    return own["episodes"]


def test_hooks_receive_every_episode_of_an_env_with_all_of_its_steps():
    with training("CartPole-v1") as made:
        results = [made.step() for _ in range(4)]
        found = delivered(made)
        last = made.running.results.episodes.last
    assert sorted((total, length) for _, _, total, length in found) == sorted(
        (episode.episode_return, episode.length) for episode in last
    )
    assert len(found) == results[-1]["episodes"] > 5
    means = [result["hooks/length"] for result in results]
    assert all(mean is None or mean > 0 for mean in means)


def test_hooks_receive_the_episode_of_each_agent_in_a_world():
    with training({"world": "rlrun.toys:CartPoles"}) as made:
        for _ in range(4):
            made.step()
        found = delivered(made)
        last = [
            (episode.agent, episode.episode_return, episode.length)
            for own in made.running.results.agents._of_policies.values()
            for episode in own.last
        ]
    assert sorted((agent, total, length) for _, agent, total, length in found) == sorted(last)
    assert len(found) > 5


def test_hook_rows_are_built_only_for_hooks_and_fragments_with_hook_results_can_be_pickled(monkeypatch):
    monkeypatch.setattr(WorkerHooks, "take", lambda *given: pytest.fail("there is no hook"))
    with Training("CartPole-v1", PPO(**SMALL, compile=False)) as made:
        made.step()
    monkeypatch.undo()
    with training("CartPole-v1") as made:
        sampler = made.running.workers.started.sampler
        rollout = pickle.loads(pickle.dumps(sampler.sample()))
        assert rollout.hooks.take_means()["hooks/length"] > 0
        assert rollout.raw == {}
        assert rollout.times.seconds["hooks"] > 0


def test_hooks_of_different_workers_and_start_fragments_have_separate_random_streams():
    with training("CartPole-v1") as made:
        config = made.running.workers.config
    configs = [replace(config, worker_index=index, first_fragment=first) for index, first in ((1, 0), (2, 0), (1, 3))]
    drawn = [next(iter(WorkerHooks(own)._hooks._made.values())).hook.rng.random() for own in (*configs, configs[0])]
    assert len(set(drawn)) == 3
    assert drawn[3] == drawn[0]
