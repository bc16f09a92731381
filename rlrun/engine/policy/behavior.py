"""Behavior policies of rollout workers: network, action space, exploration and observation filter (NumPy)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import mask_of
from rlrun.engine.data.sample_batch import HISTORY, TAKEN_LOGP, SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.data.views import is_viewed, shown, viewed, with_new_observation
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork, Heads
from rlrun.engine.nn.observation_leaves import ObservationTree, is_masked
from rlrun.engine.policy.action_masks import MaskedOutputs
from rlrun.engine.policy.action_spaces.action_space import ActionSpace, Floats
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.exploration.parameter_noise import ParameterNoise
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.policy.view_memory import ViewMemory
from rlrun.engine.policy.weights import Weights

Execution = Callable[[ActingNetwork], ActingNetwork]
"""Wraps an acting network in another way to execute it."""


LogProbs = Callable[[Floats, Any], Floats]
"""Log-probabilities [B] in the env's units of actions that were taken by network outputs [B, K]."""


class Recording(Protocol):
    """Recorder of extra fragment columns, besides actions and recurrent state."""

    @property
    def reads_heads(self) -> bool:
        """Whether the recorder needs the outputs of the network's heads at each step."""
        ...

    def load(self, flat: Floats) -> None:
        """Loads the flat acting parameters [A]."""
        ...

    def collect_by(self, execution: Execution) -> None:
        """Wraps the recorder's networks in another way to execute them."""
        ...

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the recorder's columns, [T, B, ...]."""
        ...

    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records the outputs of the network's heads at one step.

        Args:
            batch: The fragment's columns.
            where: Index of the (t, b) entries to fill: row t, or the entries of the slots that act.
            heads: Outputs of all heads by name, [B, K].
            acts: Mask of the env slots that act, [B]; None for all.
        """
        ...

    def postprocess(self, batch: SampleBatch, policy: BehaviorPolicy) -> None:
        """Adds the columns that are cheaper to compute for a whole fragment at once, in place."""
        ...


class BehaviorPolicy:
    """Behavior policy of rollout workers: picklable, with weights that arrive by broadcast.

    The network's outputs are masked if the observations hold an action mask.

    Args:
        network: The acting network.
        action_space: Conversion between env actions and the policy's own actions.
        exploration: Exploration strategy while collecting.
        leaves: The tree of `ObservationLeaf`, including the action mask.
        normalize_observations: Whether observations are normalised by running statistics.
        parameter_noise: Parameter noise while collecting; None for none.
        recording: Recorder of extra fragment columns; None for none.
        world_columns: Columns of the whole world in fragments: `WORLD_STATE`, `ACTS`, both or neither.
        state_after: Replaces the last actions [B, ...] in a recurrent state [B, state_size]; None for recurrent states
            without actions.

    Attributes:
        world_columns: Columns of the whole world in fragments.
        filter: Observation normalisation; None without normalisation.
        views: Memory of each slot's episode, for a network with views; None for others.
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
        state_after: Callable[[Floats, Any], Floats] | None = None,
    ) -> None:
        self._is_masked = is_masked(leaves)
        self.action_space = action_space
        self.exploration = exploration
        network = self._completed(network)
        self.network = network
        self.parameter_noise = parameter_noise
        self.recording = recording
        self.world_columns = world_columns
        self.state_after = state_after
        self.filter = ObservationFilter(shown(leaves)) if normalize_observations else None
        self.views = ViewMemory(leaves, action_space) if is_viewed(leaves) else None
        self.weights_version = -1
        self._collecting = network if parameter_noise is None else copy.deepcopy(network)
        self._state: Floats = np.zeros((0, network.state_size), np.float32)
        self._runs_always = bool(network.state_size) or (recording is not None and recording.reads_heads)
        self._log_probs: LogProbs | None = None

    @property
    def schedules(self) -> tuple[str, ...]:
        """Names of the scheduled settings that exploration and parameter noise read."""
        noise = () if self.parameter_noise is None else self.parameter_noise.schedules
        return (*self.exploration.schedules, *noise)

    @property
    def network_noise(self) -> int:
        """Number of noise variables of a step for the network, which come first."""
        return self.exploration.network_noise

    @property
    def network_noise_every(self) -> int | None:
        """Steps for which the network's noise is held constant; see `Exploration.network_noise_every`."""
        return self.exploration.network_noise_every

    @property
    def samples_policy(self) -> bool:
        """Whether exploratory actions are sampled with learned probabilities; see `Exploration.samples_policy`."""
        return self.exploration.samples_policy

    def load(self, weights: Weights) -> None:
        """Loads weights, filter statistics and scheduled exploration settings; keeps the recurrent state."""
        self.network.load(weights.acting)
        if self.recording is not None:
            self.recording.load(weights.acting)
        if self.filter is not None:
            self.filter.load(weights.filters)
        if self.parameter_noise is not None:
            self.parameter_noise.load(weights)
        self.exploration.load(weights)
        self.weights_version = weights.version

    def search(self, simulations: int) -> None:
        """Enables Monte Carlo tree search before each action.

        Args:
            simulations: Simulations per search; 0 disables search.

        Raises:
            UsageError: The policy has no game model to search in.
        """
        raise UsageError("it does not search, as those of alphazero do: leave out simulations")

    @property
    def unmasked_network(self) -> ActingNetwork:
        """The acting network without the action mask."""
        return self.network.network if isinstance(self.network, MaskedOutputs) else self.network

    def with_network(self, network: ActingNetwork) -> BehaviorPolicy:
        """Returns a copy of this behavior policy that acts by another network, with the same action mask."""
        policy = copy.copy(self)
        policy.network = policy._collecting = self._completed(network)
        return policy

    def collect_by(self, execution: Execution) -> None:
        """Wraps the networks that collect experience in another way to execute them."""
        self._collecting = execution(self._collecting)
        if self.recording is not None:
            self.recording.collect_by(execution)

    def record_log_probs(self, log_probs: LogProbs) -> None:
        """Records the log-probabilities of the actions taken in fragments as `TAKEN_LOGP`, for data sets."""
        self._log_probs, self._runs_always = log_probs, True

    def _completed(self, network: ActingNetwork) -> ActingNetwork:
        """The network with masked outputs, and with what the exploration adds."""
        return self.exploration.around(MaskedOutputs(network) if self._is_masked else network)

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Sets the env slots of this worker: from `first_slot` on, among `num_slots` of all workers."""
        self.exploration.assign_envs(first_slot, num_slots)

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples the exploration noise of a whole fragment, [T, B, ...]: ten times cheaper than step by step."""
        return self.exploration.noise(generator, length, slots)

    def allocate_fragment(self, length: int, slots: int) -> SampleBatch:
        """Allocates the columns that `act` records, [T, B, ...]."""
        space = self.action_space
        batch = SampleBatch(actions=np.empty((length, slots, *space.action_shape), space.action_dtype))
        if self.recording is not None:
            batch.update(self.recording.allocate(length, slots))
        if self.network.state_size:
            batch["episode_starts"] = np.empty((length, slots), np.bool_)
            batch["state"] = np.empty((length, slots, self.network.state_size), np.float32)
        if self.views is not None:
            batch.update(self.views.allocate(length, slots))
        if self._log_probs is not None:
            batch[TAKEN_LOGP] = np.empty((length, slots), np.float32)
        return batch

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
        """Selects and records the actions of one step in all env slots.

        Args:
            observations: Raw observations, a tree of [B, ...].
            noise: This step's noise, [B, ...].
            record: The fragment's columns; row t is filled, or the rows in `rows`.
            t: The step within the fragment.
            episode_starts: Mask of the env slots whose observation starts an episode, [B]; there recurrent state and
                correlated noise are reset.
            acts: Mask of the env slots that act, [B]; the state of other slots is kept and nothing is recorded for
                them. None for all.
            rows: Row to fill for each slot that acts, [N]; None for row t.

        Returns:
            Actions for the env, [B, ...].
        """
        if acts is not None:
            episode_starts = episode_starts & acts
        if self.parameter_noise is not None and self.parameter_noise.renew(noise, t, episode_starts):
            self._collecting.load(self.parameter_noise.parameters())
        where = t if acts is None else (t if rows is None else rows, acts)
        if self.views is not None:
            self.views.begin(episode_starts)
            observations = self.views.see(observations, acts)
            self.views.record(record, where, acts)
        mask = mask_of(observations) if self._is_masked else None
        network_noise, own = None, self.exploration.network_noise
        if own:
            network_noise, noise = noise[:, :own], noise[:, own:]
        if self._runs_always:
            heads = self._run_and_record(observations, network_noise, record, where, episode_starts, acts)
            actions = self.exploration.explore(lambda: heads, noise, episode_starts, acts, mask)
            if self._log_probs is not None:
                log_probs = self._log_probs(heads["outputs"], actions)
                record[TAKEN_LOGP][where] = log_probs if acts is None else log_probs[acts]
        else:
            actions = self.exploration.explore(
                lambda: self._run(observations, network_noise, acts), noise, episode_starts, acts, mask
            )
        record["actions"][where] = actions if acts is None else actions[acts]
        if self.views is not None:
            self.views.act(actions, acts)
        return self.action_space.to_env(actions)

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Passes the rewards [B] of the last step to the view memory."""
        if self.views is not None:
            self.views.take_rewards(rewards)

    def take_actions(self, actions: Any) -> None:
        """Replaces the last chosen actions by the env actions actually executed, [B, ...]."""
        if self.views is not None:
            self.views.replace_actions(self.action_space.from_env(actions))
        if self.state_after is not None:
            self._state = self.state_after(self._state, self.action_space.from_env(actions))

    def close_fragment(self, batch: SampleBatch, episode_starts: NDArray[np.bool_], shown: NDArray[np.bool_]) -> None:
        """Records the view columns of the closing observations, after a fragment's last step.

        Args:
            batch: The fragment's columns, changed in place.
            episode_starts: Mask of the slots whose closing observation starts an episode, [B].
            shown: Mask of the slots that have a closing observation, [B].
        """
        if self.views is not None:
            self.views.close(batch, episode_starts, shown)

    def _run_and_record(
        self,
        observations: Any,
        noise: Floats | None,
        record: SampleBatch,
        where: Any,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
    ) -> Heads:
        """Runs the network for a step; records the recurrent state before the step, and the outputs of all heads."""
        if self.network.state_size:
            self._reset(episode_starts)
            record["episode_starts"][where] = episode_starts if acts is None else episode_starts[acts]
            record["state"][where] = self._state if acts is None else self._state[acts]
        heads = self._run(observations, noise, acts)
        if self.recording is not None and self.recording.reads_heads:
            self.recording.record(record, where, heads, acts)
        return heads

    def _run(self, observations: Any, noise: Floats | None, acts: NDArray[np.bool_] | None) -> Heads:
        """Runs the collecting network (with parameter noise), and updates the recurrent state."""
        state = self._state if self.network.state_size else None
        heads, after = self._collecting({"obs": self.filtered(observations)}, state, None, noise)
        if after is not None:
            self._state = after if acts is None else np.where(acts[:, None], after, self._state)
        return heads

    def postprocess(self, batch: SampleBatch) -> None:
        """Postprocesses a recorded fragment for learning, in place: view history, noise adaptation, extra columns.

        Args:
            batch: The recorded columns, with the raw observations `obs` [T + 1, B, ...].
        """
        if self.views is not None:
            self.views.carry(batch)
        if self.parameter_noise is not None and self.parameter_noise.adapts:
            seen = viewed(batch)["obs"]
            rows = self.filtered(map_tree(lambda leaf: leaf[:-1].reshape(-1, *leaf.shape[2:]), seen))
            (own, _), (varied, _) = self.network({"obs": rows}), self._collecting({"obs": rows})
            self.parameter_noise.adapt(own["outputs"], varied["outputs"])
        if self.recording is not None:
            self.recording.postprocess(batch, self)

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Resets recurrent state and views in slots whose next observation starts an episode, [B]."""
        if self.network.state_size:
            self._reset(starts)
        if self.views is not None:
            self.views.begin(starts)

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Env actions for raw observations, [B, ...]; see `chosen`."""
        return self.action_space.to_env(self.chosen(observations, generator, acts))

    def chosen(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """The policy's own actions [B, *action_shape]: exploratory with a generator, greedy without.

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
        self.remember(chosen, acts)
        return chosen

    def remember(self, actions: Any, acts: NDArray[np.bool_] | None) -> None:
        """Adds the policy's own actions [B, ...], just chosen, to the memory of the slots that act.

        Args:
            actions: The actions.
            acts: Mask of the slots that act, [B]; None for all.
        """
        if self.views is not None:
            self.views.act(actions, acts)

    def state_after_rewards(self, state: Floats, rewards: NDArray[Any]) -> Floats:
        """Recurrent state [B, state_size] after the rewards [B] of the last step; by default it takes none."""
        return state

    def sampled(
        self, observations: Any, generator: np.random.Generator, acts: NDArray[np.bool_] | None = None
    ) -> tuple[Any, Floats]:
        """The policy's own exploratory actions [B, *action_shape], and the network outputs [B, K] that gave them.

        `remember` adds the actions to the memory; `chosen` does both.
        """
        slots = len(leaves(observations)[0])
        heads = self._heads(observations, self.exploration.network_draws(generator, slots), acts)
        return self.exploration.sample(heads, generator, mask_of(observations)), heads["outputs"]

    def outputs(self, observations: Any, acts: NDArray[np.bool_] | None = None) -> Floats:
        """Masked network outputs [B, K] for raw observations [B, ...].

        Recurrent state and views are updated in the slots that act.
        """
        return self._heads(observations, None, acts)["outputs"]

    def _heads(self, observations: Any, noise: Floats | None, acts: NDArray[np.bool_] | None) -> Heads:
        """Runs the network on raw observations [B, ...]; updates recurrent state and views in the slots that act."""
        if self.views is not None:
            self.views.begin(np.zeros(len(leaves(observations)[0]), np.bool_))
            observations = self.views.see(observations, acts)
        state = self._state_before(observations)
        heads, after = self.network({"obs": self.filtered(observations)}, state, None, noise)
        if after is not None:
            self._state = after if acts is None or state is None else np.where(acts[:, None], after, state)
        return heads

    def closing_heads(self, observations: Any) -> Heads:
        """Heads of the collecting network for filtered closing observations [B, ...], e.g. for bootstrap values.

        The recurrent state is not updated.
        """
        heads, _ = self._collecting({"obs": observations}, self._state_before(observations))
        return heads

    def _state_before(self, observations: Any) -> Floats | None:
        """Recurrent state [B, state_size] before observations [B, ...]; initial zeros before the first step."""
        if not self.network.state_size:
            return None
        slots = len(leaves(observations)[0])
        if len(self._state) != slots:
            self._reset(np.ones(slots, np.bool_))
        return self._state

    def env_actions(self, actions: Any) -> Any:
        """Converts recorded actions [N, ...] to env actions."""
        return self.action_space.to_env(actions)

    def own_actions(self, actions: Any) -> Any:
        """Converts env actions [N, ...] to actions as they are recorded."""
        return self.action_space.from_env(actions)

    def observation_moments(self, observations: Any, filled: NDArray[np.bool_]) -> dict[str, Moments]:
        """Moments of raw observations for the observation filter, by the filter's names.

        Args:
            observations: A tree of observations, [T, B, ...].
            filled: Mask of the entries that hold an observation, [T, B]; other entries are undefined.
        """
        return {} if self.filter is None else self.filter.moments(observations, filled)

    def filtered(self, observations: Any) -> Any:
        """Normalised observations or views, with any leading dimensions, as inputs of the network."""
        if self.filter is None:
            return observations
        if self.views is None:
            return self.filter(observations)
        return with_new_observation(observations, self.filter(shown(observations)))

    def filter_fragment(self, batch: SampleBatch) -> None:
        """Normalises the observations of a fragment and of its history, in place."""
        batch["obs"] = self.filtered(batch["obs"])
        if self.filter is not None and "obs" in batch.get(HISTORY, {}):
            before = self.filter.before(batch[HISTORY]["obs"])
            batch[HISTORY] = {**batch[HISTORY], "obs": before}

    def memory(self) -> dict[str, Any]:
        """Memory of the running episodes: recurrent state and view memory."""
        memory: dict[str, Any] = {}
        if self.network.state_size:
            memory["recurrent_state"] = self._state.copy()
        if self.views is not None:
            memory["views"] = self.views.state()
        return memory

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Restores recurrent state and view memory from `memory()`."""
        if self.network.state_size:
            state = np.array(memory["recurrent_state"], np.float32)
            if state.shape[1:] != (self.network.state_size,):
                raise ValueError(f"a recurrent state {state.shape} of a network that has {self.network.state_size}")
            self._state = state
        if self.views is not None:
            self.views.load_state(memory["views"])

    def state(self) -> dict[str, Any]:
        """State of exploration, parameter noise and running episodes, without the weights."""
        state = {**self.exploration.state(), **self.memory()}
        if self.parameter_noise is not None:
            state.update(self.parameter_noise.state())
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores exploration, parameter noise and running episodes from `state()`."""
        self.exploration.load_state(state)
        self.load_memory(state)
        if self.parameter_noise is not None:
            self.parameter_noise.load_state(state)

    def _reset(self, starts: NDArray[np.bool_]) -> None:
        if len(self._state) != len(starts):
            self._state = np.zeros((len(starts), self.network.state_size), np.float32)
        elif starts.any():
            self._state[starts] = 0.0
