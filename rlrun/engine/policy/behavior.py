"""Acting side of a policy in rollout workers: network, action space, exploration and observation filter (NumPy)."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import mask_of
from rlrun.engine.data.sample_batch import TAKEN_LOGP, SampleBatch
from rlrun.engine.data.tree import leaves as leaves_of
from rlrun.engine.data.views import is_viewed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork, Heads
from rlrun.engine.nn.observation_leaves import ObservationTree, is_masked
from rlrun.engine.policy.action_masks import MaskedOutputs
from rlrun.engine.policy.action_spaces.action_space import ActionSpace, Floats
from rlrun.engine.policy.episode_memory import EpisodeMemory, StateInputs
from rlrun.engine.policy.exploration.exploration import Exploration, NoiseSource
from rlrun.engine.policy.fragment_collector import FragmentCollector, Recording
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.policy.exploration.parameter_noise import ParameterNoise
    from rlrun.engine.policy.view_memory import ViewMemory

VIEW_MEMORY = "rlrun.engine.policy.view_memory:ViewMemory"
"""Import path of the memory for networks with history views."""


class BehaviorPolicy:
    """Acting side of a policy in a rollout worker; can be pickled, and loads new weights from the learner.

    The network's outputs are masked if the observations hold an action mask.

    Args:
        network: The network to act with.
        action_space: Converts between env actions and the policy's own representation of them.
        exploration: Exploration strategy used while collecting.
        leaves: Observation entries and how each enters the network, including the action mask.
        normalize_observations: Whether observations are normalized by running statistics.
        parameter_noise: Parameter noise used while collecting; None if there is none.
        recording: Recorder of extra fragment columns; None if there is none.
        world_columns: Columns to record about the whole multi-agent env: `WORLD_STATE`, `ACTS`, both or neither.
        state_inputs: Stores past actions and rewards in the recurrent state; None if that state depends only on
            observations.

    Attributes:
        noise_source: Object that draws all random numbers of a fragment at once: the exploration strategy.
        filter: Filter that normalizes observations.
        memory: Recurrent state and recent steps of each env slot's episode.
        collector: Records the columns of fragments, and applies parameter noise.
        weights_version: Version of the loaded weights, -1 before the first.
    """

    def __init__(
        self,
        network: ActingNetwork,
        action_space: ActionSpace,
        exploration: Exploration,
        leaves: ObservationTree,
        *,
        normalize_observations: bool,
        parameter_noise: ParameterNoise | None = None,
        recording: Recording | None = None,
        world_columns: tuple[str, ...] = (),
        state_inputs: StateInputs | None = None,
    ) -> None:
        self._is_masked = is_masked(leaves)
        self.action_space = action_space
        self.exploration = exploration
        self.noise_source: NoiseSource = exploration
        self.network = self._completed(network)
        self.filter = ObservationFilter(leaves, is_on=normalize_observations)
        views: ViewMemory | None = load_internal(VIEW_MEMORY)(leaves, action_space) if is_viewed(leaves) else None
        self.memory = EpisodeMemory(self.network.state_size, views, state_inputs)
        self.collector = FragmentCollector(
            self.network, action_space, self.filter, self.memory, parameter_noise, recording, world_columns
        )
        self.weights_version = -1

    @property
    def schedules(self) -> tuple[str, ...]:
        """Names of the scheduled settings that exploration and parameter noise read, such as epsilon."""
        noise = self.collector.parameter_noise
        return (*self.exploration.schedules, *(() if noise is None else noise.schedules))

    @property
    def samples_policy(self) -> bool:
        """Whether exploratory actions are sampled from the policy's learned action distribution."""
        return self.exploration.samples_policy

    def load(self, weights: Weights) -> None:
        """Loads new weights, observation statistics and scheduled settings (such as epsilon); keeps recurrent state."""
        self.network.load(weights.acting)
        if self.collector.loads:
            self.collector.load(weights)
        if self.filter.is_on:
            self.filter.load(weights.filters)
        self.exploration.load(weights)
        self.weights_version = weights.version

    def search(self, simulations: int) -> None:
        """Makes the policy run a Monte Carlo tree search before each action.

        Args:
            simulations: Simulations per search; 0 disables search.

        Raises:
            UsageError: The policy has no game model to search with.
        """
        raise UsageError("the policy does not use tree search; leave out simulations")

    @property
    def unmasked_network(self) -> ActingNetwork:
        """The acting network without the layer that masks forbidden actions."""
        return self.network.network if isinstance(self.network, MaskedOutputs) else self.network

    def with_network(self, network: ActingNetwork) -> BehaviorPolicy:
        """Returns a copy of this policy that acts with another network, with forbidden actions masked as before.

        The copy and this policy share the state of running episodes and the recorder of fragments.
        """
        policy = copy.copy(self)
        policy.network = self._completed(network)
        return policy

    def _completed(self, network: ActingNetwork) -> ActingNetwork:
        """Returns the network with masked outputs and with the outputs that the exploration adds."""
        return self.exploration.around(MaskedOutputs(network) if self._is_masked else network)

    def act(
        self,
        observations: Any,
        noise: Floats,
        record: SampleBatch,
        t: int,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> Any:
        """Selects the actions of one step in all B env slots, and records them in a fragment.

        Args:
            observations: Raw observations, a tree of [B, ...].
            noise: Random numbers of this step, drawn beforehand, [B, ...].
            record: The fragment's columns, filled in place at row t, or at the rows in `rows`.
            t: Index of the step within the fragment.
            episode_starts: Mask of the env slots whose observation starts an episode, [B]; recurrent state and
                correlated noise are reset in these slots.
            acts: Mask of the env slots that act, [B]; the state of other slots is kept and nothing is recorded for
                them. None for all.
            rows: Row to fill for each of the N slots that act, [N]; None for row t.

        Returns:
            Actions for the env, [B, ...].
        """
        collector, memory = self.collector, self.memory
        if acts is not None:
            episode_starts = episode_starts & acts
        perturbed = collector.parameter_noise
        if perturbed is not None and perturbed.renew(noise, t, episode_starts):
            collector.collecting.load(perturbed.parameters())
        where = t if acts is None else (t if rows is None else rows, acts)
        if memory.is_used:
            observations = memory.collect(observations, record, where, episode_starts, acts)
        mask = mask_of(observations) if self._is_masked else None
        network_noise, own = None, self.exploration.network_noise
        if own:
            network_noise, noise = noise[:, :own], noise[:, own:]
        if collector.runs_always:
            heads = collector.run(observations, network_noise, acts)
            if collector.recording is not None and collector.reads_heads:
                collector.recording.record(record, where, heads, acts)
            actions = self.exploration.explore(lambda: heads, noise, episode_starts, acts, mask)
            if collector.log_probs is not None:
                log_probs = collector.log_probs(heads["outputs"], actions)
                record[TAKEN_LOGP][where] = log_probs if acts is None else log_probs[acts]
        else:
            run = partial(collector.run, observations, network_noise, acts)
            actions = self.exploration.explore(run, noise, episode_starts, acts, mask)
        record["actions"][where] = actions if acts is None else actions[acts]
        if memory.takes_actions:
            memory.remember(actions, acts)
        return self.action_space.to_env(actions)

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Clears recurrent state and recent steps of the env slots where a new episode begins (mask `starts` [B])."""
        self.memory.begin(starts)

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Stores the rewards of the last step in all B env slots, for networks whose inputs include past rewards."""
        if self.memory.is_used:
            self.memory.take_rewards(rewards)

    def take_actions(self, actions: Any) -> None:
        """Replaces the last stored actions with those that the envs executed, for networks that see past actions."""
        if self.memory.is_used:
            self.memory.replace_actions(self.action_space.from_env(actions))

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns env actions for a batch of raw observations: exploratory if a generator is given, else greedy."""
        return self.action_space.to_env(self.chosen(observations, generator, acts))

    def chosen(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns actions before conversion to env actions: exploratory if a generator is given, else greedy.

        Parameter noise is not applied here; it is used only while collecting fragments.

        Args:
            observations: Raw observations, a tree of [B, ...].
            generator: Random generator of the exploration; None for greedy actions.
            acts: Mask of the slots that act, [B]; other slots keep their recurrent state. None for all.
        """
        if generator is None:
            chosen = self.action_space.mode(self.outputs(observations, acts))
        else:
            chosen, _ = self.sampled(observations, generator, acts)
        self.memory.remember(chosen, acts)
        return chosen

    def sampled(
        self, observations: Any, generator: np.random.Generator, acts: NDArray[np.bool_] | None = None
    ) -> tuple[Any, Floats]:
        """Returns exploratory actions for B raw observations, and the network outputs [B, K] used to sample them.

        Actions are in the policy's own representation, before conversion to env actions. Unlike `chosen`, this does not
        store them as past actions; pass them to `memory.remember` to store them.
        """
        slots = len(leaves_of(observations)[0])
        heads = self._heads(observations, self.exploration.network_draws(generator, slots), acts)
        return self.exploration.sample(heads, generator, mask_of(observations)), heads["outputs"]

    def outputs(self, observations: Any, acts: NDArray[np.bool_] | None = None) -> Floats:
        """Returns network outputs for a batch of raw observations, with forbidden actions masked.

        Also updates the recurrent state and the memory of recent steps of the env slots that act.
        """
        return self._heads(observations, None, acts)["outputs"]

    def _heads(self, observations: Any, noise: Floats | None, acts: NDArray[np.bool_] | None) -> Heads:
        """Runs the network on raw observations [B, ...]; updates recurrent state and views in the slots that act."""
        seen = self.memory.see(observations, acts)
        heads, after = self.network({"obs": self.filter(seen)}, self.memory.before(seen), None, noise)
        if after is not None:
            self.memory.keep(after, acts)
        return heads

    def state(self) -> dict[str, Any]:
        """Returns the state of exploration, parameter noise and running episodes for a checkpoint, but no weights."""
        state = {**self.exploration.state(), **self.memory.state()}
        noise = self.collector.parameter_noise
        return state if noise is None else {**state, **noise.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores exploration, parameter noise and running episodes from the result of `state()`."""
        self.exploration.load_state(state)
        self.memory.load_state(state)
        if self.collector.parameter_noise is not None:
            self.collector.parameter_noise.load_state(state)
