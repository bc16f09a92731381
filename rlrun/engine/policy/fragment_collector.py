"""Recording of fragments by an acting policy, with parameter noise (NumPy)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import TAKEN_LOGP, SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import viewed
from rlrun.engine.functional.moments import Moments
from rlrun.engine.nn.acting import ActingNetwork, Heads
from rlrun.engine.policy.action_spaces.action_space import ActionSpace, Floats
from rlrun.engine.policy.episode_memory import EpisodeMemory
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.policy.weights import Weights

if TYPE_CHECKING:
    from rlrun.engine.policy.exploration.parameter_noise import ParameterNoise

Flags = NDArray[np.bool_]

Execution = Callable[[ActingNetwork], ActingNetwork]
"""Function that converts an acting network to another implementation."""

LogProbs = Callable[[Floats, Any], Floats]
"""Function of network outputs [B, K] and actions that returns the actions' log-probabilities [B] in the env's units."""


class Recording:
    """Recorder of additional fragment columns, such as log-probabilities; this base class records none.

    Attributes:
        reads_heads: Whether the recorder needs the outputs of the network's heads at each step.
        replaces_actions: Whether the recorder may replace the actions that exploration chose.
    """

    reads_heads: bool = False
    replaces_actions: bool = False

    def load(self, flat: Floats) -> None:
        """Loads the weights of the recorder's own networks from the flat vector of parameters needed for acting."""
        return

    def collect_by(self, execution: Execution) -> None:
        """Replaces the recorder's networks (such as a value network) with other implementations, such as C kernels."""
        return

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the recorder's columns for T steps in B env slots, [T, B, ...]."""
        return {}

    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: Flags | None) -> None:
        """Records the outputs of all network heads at one step.

        Args:
            batch: The fragment's columns.
            where: Index of the (t, b) entries to fill: row t, or the entries of the slots that act.
            heads: Outputs of all heads by name, [B, K].
            acts: Mask of the env slots that act, [B]; None for all.
        """
        return

    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        """Computes, in place, columns of a complete fragment that are cheaper to compute for all steps at once."""
        return


