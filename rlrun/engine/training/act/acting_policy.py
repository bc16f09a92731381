"""Policy for acting with the current weights of a training run, separate from its rollout workers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.data.space_kinds import kind_of, space_tree
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.functional.seeding import generator
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.nn.acting import ActingNetwork
    from rlrun.engine.policy.fragment_collector import Execution
    from rlrun.engine.training.act.privileged_parts import PrivilegedParts

PRIVILEGED_PARTS = "rlrun.engine.training.act.privileged_parts:privileged_parts"
"""Import path of the function that finds the observation entries that only critics see."""


class ActingPolicy:
    """Policy that acts with the current weights of a training run, separate from the rollout workers.

    Args:
        trainee: The policy in training whose weights are used.
        actions: Default kind of actions, greedy or sampled.
        execution: Function that converts the network to another implementation for evaluation episodes; None for NumPy.

    Attributes:
        trainee: The policy in training whose weights are used.
    """

    def __init__(self, trainee: Trainee, actions: ActionKind, execution: Execution | None = None) -> None:
        self.trainee = trainee
        self._actions = actions
        self._execution = execution
        self._sgd_steps = -1
        self._draws = generator(trainee.seed, "act")

    @cached_property
    def privileged(self) -> PrivilegedParts:
        """Entries of the observation that only critics see; acting does not need them."""
        parts: PrivilegedParts = load_internal(PRIVILEGED_PARTS)(self.trainee.spaces.observation, self.trainee.model)
        return parts

    @cached_property
    def _behavior(self) -> BehaviorPolicy:
        return self.trainee.policy.behavior()

    @property
    def samples_choices(self) -> bool:
        """Whether sampled actions include discrete choices, drawn with learned probabilities.

        If so, greedy and sampled actions may behave differently. This is false for epsilon-greedy policies, for
        instance.
        """
        kinds = [kind_of(part) for part in leaves(space_tree(self.trainee.spaces.action))]
        has_choices = any(kind is not None and kind.meaning != "numbers" for kind in kinds)
        return has_choices and self._behavior.samples_policy

    def refresh(self) -> None:
        """Makes the next action use the learner's weights after a change other than an SGD step, such as a restore."""
        self._sgd_steps = -1

    def behavior(self) -> BehaviorPolicy:
        """Returns the object with which the policy acts, with the learner's current weights loaded."""
        learner = self.trainee.learner
        if self._sgd_steps != learner.sgd_steps:
            self._behavior.load(self.trainee.weights())
            self._sgd_steps = learner.sgd_steps
        return self._behavior

    def behavior_in_episodes(self) -> BehaviorPolicy:
        """Returns the object with which the policy plays evaluation episodes, with current weights loaded."""
        behavior = self.behavior()
        if self._executed is behavior.network:
            return behavior
        played = copy.copy(behavior)  # shares the weights and the memory of episodes
        played.network = self._executed
        return played

    @cached_property
    def _executed(self) -> ActingNetwork:
        network = self._behavior.network
        return network if self._execution is None else self._execution(network)

    def search(self, simulations: int) -> None:
        """Makes the policy run a Monte Carlo tree search before each action.

        Args:
            simulations: Number of simulations per search; 0 for no search.

        Raises:
            UsageError: The policy's env has no game model, which the search needs.
        """
        try:
            self.behavior().search(simulations)
        except UsageError as error:
            raise UsageError(f"policy {self.trainee.name}: {error}") from None

    def act(
        self,
        observation: Any,
        actions: ActionKind | None = None,
        *,
        episode_start: bool = False,
        prev_reward: float = 0.0,
    ) -> Any:
        """Returns the action for one observation; the policy remembers the steps of the episode.

        Args:
            observation: The env's observation.
            actions: Whether the action is greedy or sampled; None for the policy's default.
            episode_start: Whether the observation starts an episode; used only by policies that remember earlier steps.
            prev_reward: Reward of the last action; used only by policies that see past rewards.

        Raises:
            UsageError: The observation is not in the policy's observation space.
        """
        batch = self._begun(observation, episode_start, prev_reward)
        chosen = self.behavior().actions(batch, self._draws_for(actions))
        return map_tree(lambda leaf: leaf[0], chosen)

    def _draws_for(self, actions: ActionKind | None) -> np.random.Generator | None:
        """Returns the generator for sampled actions; None for greedy ones."""
        return self._draws if (actions or self._actions) == "sampled" else None

    def sampled(
        self, observation: Any, *, episode_start: bool = False, prev_reward: float = 0.0
    ) -> tuple[Any, float | None]:
        """Samples an action for one observation; returns the action, and its log-probability (None if unknown).

        For a continuous action, the log-probability is the log-density in the env's units.
        """
        from rlrun.engine.policy.log_probs_in_env import behavior_log_probs

        behavior = self.behavior()
        own, outputs = behavior.sampled(self._begun(observation, episode_start, prev_reward), self._draws)
        behavior.memory.remember(own, None)
        log_probs = behavior_log_probs(behavior, outputs, own)
        action = map_tree(lambda leaf: leaf[0], behavior.action_space.to_env(own))
        return action, None if log_probs is None else float(log_probs[0])

    def _begun(self, observation: Any, episode_start: bool, prev_reward: float) -> Any:
        """Prepares the behavior policy for an observation, and returns it as a batch [1, ...]."""
        batch, behavior = self._batch(observation), self.behavior()  # refuses a bad observation before memory changes
        behavior.take_rewards(np.array([prev_reward], np.float64))
        behavior.begin_episodes(np.array([episode_start]))
        return batch

    def _batch(self, observation: Any) -> Any:
        """Returns an observation as a batch [1, ...]; it may lack the entries that only critics see."""
        return self.privileged.batch(self.trainee.spaces.observation, observation)

    def act_with_memory(
        self,
        memory: Mapping[str, Any] | None,
        observation: Any,
        actions: ActionKind | None = None,
        *,
        prev_reward: float = 0.0,
        prev_action: Any = None,
    ) -> tuple[Any, Mapping[str, Any]]:
        """Returns the action for one observation, and the policy's memory of the episode for the next call.

        The memory is plain data: the recurrent state, and the past observations, actions and rewards that are inputs of
        the network (setting `model.views`). With separate memories, any number of episodes can run in parallel.

        Args:
            memory: The memory returned for the last observation; None at an episode's start.
            observation: The env's observation.
            actions: Whether the action is greedy or sampled; None for the policy's default.
            prev_reward: Reward of the last action.
            prev_action: The last action that the env executed, if it differs from the returned one.

        Raises:
            UsageError: The observation is not in the policy's observation space.
        """
        batch = self._batch(observation)
        executed = None if prev_action is None else map_tree(lambda leaf: np.asarray(leaf)[None], prev_action)
        draws = self._draws_for(actions)
        chosen, after = actions_from(self.behavior(), memory, batch, draws, prev_reward, executed)
        return map_tree(lambda leaf: leaf[0], chosen), after


