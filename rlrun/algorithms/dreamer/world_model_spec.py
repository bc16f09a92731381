"""Spec of a world model, which a torch and a NumPy executor both run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlrun.data.tree import leaves
from rlrun.nn.observation_leaf import ObservationLeaf

UNIFORM_SHARE = 0.01
"""Unimix: uniform share of every categorical distribution, so that no logarithm is infinite (arXiv:2301.04104)."""

NORM_EPSILON = 1e-3
"""Epsilon that layer normalisation adds to a variance."""

NUM_CONVOLUTIONS = 4
"""Convolutions over an image, each of which halves its sides."""


@dataclass(frozen=True)
class WorldModelSpec:
    """A recurrent state-space model with categorical latents, and the networks of an actor and a critic on its states.

    A state is a recurrent part h [R] and a latent part z, K one-hot vectors of C classes each. From state to state,
    h' = GRU(h, z, a) with the action a between them; z' is drawn from a distribution given h' (prior), or given h' and
    the observation (posterior).

    Attributes:
        leaves: The tree of `ObservationLeaf`.
        action_width: A, numbers of an action as the model sees it.
        actor_outputs: Numbers that describe an action distribution, as the actor's last layer puts them out.
        hiddens: Widths of the dense layers of each network.
        recurrent: R.
        latents: K.
        classes: C.
        conv_depth: Channels of the first convolution over images.
        num_bins: Bins of rewards and returns.

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
        """The parts of an observation that enter as numbers, with their places among all."""
        return [(i, leaf) for i, leaf in enumerate(leaves(self.leaves)) if leaf.is_dense]

    @property
    def images(self) -> list[tuple[int, ObservationLeaf]]:
        """The images of an observation, with their places among all parts."""
        return [(i, leaf) for i, leaf in enumerate(leaves(self.leaves)) if leaf.kind == "image"]

    @property
    def dense_width(self) -> int:
        """Numbers of the parts that enter as numbers."""
        return sum(leaf.width for _, leaf in self.dense_parts)

    @property
    def latent_width(self) -> int:
        """Numbers of a latent part, K * C."""
        return self.latents * self.classes

    @property
    def features(self) -> int:
        """Numbers of a state, R + K * C."""
        return self.recurrent + self.latent_width

    @property
    def state_size(self) -> int:
        """Size of the acting state: the latent state, and the action after it."""
        return self.features + self.action_width

    @property
    def convolved_channels(self) -> tuple[int, ...]:
        """Channels after each convolution."""
        return tuple(self.conv_depth * 2**i for i in range(NUM_CONVOLUTIONS))

    def convolved_shape(self, image: ObservationLeaf) -> tuple[int, int, int]:
        """Returns channels, height and width of an image after all convolutions."""
        _, height, width = image.channels_height_width
        return self.convolved_channels[-1], height >> NUM_CONVOLUTIONS, width >> NUM_CONVOLUTIONS

    @property
    def embedding_width(self) -> int:
        """Numbers that an observation is encoded as."""
        convolved = [channels * height * width for channels, height, width in map(self.convolved_shape, self._images)]
        return sum(convolved) + (self.hiddens[-1] if self.dense_width else 0)

    @property
    def _images(self) -> list[ObservationLeaf]:
        return [leaf for _, leaf in self.images]
