"""Meta-learning tasks of MBMPO: imagined rollouts, with one task per ensemble member."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.meta.adapting_worker import baseline_advantages
from rlrun.algorithms.model_based.fit_model import FitModel
from rlrun.algorithms.model_based.imagination import MODEL_STEPS, imagined_step
from rlrun.algorithms.model_based.transitions import transition_form
from rlrun.engine.data.sample_batch import SampleBatch, concatenated
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.functional.seeding import generator

if TYPE_CHECKING:
    from rlrun.algorithms.meta.adaptation import AdaptablePolicy
    from rlrun.algorithms.model_based.policy import ModelBasedPolicy
    from rlrun.engine.flow.trainee import Trainee

Floats = NDArray[np.float32]


def after_fits(fit: FitModel, number: int) -> Flow[int]:
    """Creates a stream of meta-update indices: each fit of the dynamics model adds `number` meta-updates.

    Args:
        fit: Operator that fits the ensemble.
        number: Number of meta-updates per fit.
    """
    return Flow(AfterFits(fit, number))


class AfterFits(Source):
    """Stream of meta-update indices: each fit of the dynamics model adds a fixed number of meta-updates."""

    def __init__(self, fit: FitModel, number: int) -> None:
        super().__init__("after_fits", {"number": number})
        self.fit = fit
        self.number = number
        self._delivered = 0

    @override
    def next_item(self) -> Polled:
        if self._delivered >= self.fit.num_fits * self.number:
            return Pending(reasons=("the model needs more steps before the first fit",))
        self._delivered += 1
        return Delivered(self._delivered - 1)

    @property
    @override
    def stateful(self) -> bool:
        return True

    @override
    def state(self) -> dict[str, Any]:
        return {"delivered": self._delivered}

    @override
    def load_state(self, state: Any) -> None:
        self._delivered = as_count(state["delivered"])


class ImagineTasks(StatefulOperator):
    """Imagines a batch of meta-learning tasks by rollouts in the ensemble, one task per member.

    Imagined episodes start in replayed states. In each task, rollouts alternate with inner gradient steps on the
    rollouts: a task has `inner_steps` + 1 phases of rollouts. Episodes end with a predicted termination, or are
    truncated after T steps. The batch is [T, tasks * phases * episodes], with the phases of a task adjacent.

    Args:
        trainee: The policy in training and its dynamics ensemble.
        fit: Operator that fits the ensemble to a replay buffer, from which initial states are sampled.
        inner_steps: Number of inner gradient steps per adaptation.
        inner_lr: Step size of the inner gradient steps.
        episodes: Episodes in each phase of a task.
        length: Horizon T of imagined episodes.
        gamma: Discount factor.
        scale: Scale and clipping bound of rewards from a known reward function.

    Source:
        Clavera et al., "Model-based reinforcement learning via meta-policy optimization", arXiv:1809.05214, alg. 1.
    """

    def __init__(
        self,
        trainee: Trainee,
        fit: FitModel,
        *,
        inner_steps: int,
        inner_lr: float,
        episodes: int,
        length: int,
        gamma: float,
        scale: RewardScale,
    ) -> None:
        self.trainee = trainee
        self.fit = fit
        self.inner_steps = inner_steps
        self.inner_lr = inner_lr
        self.episodes = episodes
        self.length = length
        self.gamma = gamma
        self.scale = scale
        self._generator = generator(trainee.seed, "imagined tasks")
        self._model_steps = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"tasks": self.fit.config.num_members, "episodes": self.episodes, "length": self.length}

    declared_metrics = (MODEL_STEPS,)

    @override
    def metrics(self) -> dict[str, float]:
        return {MODEL_STEPS.name: float(self._model_steps)}

    @override
    def __call__(self, item: int) -> SampleBatch:
        from rlrun.algorithms.meta.adaptation import adapted_acting

        agent = cast("AdaptablePolicy", cast("ModelBasedPolicy", self.trainee.policy).agent)
        acting = [self.trainee.learner.acting_flat()] * self.fit.config.num_members
        phases = [self.imagine(acting)]
        for _ in range(self.inner_steps):
            pairs = zip(acting, phases[-1], strict=True)
            acting = [adapted_acting(agent, flat, batch, self.inner_lr) for flat, batch in pairs]
            phases.append(self.imagine(acting))
        tasks = concatenated([batch for task in zip(*phases, strict=True) for batch in task])
        self._model_steps += int(np.count_nonzero(tasks["valid"]))
        return tasks

    def imagine(self, acting: list[Floats]) -> list[SampleBatch]:
        """Rolls out one policy per task in the ensemble; returns a rollout fragment [T, episodes] per task.

        Args:
            acting: Flat parameters of each task's policy, [A] each.
        """
        trainee, shape = self.trainee, (self.episodes, len(acting))
        policy = cast("ModelBasedPolicy", trainee.policy)
        networks = [policy.behavior().network for _ in acting]
        for network, flat in zip(networks, acting, strict=True):
            network.load(flat)
        space, form = policy.action_space, transition_form(trainee.spaces, self.fit.config)
        obs = self.fit.replay.peek(self.episodes * len(acting), self._generator)["obs"].reshape(*shape, -1)
        goes_on = np.ones(shape, np.bool_)
        steps: list[SampleBatch] = []
        while len(steps) < self.length:
            heads = [network({"obs": obs[:, task]})[0]["outputs"] for task, network in enumerate(networks)]
            outputs = np.stack(heads, axis=1)
            actions = space.sample(outputs, space.noise(self._generator, shape))
            members = np.arange(len(acting))
            found = imagined_step(trainee, form, space, obs, actions, members, self._generator, self.scale)
            steps.append(
                SampleBatch(
                    obs=obs,
                    actions=actions,
                    logp=space.log_prob(outputs, actions),
                    rewards=found.rewards,
                    valid=goes_on,
                    weights_version=np.full(shape, trainee.learner.weights_version),
                )
            )
            goes_on = goes_on & ~found.terminateds
            obs = np.where(goes_on[..., None], found.next_obs, obs)
        columns = SampleBatch({name: np.stack([step[name] for step in steps]) for name in steps[0]})
        return [self._with_advantages(columns.map(lambda leaf, k=k: leaf[:, :, k])) for k in range(len(acting))]

    def _with_advantages(self, batch: SampleBatch) -> SampleBatch:
        """Adds advantages over a fitted linear baseline to the episodes [T, B] of a task."""
        advantages = baseline_advantages(batch["rewards"], batch["obs"], batch["valid"], self.gamma)
        return SampleBatch(batch, advantages=advantages)

    @override
    def state(self) -> dict[str, Any]:
        return {"generator": dict(self._generator.bit_generator.state), "model_steps": self._model_steps}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        load_generator(self._generator, state["generator"])
        self._model_steps = as_count(state["model_steps"])


class SendAdapted(StatefulOperator):
    """Sends each rollout worker the policy adapted to one task, once per `every` batches of tasks.

    Tasks are assigned to workers in rotation, so that collected data is as diverse as the tasks. A resumed run
    restores the workers' adapted weights.

    Args:
        trainee: The policy in training whose weights are adapted and sent to the workers.
        every: Number of batches of tasks between two broadcasts.
        inner_steps: Number of inner gradient steps per adaptation.
        inner_lr: Step size of the inner gradient steps.
        episodes: Episodes in each phase of a task.

    Source:
        Clavera et al., arXiv:1809.05214, section 4.3.
    """

    def __init__(self, trainee: Trainee, *, every: int, inner_steps: int, inner_lr: float, episodes: int) -> None:
        self.trainee = trainee
        self.every = every
        self.inner_steps = inner_steps
        self.inner_lr = inner_lr
        self.episodes = episodes
        self._batches = 0
        self._sent: dict[int, Floats] = {}

    @override
    def settings(self) -> dict[str, Any]:
        return {"every": self.every}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        self._batches += 1
        if self._batches % self.every == 0:
            tasks = item["valid"].shape[1] // (self.episodes * (self.inner_steps + 1))
            first, workers = self._batches // self.every - 1, self.trainee.workers.indices
            self._sent = {worker: self._adapted(item, (first + i) % tasks) for i, worker in enumerate(workers)}
            self._send()
        return item

    def _adapted(self, batch: SampleBatch, task: int) -> Floats:
        """Acting parameters [num_parameters] of the current policy after adaptation to a task's imagined episodes."""
        from rlrun.algorithms.meta.adaptation import adapted_acting

        agent = cast("AdaptablePolicy", cast("ModelBasedPolicy", self.trainee.policy).agent)
        acting = self.trainee.learner.acting_flat()
        for phase in range(self.inner_steps):
            start = (task * (self.inner_steps + 1) + phase) * self.episodes
            own = batch.map(lambda leaf, start=start: leaf[:, start : start + self.episodes])
            acting = adapted_acting(agent, acting, own, self.inner_lr)
        return acting

    def _send(self) -> None:
        weights = self.trainee.weights()
        for worker, acting in self._sent.items():
            self.trainee.workers.send(dataclasses.replace(weights, acting=acting), worker)

    @override
    def state(self) -> dict[str, Any]:
        return {"batches": self._batches, "sent": [[worker, acting] for worker, acting in self._sent.items()]}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._batches = as_count(state["batches"])
        self._sent = {as_count(worker): np.array(acting, np.float32) for worker, acting in state["sent"]}
        self._send()
