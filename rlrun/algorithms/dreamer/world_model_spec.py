"""Spec of a world model, shared by the torch and the NumPy implementation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlrun.engine.data.tree import leaves
from rlrun.engine.nn.observation_leaf import ObservationLeaf

UNIFORM_SHARE = 0.01
"""Unimix: uniform share of every categorical distribution, so that no logarithm is infinite (arXiv:2301.04104)."""

NORM_EPSILON = 1e-3
"""Epsilon of layer normalization, added to the variance."""

NUM_CONVOLUTIONS = 4
"""Number of convolutions over an image, each with stride 2."""


@dataclass(frozen=True)
class WorldModelSpec:
    """Spec of a recurrent state-space model with categorical latents, and of its actor and critic.

    A state is a deterministic part h [R] and a stochastic part z, K one-hot vectors of C classes each. The transition
    is h' = GRU(h, z, a) with action a. The latent z' is sampled given h' (prior), or given h' and the observation
    (posterior).

    Attributes:
        leaves: Entries of the observation with their encodings: a tree of `ObservationLeaf`.
        action_width: Size A of an action as input of the model.
        actor_outputs: Size of the actor's output layer, the parameters of an action distribution.
        hiddens: Widths of the dense layers of each network.
        recurrent: Size of the deterministic state, R.
        latents: Number of categorical latents, K.
        classes: Classes of each categorical latent, C.
        conv_depth: Channels of the first convolution over images.
        num_bins: Number of bins of the two-hot encoding of rewards and returns.

    Source:
        Hafner et al., "Mastering diverse domains through world models", arXiv:2301.04104.
    """

    leaves: Any
    action_width: int
    actor_outputs: int
    hiddens: tuple[int, ...]
    recurrent: int
    latents: int
    classes: int
    conv_depth: int
    num_bins: int

    @property
    def dense_parts(self) -> list[tuple[int, ObservationLeaf]]:
        """Non-image leaves of an observation, with their indices among all leaves."""
        return [(i, leaf) for i, leaf in enumerate(leaves(self.leaves)) if leaf.is_dense]

    @property
    def images(self) -> list[tuple[int, ObservationLeaf]]:
        """Image leaves of an observation, with their indices among all leaves."""
        return [(i, leaf) for i, leaf in enumerate(leaves(self.leaves)) if leaf.kind == "image"]

    @property
    def dense_width(self) -> int:
        """Total size of the non-image leaves, encoded as vectors."""
        return sum(leaf.width for _, leaf in self.dense_parts)

    @property
    def latent_width(self) -> int:
        """Size of the stochastic latent, K * C."""
        return self.latents * self.classes

    @property
    def features(self) -> int:
        """Size F of the state features, R + K * C."""
        return self.recurrent + self.latent_width

    @property
    def state_size(self) -> int:
        """Size of the recurrent state for acting: latent state and last action."""
        return self.features + self.action_width

    @property
    def convolved_channels(self) -> tuple[int, ...]:
        """Number of output channels of each convolution of the image encoder."""
        return tuple(self.conv_depth * 2**i for i in range(NUM_CONVOLUTIONS))

    def convolved_shape(self, image: ObservationLeaf) -> tuple[int, int, int]:
        """Channels, height and width of an image after all convolutions."""
        _, height, width = image.channels_height_width
        return self.convolved_channels[-1], height >> NUM_CONVOLUTIONS, width >> NUM_CONVOLUTIONS

    @property
    def embedding_width(self) -> int:
        """Size E of an observation's embedding."""
        convolved = [channels * height * width for channels, height, width in map(self.convolved_shape, self._images)]
        return sum(convolved) + (self.hiddens[-1] if self.dense_width else 0)

    @property
    def _images(self) -> list[ObservationLeaf]:
        return [leaf for _, leaf in self.images]
