"""QMIX: monotonic value factorization with a mixing network conditioned on the env's global state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.algorithms.multi_agent.vdn import VDN, VDNConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import PositiveInt

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.worlds.world_view import WorldView


class QMIXConfig(VDNConfig):
    """Settings of QMIX (Rashid et al., arXiv:1803.11485)."""

    mixer_hidden: PositiveInt = 32
    """Width of the mixing network's hidden layer."""

    @property
    @override
    def mixer_width(self) -> int:
        return self.mixer_hidden

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path == "mixer_hidden" or super().shapes_parameters(path)


class QMIX(VDN):
    """Monotonic value factorization: a mixing network combines the members' Q values (arXiv:1803.11485)."""

    Config = QMIXConfig
    config: QMIXConfig

    @override
    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        if world.state_space is None:
            raise UsageError(
                "qmix mixes values using the state of the world, but this world does not define it: add "
                "state_space and state() to it, or use vdn"
            )
        return super().policy_in_world(spaces, world, seed)