def actions_from(
    behavior: BehaviorPolicy,
    memory: Mapping[str, Any] | None,
    observations: Any,
    draws: np.random.Generator | None,
    prev_reward: float = 0.0,
    executed: Any = None,
) -> tuple[Any, Mapping[str, Any]]:
    """Returns a policy's action for one observation of an episode, and its memory of the episode after this step.

    Args:
        behavior: The policy that acts.
        memory: The memory after the previous observation; None at an episode's start.
        observations: The raw observation, a tree of [1, ...].
        draws: Random generator for sampled actions; None for greedy actions.
        prev_reward: Reward of the last action.
        executed: The last action [1, ...] that the env executed, if it differs from the returned one.
    """
    resume_episode(behavior, memory, prev_reward, executed)
    actions = behavior.actions(observations, draws)
    return actions, behavior.memory.state()


def resume_episode(
    behavior: BehaviorPolicy, memory: Mapping[str, Any] | None, prev_reward: float = 0.0, executed: Any = None
) -> None:
    """Loads an episode's memory, returned by `actions_from`, into the policy that will act on the next observation."""
    if memory is not None:
        behavior.memory.load_state(memory)
        if executed is not None:
            behavior.take_actions(executed)
    behavior.take_rewards(np.array([prev_reward], np.float64))
    behavior.begin_episodes(np.array([memory is None]))
