"""Check of an env of tensors: devices, flags, reused buffers, seeds, saved state, synchronization and speed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import (
    ACTION_SEED,
    EnvFinding,
    error_finding,
    observation_findings,
    reward_findings,
    space_findings,
    speed_finding,
)
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.tensor_backend import (
    check_observations,
    check_tensors,
    close_tensor_env,
    evaluation_device,
    make_tensor_env,
    on_device,
)
from rlrun.engine.envs.tensor_vector_env import FinalObservations, TensorStep, TensorVectorEnv
from rlrun.engine.envs.vector_env import EnvError

SLOTS = 64
"""Number of env slots in a check."""
REPEATED = 23
"""Number of steps that are repeated to check seeds and saved states."""


def check_tensor_env(config: EnvConfig, *, steps: int, seed: int) -> list[EnvFinding]:
    """Steps an env of tensors with random actions, on a GPU if there is one; returns all findings.

    Args:
        config: Config of the env.
        steps: Number of env steps, over all env slots.
        seed: Root seed of the episodes and actions.

    Raises:
        EnvironmentUnusable: The factory does not return an env of tensors.
        EnvError: The factory raised.
    """
    env = make_tensor_env(config, SLOTS, evaluation_device(), "a check")
    found = [*space_findings(Spaces(env.observation_space, env.action_space))]
    try:
        stepped = Stepped(config, env, max(steps // SLOTS, REPEATED), seed)
        found += stepped.findings()
        found += stepped.seed_findings()
        found += stepped.state_findings()
        found += stepped.synchronization_findings()
    except EnvError as error:
        found.append(error_finding(error))
    finally:
        close_tensor_env(config, env)
    return found


class Stepped:
    """Copies of T steps of an env of tensors with random actions, and the time that the steps took.

    Args:
        config: Config of the env.
        env: The env.
        length: Number of steps, T.
        seed: Root seed of the episodes and actions.

    Raises:
        BadReturn: The env returned something that its interface does not allow.
    """

    def __init__(self, config: EnvConfig, env: TensorVectorEnv, length: int, seed: int) -> None:
        self.config, self.env = config, env
        self._random = RandomActions(Spaces(env.observation_space, env.action_space), ACTION_SEED)
        self.seeds = on_device(env.device, np.random.default_rng(seed).integers(2**31 - 1, size=env.num_envs))
        self.overwritten: set[str] = set()
        self._observations = env.reset(seeds=self.seeds)
        check_observations(config.id, env, self._observations, "reset() returned observations")
        self.steps: list[TensorStep] = []
        kept: TensorStep | None = None
        began = time.perf_counter()
        for _ in range(length):
            step = env.step(self.actions())
            check_tensors(config.id, env, step)
            if kept is not None:
                self._compare(kept, self.steps[-1])
            kept = step
            self.steps.append(copied(step))
            self._observations = self.steps[-1].observations
        self.seconds = time.perf_counter() - began

    def findings(self) -> Iterator[EnvFinding]:
        """Yields findings on the return values of the steps."""
        device = self.env.device
        yield EnvFinding("device", "ok", f"all tensors on {device}, with the dtypes of the spaces")
        rows = map_tree(lambda *each: torch.stack(each).cpu().numpy(), *(step.observations for step in self.steps))
        taken = len(self.steps) * self.env.num_envs
        yield from observation_findings(
            self.env.observation_space, rows, taken, lambda t, slot: f"step {t}, env {slot}"
        )
        rewards = torch.stack([step.rewards for step in self.steps]).double().cpu().numpy()
        if np.isfinite(rewards).all():
            yield from reward_findings(rewards)
        else:
            t, slot = np.argwhere(~np.isfinite(rewards))[0]
            found = f"{rewards[t, slot]} (step {t}, env {slot})"
            yield EnvFinding("rewards", "wrong", found, "training would stop at the first one", "fix the env")
        yield from self._flag_findings()
        if self.overwritten:
            found = f"a step overwrites the tensors of the step before: {', '.join(sorted(self.overwritten))}"
            yield EnvFinding("buffers", "ok", f"{found}; rlrun copies them")
        else:
            yield EnvFinding("buffers", "ok", "each step returns new tensors")
        yield speed_finding(taken, self.seconds, f"with {self.env.num_envs} env slots on {device}, copies included")

    def _flag_findings(self) -> Iterator[EnvFinding]:
        terminated = torch.stack([step.terminateds for step in self.steps])
        truncated = torch.stack([step.truncateds for step in self.steps])
        ends, cut_off = terminated | truncated, truncated & ~terminated
        found = f"{int(terminated.sum())} episodes terminated, {int(cut_off.sum())} truncated"
        if not ends.any():
            reason = "the ends of episodes were not seen"
            yield EnvFinding("flags", "note", found, reason, f"check more than {ends.numel()} --steps")
            return
        yield EnvFinding("flags", "ok", found)
        known = torch.stack([_final_mask(step) for step in self.steps])
        missing = int((cut_off & ~known).sum())
        if missing:
            found = f"{missing} of {int(cut_off.sum())} truncated episodes have none"
            reason = f"their last values are estimated by missing_final: {self.config.missing_final}"
            advice = "return them in TensorStep.finals if the simulator has them"
            yield EnvFinding("final observations", "note", found, reason, advice)
        elif (ends & known).any() and self._finals_are_resets():
            reason = "the values of truncated episodes would be those of first observations"
            advice = "copy the observations before the reset"
            found = "are the first observations of the next episodes"
            yield EnvFinding("final observations", "wrong", found, reason, advice)
        else:
            yield EnvFinding("final observations", "ok", f"of {int((ends & known).sum())} episodes")

    def _finals_are_resets(self) -> bool:
        """Whether the final observation of each ended episode equals the first observation of the next."""
        for step in self.steps:
            mask = _final_mask(step) & (step.terminateds | step.truncateds)
            assert step.finals is not None
            pairs = zip(leaves(step.finals.observations), leaves(step.observations), strict=True)
            if any((final[mask] != first[mask]).any() for final, first in pairs):
                return False
        return True

    def _compare(self, kept: TensorStep, copy: TensorStep) -> None:
        """Records which tensors of the previous step were overwritten."""
        for name in ("observations", "rewards", "terminateds", "truncateds"):
            if not equal([getattr(kept, name)], [getattr(copy, name)]):
                self.overwritten.add(name)

    def actions(self) -> Any:
        """Draws random actions for the current observations, [B, ...]."""
        return on_device(
            self.env.device, self._random.draw(map_tree(lambda leaf: leaf.cpu().numpy(), self._observations))
        )

    def seed_findings(self) -> Iterator[EnvFinding]:
        """Yields findings on seeds: in any slot, equal seeds must repeat an episode and different seeds must not."""
        if not self.env.seeds_episodes:
            found, reason = "env slots are not seeded separately", "evaluations cannot choose their episodes"
            yield EnvFinding("seeds", "note", found, reason)
            return
        actions = [self.actions() for _ in range(REPEATED)]
        first = self._course(self.seeds, actions)
        if not equal(first, self._course(self.seeds, actions)):
            reason, advice = "runs cannot be reproduced", "draw all random numbers from the seeds of reset"
            yield EnvFinding("seeds", "wrong", "the same seeds and actions led to different steps", reason, advice)
            return
        turned = self._course(self.seeds.flip(0), [map_tree(lambda leaf: leaf.flip(0), action) for action in actions])
        if not equal(first, [map_tree(lambda leaf: leaf.flip(0), part) for part in turned]):
            found = "a slot's episode depends on its index, not on its seed alone"
            advice = "derive random numbers from the slot's seed, or set seeds_episodes = False"
            yield EnvFinding("seeds", "wrong", found, "evaluations would not repeat their episodes", advice)
        elif equal(first, self._course((self.seeds + 1) % 2**31, actions)):
            found = "different seeds lead to the same episodes: the env is deterministic"
            yield EnvFinding("seeds", "note", found, "episodes differ only by their actions")
        else:
            yield EnvFinding("seeds", "ok", "the same seeds repeat the same episodes, and different seeds differ")

    def state_findings(self) -> Iterator[EnvFinding]:
        """Yields a finding on whether the env continues exactly from its saved state."""
        saved = self.env.state()
        if saved is None:
            reason = "a resumed run starts new episodes, and is not what the run would have been"
            yield EnvFinding("saved state", "note", "the simulator's state cannot be saved", reason)
            return
        actions = [self.actions() for _ in range(REPEATED)]
        expected = self._steps(actions)
        self.env.load_state(saved)
        if equal(expected, self._steps(actions)):
            yield EnvFinding("saved state", "ok", "a restored state continues exactly")
        else:
            found = "the same actions after load_state(state()) led to different steps"
            advice = "have state() return copies of everything that steps depend on"
            yield EnvFinding("saved state", "wrong", found, "resumed runs would differ from others", advice)

    def synchronization_findings(self) -> Iterator[EnvFinding]:
        """Yields a finding if a step waits for the GPU; this can only be detected on a GPU."""
        if self.env.device.type != "cuda":
            found = f"not visible on {self.env.device}; check on a GPU"
            yield EnvFinding("synchronization", "note", found, "a step that waits for the GPU stops the host")
            return
        actions = self.actions()
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                self.env.step(actions)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        if waits:
            where = f"{waits[0].filename}:{waits[0].lineno}"
            found = f"a step waits for the GPU {len(waits)} times, first at {where}"
            advice = "avoid .item(), nonzero(), boolean indexing, and `if` on tensors"
            yield EnvFinding("synchronization", "note", found, "the host cannot prepare the next work", advice)
        else:
            yield EnvFinding("synchronization", "ok", "no step of torch waits for the GPU")

    def _course(self, seeds: Tensor, actions: list[Any]) -> list[Any]:
        self.env.reset(seeds=seeds)
        return self._steps(actions)

    def _steps(self, actions: list[Any]) -> list[Any]:
        """Takes steps; returns copies of observations, rewards and flags."""
        return [tuple(copied(self.env.step(action))[:-1]) for action in actions]


def copied(step: TensorStep) -> TensorStep:
    """Returns a copy of a step, with copies of all its tensors."""
    finals = step.finals and FinalObservations(*map_tree(torch.clone, tuple(step.finals)))
    observations, rewards, terminateds, truncateds = map_tree(torch.clone, tuple(step)[:-1])
    return TensorStep(observations, rewards, terminateds, truncateds, finals)


def equal(one: list[Any], other: list[Any]) -> bool:
    """Whether all tensors of two lists of trees are equal; NaN counts as equal to NaN."""
    pairs = zip(leaves(tuple(one)), leaves(tuple(other)), strict=True)
    return all(torch.equal(first.nan_to_num(), second.nan_to_num()) for first, second in pairs)


def _final_mask(step: TensorStep) -> Tensor:
    return torch.zeros_like(step.truncateds) if step.finals is None else step.finals.mask
