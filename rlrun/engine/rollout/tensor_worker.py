"""Rollout worker for envs of tensors: experience stays on the device, in the trial's process.

The worker allocates its buffers [T, B] once, and writes each step into them in place. Nothing in the loop over steps
waits for the device: episodes, statistics and checks, which the host needs, are read once after the loop.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.space_kinds import space_tree
from rlrun.engine.data.tree import leaves, map_tree, named_leaves
from rlrun.engine.envs.env_config import MissingFinal
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.tensor_backend import (
    check_observations,
    check_tensors,
    close_tensor_env,
    make_tensor_env,
    tensor_form,
)
from rlrun.engine.envs.tensor_vector_env import TensorStep, TensorTree, TensorVectorEnv
from rlrun.engine.envs.vector_env import BadReturn, env_error
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.functional.tensor_returns import final_values
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.tensor_actor import Acted, TensorActor, host_moments
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.phases import ENV_STEP, INFERENCE, POSTPROCESS, RECORDING, FragmentTimes, machine_clock
from rlrun.engine.rollout.rewards import RETURNS
from rlrun.engine.rollout.rollout import Episode, Rollout
from rlrun.engine.rollout.tensor_rewards import TensorRewards
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig

_NO_RETURNS = Moments.empty(())


@dataclass(frozen=True)
class TensorWorkerConfig(WorkerConfig):
    """Settings of the worker for an env of tensors, which acts with the learner's own torch modules.

    Attributes:
        policy: The policy as the learner uses it.
        device: Name of the torch device.
    """

    policy: Any = None
    device: str = "cpu"


class TensorRolloutWorker:
    """Rollout worker that steps an env of tensors with a policy on the same device; its columns are tensors.

    All rows are steps, since the env resets a slot in the step that ends an episode. A step that truncates an episode
    has the value of its final observation in the column `final_values` [T, B]. The columns are valid until the next
    fragment.

    If episodes share seeds (`episodes_per_seed` above 1, as for groups of episodes), each fragment starts new episodes,
    with equal seeds in consecutive slots. Only steps of a slot's first episode are valid, and an episode that is longer
    than the fragment is truncated at its end.

    Args:
        config: Settings of the worker.

    Raises:
        UsageError: The policy cannot act on a device, or episodes share seeds and the env cannot seed its slots.
        EnvironmentUnusable: The factory does not create an env of tensors.
    """

    def __init__(self, config: TensorWorkerConfig) -> None:
        self.config = config
        ((self._policy, rewards),) = config.rewards.items()
        self._device = torch.device(config.device)
        self._env = make_tensor_env(config.env, config.num_envs, self._device, f"worker {config.worker_index}")
        self._is_grouped = config.episodes_per_seed > 1
        if self._is_grouped and not self._env.seeds_episodes:
            raise UsageError(
                f"env {config.env.id} cannot start several env slots in the same state, which groups of episodes need: "
                "use ppo"
            )
        self._actor = TensorActor(config.policy, self._device)
        self._rewards = TensorRewards(config.num_envs, rewards, self._device)
        self._fragment, self._step = config.first_fragment, 0
        self._buffers = _Buffers(config.fragment_length, self._env, self._actor)
        self._observations: TensorTree = None
        slots = config.num_envs
        self._starts = torch.ones(slots, dtype=torch.bool, device=self._device)
        self._state = torch.zeros((slots, self._actor.state_size), device=self._device)
        self._sums = torch.zeros(slots, dtype=torch.float64, device=self._device)
        self._lengths = torch.zeros(slots, dtype=torch.int64, device=self._device)

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
        buffers, actor, env_s, inference_s = self._buffers, self._actor, 0.0, 0.0
        self._step = 0
        with torch.no_grad(), Watched(self.config.env_name, self._places):
            if self._observations is None or self._is_grouped:
                self._reset(self._fragment)
            noise = self._noise()
            now = time.perf_counter
            for t in range(buffers.length):
                asked, self._step = now(), t
                buffers.observe(t, self._observations, self._starts, self._state)
                state = self._state if actor.state_size else None
                acted = actor.act(actor.filtered(self._observations), noise[t], state, self._starts)
                actions = actor.space.to_env(acted.actions)
                decided = now()
                step = self._stepped(actions)
                env_s += now() - decided
                inference_s += decided - asked
                self._take(t, acted, step)
            buffers.observe(buffers.length, self._observations, self._starts, self._state)
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
            fragment=self._fragment,
            batches={self._policy: batch},
            episodes=episodes,
            filter_deltas={self._policy: seen},
            env_steps=buffers.length * self.config.num_envs,
            weights_versions={self._policy: actor.weights_version},
            sample_s=ended - began,
            times=FragmentTimes(machine_clock(), began, ended, seconds),
        )
        self._fragment += 1
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
        self._starts.fill_(True)
        self._sums.zero_()
        self._lengths.zero_()
        self._rewards.reset()

    def _noise(self) -> Tensor:
        """Draws the random numbers of a fragment's actions, [T, B, num_noise], which depend only on its number."""
        generator = torch.Generator(self._device)
        generator.manual_seed(child_seed(self.config.seed, "noise", self.config.worker_index, self._fragment))
        return self._actor.space.noise(self._buffers.noise, generator)

    def _stepped(self, actions: Tensor) -> TensorStep:
        try:
            step = self._env.step(actions)
        except (Exception, SystemExit) as error:
            raise env_error(self.config.env.id, "step()", self._where(), error) from error
        check_tensors(self.config.env.id, self._env, step)
        return step

    def _take(self, t: int, acted: Acted, step: TensorStep) -> None:
        """Writes the results of step t into the buffers, and continues the sums of episodes."""
        self._observations = step.observations
        ends = step.terminateds | step.truncateds
        self._sums += step.rewards
        self._lengths += 1
        self._buffers.take(t, acted, step, ends, self._sums, self._lengths)
        self._sums.masked_fill_(ends, 0.0)
        self._lengths.masked_fill_(ends, 0)
        self._starts = ends
        if acted.state is not None:
            self._state = acted.state

    def _completed(self) -> tuple[SampleBatch, list[Episode], dict[str, Moments]]:
        """Returns the fragment's columns, and the values that the host reads from it: episodes and statistics."""
        buffers, actor = self._buffers, self._actor
        samples = buffers.rewards.numel()
        recurrent = bool(actor.state_size)
        obs = actor.filtered(buffers.obs)
        rewards, returned = self._rewards(buffers.rewards, buffers.ends)
        moments = actor.moments(map_tree(lambda leaf: leaf[:-1], buffers.obs))
        finite = buffers.rewards.isfinite().all()
        for leaf in leaves(buffers.obs):
            if leaf.is_floating_point():
                finite = finite & leaf.isfinite().all()
        if not bool(finite):  # the first wait for the device in this fragment
            raise BadReturn(f"env {self.config.env.id} returned {buffers.first_not_finite()} ({self._where()})")
        batch = SampleBatch(
            obs=obs,
            actions=buffers.actions,
            logp=buffers.log_probs,
            rewards=rewards,
            terminateds=buffers.terminateds,
            truncateds=buffers.truncateds,
            valid=torch.ones_like(buffers.ends),
            weights_version=np.array(actor.weights_version, np.int32),
        )
        if recurrent:
            batch.update(state=buffers.state, episode_starts=buffers.starts)
        if buffers.values is not None:
            closing = actor.values(
                map_tree(lambda leaf: leaf[-1], obs), buffers.state[-1] if recurrent else None, buffers.starts[-1]
            )
            buffers.values[-1] = closing["values"]
            finals, valid, truncateds = buffers.finals(actor, self.config.env.missing_final)
            batch.update(values=buffers.values, finals=finals, valid=valid, truncateds=truncateds)
            batch["final_values"] = final_values(batch, actor.values)
        if self._is_grouped:
            batch["valid"] = buffers.only_first_episodes()
        seen = {name: host_moments(samples, found.cpu().numpy()) for name, found in moments.items()}
        if returned is not None:
            seen[RETURNS] = host_moments(samples, returned.cpu().numpy())
        return batch, buffers.episodes(), seen

    def _places(self) -> list[EpisodePosition]:
        """Returns the worker's progress: the fragment's number and the step within it."""
        return [EpisodePosition(self._fragment, 0, self._step)]

    def _where(self) -> str:
        return f"worker {self.config.worker_index}, fragment {self._fragment}, step {self._step}"

    def state(self) -> dict[str, Any]:
        """Returns the worker's state for a checkpoint, including the env's state if the env can save it."""
        env = None if self._observations is None or self._is_grouped else self._env.state()
        state = {"fragment": self._fragment, "env": None if env is None else map_tree(_on_host, dict(env))}
        if env is None:
            return state
        running = {"starts": self._starts, "state": self._state, "sums": self._sums, "lengths": self._lengths}
        return {**state, "rewards": self._rewards.state(), "running": map_tree(_on_host, running)}

    def place(self) -> dict[str, Any]:
        """Returns `state()`."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the worker from the result of `state()`; starts new episodes if the env's state was not saved.

        Raises:
            ValueError: The state has a different number of env slots.
        """
        self._fragment = as_count(state["fragment"])
        if state["env"] is None:
            return 0 if self._is_grouped or not self._fragment else self.config.num_envs
        running = state["running"]
        if len(running["sums"]) != self.config.num_envs:
            raise ValueError(f"the run has {self.config.num_envs} env slots, but {len(running['sums'])} were saved")
        self._observations = self._env.load_state(state["env"])
        self._rewards.load_state(state["rewards"])
        for name, own in (("sums", self._sums), ("lengths", self._lengths), ("state", self._state)):
            own.copy_(torch.from_numpy(np.array(running[name])))
        self._starts = torch.from_numpy(np.array(running["starts"])).to(self._device)
        return 0

    def close(self) -> None:
        """Closes the env."""
        close_tensor_env(self.config.env, self._env)


