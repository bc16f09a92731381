"""Settings of the networks of DreamerV3."""

from __future__ import annotations

from typing import Literal, NamedTuple

from typing_extensions import override

from rlrun.engine.nn.model_config import WHO_DRAWS_IN_ORDER, WHO_EMBEDS_ACTIONS, WHO_HAS_PRIVILEGES, ModelConfig
from rlrun.engine.settings.config import PositiveInt, fixed

Size = Literal["nano", "micro", "mini", "xxs", "xs", "s", "m", "l", "xl"]


class Widths(NamedTuple):
    """Sizes of the networks of DreamerV3.

    Attributes:
        hiddens: Widths of the dense layers of each network.
        recurrent: Size of the deterministic (recurrent) latent state.
        latents: Number of categorical variables in a stochastic latent state.
        classes: Number of classes of each categorical variable.
        conv_depth: Channels of the first convolution; each subsequent convolution doubles the channels.
    """

    hiddens: tuple[int, ...]
    recurrent: int
    latents: int
    classes: int
    conv_depth: int


SIZES: dict[Size, Widths] = {
    "nano": Widths((16,), 16, 4, 4, 2),
    "micro": Widths((32,), 32, 8, 8, 4),
    "mini": Widths((64,), 64, 16, 16, 8),
    "xxs": Widths((128,), 128, 32, 32, 16),
    "xs": Widths((256,), 256, 32, 32, 24),
    "s": Widths((512,) * 2, 512, 32, 32, 32),
    "m": Widths((640,) * 3, 1024, 32, 32, 48),
    "l": Widths((768,) * 4, 2048, 32, 32, 64),
    "xl": Widths((1024,) * 5, 4096, 32, 32, 96),
}
"""Sizes of the networks by preset. Those from `xs` on are from the paper's first version (arXiv:2301.04104v1, table
B.1), the smaller ones from RLlib."""


@fixed("the world model's latent state takes the place of a core", core=None, core_width=64, gtrxl={})
@fixed("the recurrent state already contains the history", views={})
@fixed("all layers are normalized and use silu", activation="tanh", normalization=None, orthogonal_init=True)
@fixed("images are encoded at the size at which they are decoded", conv=None)
@fixed("the critic sees the world model's states", shared_value=False)
@fixed("standard deviations are kept between 0.1 and 1", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("encoders need matching decoders, which rlrun builds itself", module=None, encoders={})
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class DreamerModelConfig(ModelConfig):
    """Network architecture of DreamerV3: a world model, an actor and a critic."""

    convolves_images = True

    size: Size = "xs"
    """Preset of all networks' sizes: nano, micro, mini, xxs, xs, s, m, l or xl. Settings below override parts of it."""
    hiddens: tuple[PositiveInt, ...] | None = None
    """Widths of the dense layers of each network; null for the preset `size`."""
    recurrent_width: PositiveInt | None = None
    """Size of the deterministic latent state, which is a GRU's; null for the preset `size`."""
    latents: PositiveInt | None = None
    """Number of categorical variables in the stochastic latent state; null for the preset `size`."""
    classes: PositiveInt | None = None
    """Number of classes of each categorical latent variable; null for the preset `size`."""
    conv_depth: PositiveInt | None = None
    """Channels of the first convolution over images; each of the three subsequent ones doubles the channels. null for
    the preset `size`."""

    @property
    def widths(self) -> Widths:
        """Sizes of the networks: those of the preset `size`, unless overridden by other settings."""
        of_size = SIZES[self.size]
        return Widths(
            self.hiddens or of_size.hiddens,
            self.recurrent_width or of_size.recurrent,
            self.latents or of_size.latents,
            self.classes or of_size.classes,
            self.conv_depth or of_size.conv_depth,
        )

    @property
    @override
    def dense_widths(self) -> tuple[int, ...]:
        return self.widths.hiddens

    @property
    @override
    def widths_after_images(self) -> tuple[int, ...]:
        return self.widths.hiddens
