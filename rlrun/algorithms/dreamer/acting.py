"""Action selection of DreamerV3: posterior inference and actor, step by step (NumPy; convolutions in torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.dreamer.actions import DreamerActions
from rlrun.algorithms.dreamer.symlog import symlog_of_array
from rlrun.algorithms.dreamer.world_model_spec import NORM_EPSILON, UNIFORM_SHARE, WorldModelSpec
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.nn.acting import Floats, Heads
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.action_spaces.action_space import Actions
from rlrun.engine.policy.exploration.exploration import Exploration, RunNetwork
from rlrun.engine.policy.exploration.exploration import Heads as ActingHeads


class WorldModelActor:
    """Network for action selection: infers the latent state from each observation, and selects an action.

    The recurrent state [B, state_size] concatenates deterministic latent, stochastic latent and last action.
    With noise, latents and actions are sampled; without noise, they are the modes of their distributions.

    Args:
        spec: Spec of the world model.
        slots: Offsets of the parameters in the loaded flat vector, by name.
        actions: Action distributions of the actor.

    Attributes:
        state_size: Size of the recurrent state.
    """

    knows_chosen = True

    def __init__(self, spec: WorldModelSpec, slots: Mapping[str, ParameterSlot], actions: DreamerActions) -> None:
        self.spec = spec
        self.slots = dict(slots)
        self.actions = actions
        self.state_size = spec.state_size
        self._parameters: dict[str, Floats] = {}
        self._convolve: Callable[[Any], Floats] | None = None

    def load(self, flat: Floats) -> None:
        """Loads the flat parameter vector, which may be a read-only array in Ray's object store."""
        for name, slot in self.slots.items():
            parameter = flat[slot.offset : slot.offset + slot.size].reshape(slot.shape)
            is_matrix = len(slot.shape) == 2
            self._parameters[name] = np.ascontiguousarray(parameter.T) if is_matrix else parameter.copy()
        if self.spec.images:
            self._convolve = _convolutions(self.spec, self._parameters)

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Pickled state without parameters, which are loaded from broadcasts."""
        return {**self.__dict__, "_parameters": {}, "_convolve": None}

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """One step: recurrent model, posterior of the latents given the observation, and actor.

        Args:
            inputs: Dict with `obs`, a tree of observations [B, ...].
            state: Recurrent state, [B, state_size].
            episode_starts: Mask of slots whose observation starts an episode, [B]; None for no starts.
            noise: Uniform noise of the latents, followed by the actions' noise, [B, K + noise]; None for modes.

        Returns:
            `outputs` [B, outputs] of the actor, its `actions` [B, ...], and the recurrent state after the step.
        """
        assert state is not None
        spec = self.spec
        if episode_starts is not None:
            state = np.where(episode_starts[:, None], np.float32(0), state)
        recurrent, latent_and_action = state[:, : spec.recurrent], state[:, spec.recurrent :]
        gates_in = self._layer("world_model.inputs", latent_and_action)
        gates = self._layer("world_model.gru", np.concatenate([gates_in, recurrent], -1), is_hidden=False)
        reset, candidate, update = np.split(gates, 3, -1)
        candidate = np.tanh(sigmoid(reset) * candidate)
        recurrent = recurrent + sigmoid(update - 1) * (candidate - recurrent)
        embedded = np.concatenate([recurrent, self._encode(inputs["obs"])], -1)
        latent = self._draw(self._head("world_model.posterior", embedded), None if noise is None else noise)
        features = np.concatenate([recurrent, latent], -1)
        outputs = self.actions.outputs(self._head("actor", features)).astype(np.float32, copy=False)
        space = self.actions.space
        chosen = space.mode(outputs) if noise is None else space.sample(outputs, noise[:, spec.latents :])
        return {"outputs": outputs, "actions": chosen}, np.concatenate([features, self.actions.seen(chosen)], -1)

    def after_actions(self, state: Floats, actions: Actions) -> Floats:
        """Recurrent state [B, state_size] with the last actions replaced by other actions [B, ...]."""
        return np.concatenate([state[:, : self.spec.features], self.actions.seen(actions)], -1)

    def after_rewards(self, state: Floats, rewards: NDArray[Any]) -> Floats:
        """Returns the recurrent state unchanged, since the world model predicts rewards instead of observing them."""
        return state

    def _layer(self, name: str, x: Floats, *, is_hidden: bool = True) -> Floats:
        """Forward pass of a dense layer with layer normalization."""
        own = self._parameters
        x = x @ own[f"{name}.weight"]
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(NORM_EPSILON))
        x = x * own[f"{name}.scale"] + own[f"{name}.shift"]
        return x * sigmoid(x) if is_hidden else x

    def _hidden(self, name: str, x: Floats) -> Floats:
        i = 0
        while f"{name}.{i}.weight" in self._parameters:
            x = self._layer(f"{name}.{i}", x)
            i += 1
        return x

    def _head(self, name: str, x: Floats) -> Floats:
        outputs: Floats = self._hidden(f"{name}.hidden", x) @ self._parameters[f"{name}.output.weight"]
        outputs += self._parameters[f"{name}.output.bias"]
        return outputs

    def _encode(self, observations: Any) -> Floats:
        """Encodes a tree of observations [B, ...] as embeddings [B, E]."""
        parts: list[Floats] = []
        if self.spec.dense_width:
            columns = leaves(map_tree(lambda _, column: column, self.spec.leaves, observations))
            dense = np.concatenate([leaf.dense(columns[i]) for i, leaf in self.spec.dense_parts], -1)
            parts.append(self._hidden("world_model.encoder", symlog_of_array(dense)))
        if self._convolve is not None:
            parts.append(self._convolve(observations))
        return np.concatenate(parts, -1)

    def _draw(self, logits: Floats, noise: Floats | None) -> Floats:
        """One-hot latents [B, K * C]: samples of the categorical distributions by uniform noise, or their modes."""
        spec = self.spec
        logits = logits.reshape(len(logits), spec.latents, spec.classes)
        if noise is None:
            chosen = logits.argmax(-1)
        else:
            powers = np.exp(logits - logits.max(-1, keepdims=True))
            distributions = powers / powers.sum(-1, keepdims=True) * np.float32(1 - UNIFORM_SHARE)
            distributions += np.float32(UNIFORM_SHARE / spec.classes)
            chosen = (distributions.cumsum(-1)[..., :-1] <= noise[:, : spec.latents, None]).sum(-1)
        one_hot: Floats = (chosen[..., None] == np.arange(spec.classes)).astype(np.float32)
        return one_hot.reshape(len(logits), spec.latent_width)


def sigmoid(x: Floats) -> Floats:
    """Sigmoid 1 / (1 + exp(-x)), computed with tanh to avoid overflow."""
    result: Floats = np.float32(0.5) * np.tanh(np.float32(0.5) * x) + np.float32(0.5)
    return result


def _convolutions(spec: WorldModelSpec, parameters: Mapping[str, Floats]) -> Callable[[Any], Floats]:
    """Creates the convolutional encoder of images [B, ...] to features [B, ...], evaluated in torch."""
    import torch

    from rlrun.algorithms.dreamer.world_model import WorldModel

    views = {name: torch.from_numpy(own) for name, own in parameters.items() if ".encoder_images." in name}
    model = WorldModel(spec, views)

    def convolve(observations: Any) -> Floats:
        rows = map_tree(lambda leaf: torch.as_tensor(leaf).unsqueeze(1), observations)
        with torch.inference_mode():
            images = enumerate(model.pixels(rows))
            parts = [model.convolve(f"world_model.encoder_images.{i}", image) for i, image in images]
            found: Floats = torch.cat(parts, -1).numpy()
        return found

    return convolve


class DrawnActions(Exploration):
    """Exploration strategy that executes the actions that `WorldModelActor` has already sampled.

    Args:
        actions: Action distributions of the actor.
        latents: Number of categorical latents sampled per step, K.
    """

    samples_policy = True

    def __init__(self, actions: DreamerActions, latents: int) -> None:
        self.actions = actions
        self.latents = latents
        self.network_noise = latents + actions.space.num_noise

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples noise for each step and env: uniform numbers for the K latents, then the noise of the action."""
        return self._drawn(generator, (length, slots))

    def _drawn(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        uniform = generator.random((*shape, self.latents), np.float32)
        return np.concatenate([uniform, self.actions.space.noise(generator, shape)], -1)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: NDArray[Any] | None,
    ) -> Actions:
        return run()["actions"]

    @override
    def network_draws(self, generator: np.random.Generator, slots: int) -> Floats:
        return self._drawn(generator, (slots,))

    @override
    def sample(self, heads: ActingHeads, generator: np.random.Generator, mask: NDArray[Any] | None) -> Actions:
        return heads["actions"]