class _Buffers:
    """Memory of a fragment of T steps in B env slots, allocated once and overwritten by the next fragment.

    Attributes:
        length: T.
        obs: Raw observations, a tree of [T + 1, B, ...].
        starts: Whether an episode begins with the row, [T + 1, B].
        state: Recurrent state before each step and after the last, [T + 1, B, S]; it is not reset at episode starts,
            since the network does this.
        noise: Random numbers of the actions, [T, B, num_noise].
        actions: Actions in the policy's own representation, [T, B, ...].
        log_probs: Log-probabilities of the actions, [T, B].
        values: State values, [T + 1, B]; None without a critic.
        rewards: Raw rewards, [T, B].
        terminateds: Whether the step terminated its episode, [T, B].
        truncateds: Whether the step truncated its episode, [T, B].
        ends: Whether the step ended its episode, [T, B].
    """

    def __init__(self, length: int, env: TensorVectorEnv, actor: TensorActor) -> None:
        slots, device = env.num_envs, env.device
        empty = partial(torch.empty, device=device)

        def rows(space: Any) -> Tensor:
            shape, dtype = tensor_form(space)
            return empty((length + 1, slots, *shape), dtype=dtype)

        self.length = length
        self.obs = map_tree(rows, space_tree(env.observation_space))
        self._final_obs: TensorTree = None
        self.starts = empty((length + 1, slots), dtype=torch.bool)
        self.state = empty((length + 1, slots, actor.state_size))
        self.noise = empty((length, slots, actor.num_noise))
        self.actions = empty((length, slots, *actor.policy.action_space.action_shape), dtype=actor.space.dtype)
        self.log_probs, self.rewards = empty((2, length, slots))
        self.values = empty((length + 1, slots)) if actor.policy.estimates == "state_values" else None
        self.terminateds, self.truncateds, self.ends, self._has_final = empty((4, length, slots), dtype=torch.bool)
        self._returns = empty((length, slots), dtype=torch.float64)
        self._lengths = empty((length, slots), dtype=torch.int64)

    def observe(self, t: int, observations: TensorTree, starts: Tensor, state: Tensor) -> None:
        """Writes row t of observations, episode starts and recurrent states."""
        _write(self.obs, t, observations)
        self.starts[t] = starts
        self.state[t] = state

    def take(self, t: int, acted: Acted, step: TensorStep, ends: Tensor, sums: Tensor, lengths: Tensor) -> None:
        """Writes the results of step t.

        Args:
            t: The step.
            acted: Result of the policy's forward pass.
            step: Result of the env's `step`.
            ends: Whether episodes ended, [B].
            sums: Return of each slot's episode so far, [B].
            lengths: Steps of each slot's episode so far, [B].
        """
        self.actions[t], self.log_probs[t], self.rewards[t] = acted.actions, acted.log_probs, step.rewards
        if self.values is not None:
            self.values[t] = acted.values["values"]
        self.terminateds[t], self.truncateds[t], self.ends[t] = step.terminateds, step.truncateds, ends
        self._returns[t], self._lengths[t] = sums, lengths
        if step.finals is None:
            self._has_final[t] = False
            return
        if self._final_obs is None:
            self._final_obs = map_tree(lambda leaf: torch.empty_like(leaf[1:]), self.obs)
        self._has_final[t] = step.finals.mask
        _write(self._final_obs, t, step.finals.observations)

    def finals(self, actor: TensorActor, missing_final: MissingFinal) -> tuple[dict[str, Any], Tensor, Tensor]:
        """Returns the final observations of truncated episodes, the column `valid`, and the column `truncateds`.

        With `missing_final: drop`, steps without a final observation are left out, and the observation before such a
        step counts as the final observation of the previous step. The host waits for the number of final observations.

        Returns:
            A dict for `final_values`, and two columns [T, B].
        """
        cut_off = self.truncateds & ~self.terminateds
        found: dict[str, Any] = {"index": (cut_off & self._has_final).flatten().nonzero()[:, 0]}
        if len(found["index"]):
            rows = map_tree(lambda leaf: leaf.flatten(0, 1)[found["index"]], self._final_obs)
            if not all(leaf.isfinite().all() for leaf in leaves(rows) if leaf.is_floating_point()):
                raise BadReturn("an env of tensors returned a final observation with NaN or an infinite number")
            found |= {"obs": actor.filtered(rows), "state": self.state[1:].flatten(0, 1)[found["index"]]}
        if missing_final == "bootstrap":
            return found, torch.ones_like(cut_off), self.truncateds
        missing = cut_off & ~self._has_final
        before = torch.zeros_like(missing)
        before[:-1] = missing[1:] & ~self.ends[:-1]
        found["before"] = before
        return found, ~missing, self.truncateds | before

    def only_first_episodes(self) -> Tensor:
        """Truncates first episodes that have not ended; returns the mask [T, B] of the steps in first episodes."""
        before = self.ends.cumsum(0) - self.ends.long()
        first: Tensor = before == 0
        cut_off = first[-1] & ~self.ends[-1]
        self.truncateds[-1] |= cut_off
        self.ends[-1] |= cut_off
        return first

    def episodes(self) -> list[Episode]:
        """Returns the episodes that ended in the fragment, in the order of their ends."""
        rows, slots = self.ends.cpu().numpy().nonzero()
        returns, lengths = self._returns.cpu().numpy()[rows, slots], self._lengths.cpu().numpy()[rows, slots]
        return [*map(Episode, returns.tolist(), lengths.tolist())]

    def first_not_finite(self) -> str:
        """Describes the first number of the fragment that is not finite; waits for the device."""
        parts = {
            "rewards": self.rewards,
            **{f"observations {name}".strip(): own for name, own in named_leaves(self.obs)},
        }
        for name, column in parts.items():
            if column.is_floating_point() and not column.isfinite().all():
                t, slot, *_ = (~column.isfinite()).nonzero()[0].tolist()
                return f"{name} with NaN or an infinite number: row {t} of the fragment, env {slot}"
        return "numbers that are not finite"


def _write(buffer: TensorTree, t: int, tree: TensorTree) -> None:
    """Copies a tree of [B, ...] into row t of a tree of buffers."""

    def copy(into: Tensor, leaf: Tensor) -> None:
        into[t] = leaf

    map_tree(copy, buffer, tree)


def _on_host(part: Any) -> Any:
    """Returns a copy of a tensor as an array; other parts of a state are returned unchanged."""
    return part.cpu().numpy().copy() if isinstance(part, Tensor) else part