class FragmentCollector:
    """Runs an acting policy's network, with parameter noise if set, and records the columns of fragments.

    Args:
        network: The policy's acting network.
        action_space: Converts between env actions and the policy's own representation of them.
        observation_filter: The policy's observation filter.
        memory: Recurrent state and recent steps of the running episodes.
        parameter_noise: Parameter noise; None if there is none.
        recording: Recorder of additional columns; None if there is none.
        world_columns: Columns to record about the whole multi-agent env: `WORLD_STATE`, `ACTS`, both or neither.

    Attributes:
        network: The policy's acting network, without parameter noise.
        collecting: Version of `network` used for collecting, with parameter noise or a different implementation.
        filter: The policy's observation filter.
        log_probs: Function for the log-probabilities of actions taken, recorded as `TAKEN_LOGP`; None if not recorded.
        runs_always: Whether the network runs at each step, even if exploration does not need its outputs.
        reads_heads: Whether the recorder needs the outputs of the network's heads at each step.
        loads: Whether new weights must be passed to `load`, for the recorder or the parameter noise.
    """

    def __init__(
        self,
        network: ActingNetwork,
        action_space: ActionSpace,
        observation_filter: ObservationFilter,
        memory: EpisodeMemory,
        parameter_noise: ParameterNoise | None,
        recording: Recording | None,
        world_columns: tuple[str, ...],
    ) -> None:
        self.network = network
        self.collecting = network if parameter_noise is None else copy.deepcopy(network)
        self.action_space = action_space
        self.filter = observation_filter
        self.parameter_noise = parameter_noise
        self.recording = recording
        self.world_columns = world_columns
        self.log_probs: LogProbs | None = None
        self.reads_heads = recording is not None and recording.reads_heads
        self.runs_always = bool(memory.state_size) or self.reads_heads
        self.loads = recording is not None or parameter_noise is not None
        self._memory = memory

    def load(self, weights: Weights) -> None:
        """Loads the weights of the recorder and of the parameter noise, but not the weights of the policy's network."""
        if self.recording is not None:
            self.recording.load(weights.acting)
        if self.parameter_noise is not None:
            self.parameter_noise.load(weights)

    def collect_by(self, execution: Execution) -> None:
        """Replaces the networks that act while collecting with other implementations, such as C kernels."""
        self.collecting = execution(self.collecting)
        if self.recording is not None:
            self.recording.collect_by(execution)

    def record_log_probs(self, log_probs: LogProbs) -> None:
        """Adds the log-probabilities of actions to fragments, in the column `TAKEN_LOGP`, for data sets."""
        self.log_probs, self.runs_always = log_probs, True

    def allocate(self, length: int, slots: int, lent: SampleBatch | None = None) -> SampleBatch:
        """Allocates the columns of a fragment that are filled while acting, for T steps in B env slots.

        Args:
            length: Steps in the fragment, T.
            slots: Env slots, B.
            lent: Columns whose memory a replay buffer provides, including `actions`; None to allocate `actions` too.
        """
        if lent is None:
            space = self.action_space
            batch = SampleBatch(actions=np.empty((length, slots, *space.action_shape), space.action_dtype))
        else:
            batch = SampleBatch(lent)
        if self.recording is not None:
            batch.update(self.recording.allocate(length, slots))
        if self._memory.is_used:
            batch.update(self._memory.allocate(length, slots))
        if self.log_probs is not None:
            batch[TAKEN_LOGP] = np.empty((length, slots), np.float32)
        return batch

    def run(self, observations: Any, noise: Floats | None, acts: Flags | None) -> Heads:
        """Runs the network on one step's observations in B env slots, and updates the recurrent state."""
        memory = self._memory
        inputs = {"obs": self.filter(observations) if self.filter.is_on else observations}
        heads, after = self.collecting(inputs, memory.recurrent if memory.state_size else None, None, noise)
        if after is not None:
            memory.recurrent = after if acts is None else np.where(acts[:, None], after, memory.recurrent)
        return heads

    def close(self, batch: SampleBatch, episode_starts: Flags, shown: Flags) -> None:
        """Records the past steps that belong to the closing observations, which follow a fragment's last step.

        Args:
            batch: The fragment's columns, changed in place.
            episode_starts: Mask of the slots whose closing observation starts an episode, [B].
            shown: Mask of the slots that have a closing observation, [B].
        """
        if self._memory.views is not None:
            self._memory.views.close(batch, episode_starts, shown)

    def moments(self, observations: Any, filled: Flags) -> dict[str, Moments]:
        """Returns count, mean and variance of a fragment's raw observations, which update the observation filter.

        Args:
            observations: The fragment's column `obs`, [T + 1, B, ...]; the closing row does not count.
            filled: Mask of the entries that hold an observation, [T, B].
        """
        if not self.filter.is_on:
            return {}
        return self.filter.moments(map_tree(lambda leaf: leaf[:-1], observations), filled)

    def postprocess(self, batch: SampleBatch) -> None:
        """Completes a fragment for learning, in place: adds columns such as past steps, and adapts the parameter noise.

        Args:
            batch: The recorded columns, with the raw observations `obs` [T + 1, B, ...].
        """
        if self._memory.views is not None:
            self._memory.views.carry(batch)
        if self.parameter_noise is not None and self.parameter_noise.adapts:
            seen = viewed(batch)["obs"]
            rows = self.filter(map_tree(lambda leaf: leaf[:-1].reshape(-1, *leaf.shape[2:]), seen))
            (own, _), (varied, _) = self.network({"obs": rows}), self.collecting({"obs": rows})
            self.parameter_noise.adapt(own["outputs"], varied["outputs"])
        if self.recording is not None:
            self.recording.postprocess(batch, self)

    def closing_heads(self, observations: Any) -> Heads:
        """Returns the outputs of all network heads for the observations after a fragment's last step.

        These outputs serve, for example, as bootstrap values. The observations must be normalized. The recurrent state
        is not updated.
        """
        heads, _ = self.collecting({"obs": observations}, self._memory.before(observations))
        return heads
