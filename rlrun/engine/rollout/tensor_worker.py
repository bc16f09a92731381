"""Rollout worker for envs of tensors: experience stays on the device, in the trial's process.

The worker allocates its buffers [T, B] once, and writes each step into them in place. Nothing in the loop over steps
waits for the device: episodes, statistics and checks, which the host needs, are read once after the loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.tensor_backend import (
    check_observations,
    check_tensors,
    close_tensor_env,
    make_tensor_env,
)
from rlrun.engine.envs.tensor_vector_env import TensorStep, TensorTree
from rlrun.engine.envs.vector_env import BadReturn, env_error
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.functional.tensor_returns import final_values
from rlrun.engine.kernels.cuda_graphs import CapturedFunction, Graphs, of_list
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.tensor_actor import TensorActor, host_moments
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.phases import ENV_STEP, INFERENCE, POSTPROCESS, RECORDING, FragmentTimes, machine_clock
from rlrun.engine.rollout.rewards import RETURNS
from rlrun.engine.rollout.rollout import Episode, Rollout
from rlrun.engine.rollout.tensor_fragment import Memory, TensorFragment, decide, record
from rlrun.engine.rollout.tensor_rewards import TensorRewards
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig

_NO_RETURNS = Moments.empty(())


@dataclass(frozen=True)
class TensorWorkerConfig(WorkerConfig):
    """Settings of the worker for an env of tensors, which acts with the learner's own torch modules.

    Attributes:
        policy: The policy as the learner uses it.
        parameters: The learner's flat vector of the policy's parameters, on the learner's device, [P].
        graphs: The learner's CUDA graphs; None if the policy's steps run eagerly.
    """

    policy: Any = None
    parameters: Any = None
    graphs: Graphs | None = None


class TensorRolloutWorker:
    """Rollout worker that steps an env of tensors with a policy on the same device; it collects tensors.

    All rows are steps, since the env resets a slot in the step that ends an episode. For a step that truncates an
    episode, the column `final_values` [T, B] holds the value of the episode's final observation. The columns are valid
    until the next fragment.

    If episodes share seeds (`episodes_per_seed` above 1, as for groups of episodes), each fragment starts new episodes,
    with equal seeds in consecutive slots. Only steps of a slot's first episode are valid, and an episode that is longer
    than the fragment is truncated at the fragment's end.

    Args:
        config: Settings of the worker.

    Raises:
        UsageError: The policy cannot act on a device, or episodes share seeds and the env cannot seed its slots.
        EnvironmentUnusable: The factory does not create an env of tensors.
    """

    def __init__(self, config: TensorWorkerConfig) -> None:
        self.config = config
        ((self._policy, rewards),) = config.rewards.items()
        self._device: torch.device = config.parameters.device
        self._env = make_tensor_env(config.env, config.num_envs, self._device, f"worker {config.worker_index}")
        self._is_grouped = config.episodes_per_seed > 1
        if self._is_grouped and not self._env.seeds_episodes:
            raise UsageError(
                f"env {config.env.id} cannot start several env slots in the same state, which groups of episodes need: "
                "use ppo"
            )
        self._actor = TensorActor(config.policy, config.parameters)
        self._rewards = TensorRewards(config.num_envs, rewards, self._device)
        self._number, self._step = config.first_fragment, 0
        self._fragment = TensorFragment(config.fragment_length, self._env, self._actor)
        self._observations: TensorTree = None

    def follow(self, orders: Orders) -> None:
        """Loads the policy's new weights and statistics."""
        weights: Weights = orders.weights[self._policy]
        self._actor.load(weights)
        self._rewards.load(weights.filters.get(RETURNS, _NO_RETURNS))

    def sample(self) -> Rollout:
        """Collects one fragment on the device.

        Raises:
            EnvError: The env raised, or returned something that its interface does not allow.
        """
        began = time.perf_counter()
        fragment, env_s, inference_s = self._fragment, 0.0, 0.0
        self._step = 0
        with torch.no_grad(), Watched(self.config.env_name, self._places):
            if self._observations is None or self._is_grouped:
                self._reset(self._number)
            self._draw_noise()
            fragment.row.zero_()
            now = time.perf_counter
            for t in range(fragment.length):
                asked, self._step = now(), t
                actions = self._decided()
                decided = now()
                step = self._stepped(actions)
                env_s += now() - decided
                inference_s += decided - asked
                self._observations = step.observations
                self._recorded(step)
            fragment.close(self._observations)
            recorded = time.perf_counter()
            batch, episodes, seen = self._completed()
        ended = time.perf_counter()
        seconds = {
            ENV_STEP: env_s,
            INFERENCE: inference_s,
            RECORDING: recorded - began - env_s - inference_s,
            POSTPROCESS: ended - recorded,
        }
        rollout = Rollout(
            worker_index=self.config.worker_index,
            fragment=self._number,
            batches={self._policy: batch},
            episodes=episodes,
            filter_deltas={self._policy: seen},
            env_steps=fragment.length * self.config.num_envs,
            weights_versions={self._policy: self._actor.weights_version},
            sample_s=ended - began,
            times=FragmentTimes(machine_clock(), began, ended, seconds),
        )
        self._number += 1
        return rollout

    def _reset(self, number: int) -> None:
        """Starts new episodes in all env slots, with seeds that depend on the fragment's number."""
        seed = child_seed(self.config.seed, "episodes of tensors", number)
        env, config = self._env, self.config
        equal = config.episodes_per_seed
        seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, config.num_envs // equal).repeat(equal)
        try:
            observations = env.reset(seeds=torch.from_numpy(seeds).to(self._device))
        except (Exception, SystemExit) as error:
            raise env_error(config.env.id, "reset()", self._where(), error, starts=True) from error
        check_observations(config.env.id, env, observations, "reset() returned observations")
        self._observations = observations
        self._fragment.restart()
        self._rewards.reset()

    def _draw_noise(self) -> None:
        """Draws the random numbers of a fragment's actions, which depend on the fragment's number alone."""
        generator = torch.Generator(self._device)
        generator.manual_seed(child_seed(self.config.seed, "noise", self.config.worker_index, self._number))
        self._actor.space.noise(self._fragment.noise, generator)

    def _decided(self) -> Tensor:
        """Samples the actions of the current step, in the env's representation, and records what the policy did."""
        fragment, actor = self._fragment, self._actor
        key = ("decide", *actor.known_statistics)
        (actions,) = self._run(key, partial(decide, actor), fragment.of_decisions(), fragment.seen(self._observations))
        return actions

    def _recorded(self, step: TensorStep) -> None:
        """Writes the results of the current step."""
        memory, given = self._fragment.of_results(step)
        self._run(("record", *given), record, memory, given)

    def _run(
        self, key: tuple[str, ...], function: Callable[[Any, Any], list[Tensor]], memory: Memory, given: TensorTree
    ) -> list[Tensor]:
        """Runs a function on the fragment's memory and on tensors from the env; as a CUDA graph, if graphs are used.

        Args:
            key: The function's name, and anything else that its operations depend on.
            function: The function.
            memory: Tensors that are the same in every call, and that the function changes in place.
            given: Tensors from the env, [B, ...].
        """
        graphs = self.config.graphs
        if graphs is None:
            return function(memory, given)
        kept = leaves(memory)
        arguments = [*kept, *leaves(given)]
        capture = partial(CapturedFunction, of_list(function, memory, given), arguments, len(kept))
        graph = graphs.made((self, *key), capture, "steps of the policy")
        return function(memory, given) if graph is None else graph(arguments)

    def _stepped(self, actions: Tensor) -> TensorStep:
        try:
            step = self._env.step(actions)
        except (Exception, SystemExit) as error:
            raise env_error(self.config.env.id, "step()", self._where(), error) from error
        check_tensors(self.config.env.id, self._env, step)
        return step

    def _completed(self) -> tuple[SampleBatch, list[Episode], dict[str, Moments]]:
        """Returns the fragment's columns, and the values that the host reads from it: episodes and statistics."""
        fragment, actor = self._fragment, self._actor
        samples = fragment.rewards.numel()
        recurrent = bool(actor.state_size)
        obs = actor.filtered(fragment.obs)
        rewards, returned = self._rewards(fragment.rewards, fragment.ends)
        moments = actor.moments(map_tree(lambda leaf: leaf[:-1], fragment.obs))
        finite = fragment.rewards.isfinite().all()
        for leaf in leaves(fragment.obs):
            if leaf.is_floating_point():
                finite = finite & leaf.isfinite().all()
        if not bool(finite):  # the first wait for the device in this fragment
            raise BadReturn(f"env {self.config.env.id} returned {fragment.first_not_finite()} ({self._where()})")
        batch = SampleBatch(
            obs=obs,
            actions=fragment.actions,
            logp=fragment.log_probs,
            rewards=rewards,
            terminateds=fragment.terminateds,
            truncateds=fragment.truncateds,
            valid=torch.ones_like(fragment.ends),
            weights_version=np.array(actor.weights_version, np.int32),
        )
        if recurrent:
            batch.update(state=fragment.states, episode_starts=fragment.starts)
        if fragment.values is not None:
            closing = actor.values(
                map_tree(lambda leaf: leaf[-1], obs), fragment.states[-1] if recurrent else None, fragment.starts[-1]
            )
            fragment.values[-1] = closing["values"]
            finals, valid, truncateds = fragment.finals(actor, self.config.env.missing_final)
            batch.update(values=fragment.values, finals=finals, valid=valid, truncateds=truncateds)
            batch["final_values"] = final_values(batch, actor.values)
        if self._is_grouped:
            batch["valid"] = fragment.only_first_episodes()
        seen = {name: host_moments(samples, found.cpu().numpy()) for name, found in moments.items()}
        if returned is not None:
            seen[RETURNS] = host_moments(samples, returned.cpu().numpy())
        return batch, fragment.episodes(), seen

    def _places(self) -> list[EpisodePosition]:
        """Returns the worker's progress: the fragment's number and the step within it."""
        return [EpisodePosition(self._number, 0, self._step)]

    def _where(self) -> str:
        return f"worker {self.config.worker_index}, fragment {self._number}, step {self._step}"

    def state(self) -> dict[str, Any]:
        """Returns the worker's state for a checkpoint, including the env's state if the env can save it."""
        env = None if self._observations is None or self._is_grouped else self._env.state()
        state = {"fragment": self._number, "env": None if env is None else map_tree(_on_host, dict(env))}
        if env is None:
            return state
        return {**state, "rewards": self._rewards.state(), "running": map_tree(_on_host, self._fragment.slots)}

    def place(self) -> dict[str, Any]:
        """Returns the same as `state()`."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the worker from the result of `state()`; starts new episodes if the env's state was not saved.

        Raises:
            ValueError: The state has a different number of env slots.
        """
        self._number = as_count(state["fragment"])
        if state["env"] is None:
            return 0 if self._is_grouped or not self._number else self.config.num_envs
        running = state["running"]
        if len(running["sums"]) != self.config.num_envs:
            raise ValueError(f"the run has {self.config.num_envs} env slots, but {len(running['sums'])} were saved")
        self._observations = self._env.load_state(state["env"])
        self._rewards.load_state(state["rewards"])
        for name, own in self._fragment.slots.items():
            own.copy_(torch.from_numpy(np.array(running[name])))
        return 0

    def close(self) -> None:
        """Closes the env."""
        close_tensor_env(self.config.env, self._env)


def _on_host(part: Any) -> Any:
    """Returns a copy of a tensor as an array; other parts of a state are returned unchanged."""
    return part.cpu().numpy().copy() if isinstance(part, Tensor) else part
