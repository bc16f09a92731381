import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.actor_q.ddpg import DDPG, TD3
from rlrun.algorithms.actor_q.sac import SAC
from rlrun.algorithms.dqn.apex import Apex
from rlrun.algorithms.dqn.async_dqn import AsyncDQN
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.multi_agent.maddpg import MADDPG
from rlrun.algorithms.multi_agent.qmix import QMIX
from rlrun.algorithms.multi_agent.vdn import VDN
from rlrun.algorithms.qtopt.qtopt import QTOpt
from rlrun.algorithms.recurrent_q.r2d2 import R2D2
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.weights import Weights
from rlrun.engine.worlds.world_view import WorldView

SEEN = Box(-1.0, 1.0, (2,))
CHOICES, BOUNDED = Spaces(SEEN, Discrete(3)), Spaces(SEEN, Box(-1.0, 1.0, (2,)))
WORLD = WorldView(Box(-1.0, 1.0, (4,)), 2, "parallel")


class Still(Exploration):
    """Takes action 0, or the middle of a Box, whatever the network's outputs."""

    def __init__(self, actions):
        self.actions = actions

    def noise(self, generator, length, slots):
        return np.zeros((length, slots, 0), np.float32)

    def explore(self, run, noise, episode_starts, acts, mask):
        return self.sample(run(), None, mask)

    def sample(self, heads, generator, mask):
        return np.zeros_like(self.actions.mode(heads["outputs"]))


class NoiseOfOneStep(Still):
    """Draws no noise for the further steps of a fragment."""

    def noise(self, generator, length, slots):
        return np.zeros((1, slots), np.float32)


OWN = f"{__name__}:Still"


@pytest.mark.parametrize(
    ("algorithm", "spaces"),
    [
        *((algorithm, CHOICES) for algorithm in (DQN, Apex, AsyncDQN, R2D2, SAC, VDN, QMIX, MADDPG)),
        *((algorithm, BOUNDED) for algorithm in (DDPG, TD3, QTOpt, SAC, MADDPG)),
    ],
)
def test_a_custom_exploration_chooses_the_actions_of_every_exploring_algorithm(algorithm, spaces):
    settings = {"exploration": OWN, "learning_starts": 0}
    known = algorithm.Config.model_fields
    made = algorithm(algorithm.Config.parse({name: value for name, value in settings.items() if name in known}))
    in_world = issubclass(algorithm, VDN | MADDPG)
    policy = made.policy_in_world(spaces, WORLD, 0) if in_world else made.policy(spaces, 0)
    behavior, (start, size) = policy.behavior(), policy.acting_range
    generator = np.random.default_rng(0)
    acting = policy.parameters.gather(policy.module).numpy()[start : start + size]
    behavior.load(Weights(0, acting, schedules={"epsilon": 1.0, "exploration_noise": 1.0}))
    seen = generator.standard_normal((6, 2), np.float32)
    assert (behavior.actions(seen, generator) == 0).all()
    assert (behavior.actions(seen, None) != 0).any()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (f"{__name__}:Stil", f"the exploration '{__name__}:Stil' does not exist: .*did you mean 'Still'"),
        (f"{__name__}:SEEN", f"exploration {__name__}:SEEN must be a class or a function that creates one, got Box"),
        (
            "builtins:repr",
            "builtins:repr must create a rlrun.plugin.Exploration, not str",
        ),
        (
            f"{__name__}:NoiseOfOneStep",
            (
                r"shape \[T, B, \.\.\.\] for T steps of B env slots; for T = 2 and B = 3 its noise\(\) "
                r"returned \(1, 3\)"
            ),
        ),
    ],
)
def test_objects_that_are_not_explorations_are_refused_with_the_reason(path, reason):
    with pytest.raises(UsageError, match=reason):
        DQN(DQN.Config.parse({"exploration": path})).policy(CHOICES, 0).behavior()


def test_the_error_for_a_misspelled_exploration_suggests_a_name_and_the_form_of_a_path(wording):
    with wording.raised(SpecError, "package.module:Name", "sof_q", "soft_q"):
        DQN.Config.parse({"exploration": "sof_q"})
