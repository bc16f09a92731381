"""Algorithms from Python, a class each: `PPO("CartPole-v1", {"lr": 1e-3})` trains, acts, is saved and restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from rlrun.algorithm import Algorithm
from rlrun.algorithm_config import AlgorithmConfig
from rlrun.config import ConfigModel
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import check_env
from rlrun.envs.presets import with_preset
from rlrun.registry import algorithm_class
from rlrun.rollout.evaluation import EvaluationResult
from rlrun.training.learner_factory import silent
from rlrun.training.training import Training


def _as_written(config: ConfigModel | Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the settings that somebody has set, as plain data."""
    return config.model_dump(mode="json", exclude_unset=True) if isinstance(config, ConfigModel) else config


class TrainedAlgorithm:
    """An algorithm in an env, trained step by step: `rlrun.PPO` and its siblings name the algorithm.

    Nothing is started before the first `train`, `act`, `evaluate` or `save`. As a context manager it leaves no process
    behind.

    Args:
        env: The environment: an id, or a mapping or config with more; of a world of many agents too, for all of which
            the algorithm's one policy acts.
        config: Settings; those left out have their defaults.
        seed: Root seed.
        total_env_steps: How long the run is meant to be, if known: updates are compiled where that pays over such a
            run.
        announce: Called with a sentence when something is about to take long.

    Attributes:
        algorithm: The algorithm's name in a spec, or `package.module:Class` of one's own.
        training: What runs.

    Raises:
        SpecError: With everything that is wrong in `env` or `config`.
    """

    algorithm: ClassVar[str] = ""

    def __init__(
        self,
        env: EnvConfig | Mapping[str, Any] | str,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        total_env_steps: int | None = None,
        announce: Callable[[str], None] = silent,
    ) -> None:
        found = algorithm_class(self.algorithm)
        world = env if isinstance(env, EnvConfig) else EnvConfig.parse(env, path="env")
        if world.preset is not None:
            check_env(world)
            env, config = with_preset(_as_written(world), _as_written(config or {}), found.Config)
            world = EnvConfig.parse(env, path="env")
        self.training = Training(
            world,
            found(config if isinstance(config, AlgorithmConfig) else found.Config.parse(config or {}, path="config")),
            seed=seed,
            total_env_steps=total_env_steps,
            announce=announce,
        )

    @classmethod
    def restore(
        cls,
        path: Path | str,
        *,
        trust: bool = False,
        eager: bool = False,
        for_training: bool = True,
        announce: Callable[[str], None] = silent,
    ) -> Self:
        """Returns what a checkpoint describes, where it left off.

        Args:
            path: The checkpoint's directory.
            trust: Whether it may ask for more than what is known to be harmless.
            eager: Whether a run that began with compiled updates may go on without.
            for_training: Whether it is to be trained on or saved; for acting alone no episode is replayed.
            announce: Called with a sentence when something is about to take long.

        Raises:
            CheckpointCorrupt: A file of it is missing, truncated or altered.
            CheckpointRefused: It asks for more, and `trust` is False.
            CheckpointError: It is not a checkpoint, or of another algorithm.
            CompilerMissing: It began with compiled updates, there is no compiler here, and `eager` is False.
        """
        restored = cls.__new__(cls)
        restored.training = Training.restore(
            path,
            trained_by=algorithm_class(cls.algorithm) if cls.algorithm else Algorithm,
            trust=trust,
            eager=eager,
            for_training=for_training,
            announce=announce,
        )
        return restored

    @property
    def config(self) -> Any:
        """The settings."""
        return self.training.algorithm.config

    def train(self) -> dict[str, Any]:
        """Runs one iteration and returns its result, flat.

        Raises:
            TrainingFailed: An env, a plugin or a worker failed for good.
        """
        return self.training.step()

    def act(
        self, observation: Any, explore: bool = False, *, episode_start: bool = False, prev_reward: float = 0.0
    ) -> Any:
        """Returns the action for one observation: the likeliest one, or with `explore` a drawn one.

        Args:
            observation: What the env shows.
            explore: Whether the action is drawn.
            episode_start: Whether an episode begins with it, which only policies with memory or views need to know.
            prev_reward: What the env gave for the action before, which only `model.views` show.
        """
        return self.training.act(observation, explore, episode_start=episode_start, prev_reward=prev_reward)

    def act_from(
        self,
        memory: Mapping[str, Any] | None,
        observation: Any,
        explore: bool = False,
        *,
        prev_reward: float = 0.0,
        prev_action: Any = None,
    ) -> tuple[Any, Mapping[str, Any]]:
        """Returns the action for one observation of an episode whose memory the caller keeps, and the memory behind it.

        The memory is plain data: the recurrent state, and the last observations, actions and rewards that
        `model.views` show. So any number of episodes can go on side by side.

        Args:
            memory: What this returned for the observation before; None at an episode's start.
            observation: What the env shows, an action mask included.
            explore: Whether the action is drawn.
            prev_reward: What the env gave for the action before.
            prev_action: What the env was given, if that was not the action that this returned.
        """
        return self.training.act_from(memory, observation, explore, prev_reward=prev_reward, prev_action=prev_action)

    def evaluate(
        self, episodes: int = 20, *, seed: int = 0, explore: bool = False, env: EnvConfig | None = None
    ) -> EvaluationResult:
        """Runs exactly so many episodes with the present weights and the saved normalisation.

        Args:
            episodes: How many; their seeds are fixed beforehand.
            seed: Seed of the episodes.
            explore: Whether actions are drawn instead of the likeliest ones.
            env: Another environment than the one trained on.

        Raises:
            UsageError: The policy does not fit that environment.
        """
        return self.training.evaluate(episodes, seed=seed, explore=explore, env=env)

    def save(self, path: Path | str) -> Path:
        """Writes a checkpoint and returns its directory; it is there whole or not at all."""
        return self.training.save(path)

    def close(self) -> None:
        """Ends the workers and learners; the next call would start everything anew."""
        self.training.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class A2C(TrainedAlgorithm):
    """Advantage actor-critic."""

    algorithm = "a2c"


class A3C(TrainedAlgorithm):
    """Asynchronous advantage actor-critic."""

    algorithm = "a3c"


class AlphaZero(TrainedAlgorithm):
    """AlphaZero, in worlds that are games which can be searched in."""

    algorithm = "alphazero"


class Apex(TrainedAlgorithm):
    """Ape-X DQN: DQN over a distributed prioritized replay."""

    algorithm = "apex"


class ApexDDPG(TrainedAlgorithm):
    """Ape-X DPG: DDPG over a distributed prioritized replay."""

    algorithm = "apex_ddpg"


class APPO(TrainedAlgorithm):
    """Asynchronous PPO."""

    algorithm = "appo"


class ARS(TrainedAlgorithm):
    """Augmented random search."""

    algorithm = "ars"


class AsyncDQN(TrainedAlgorithm):
    """Asynchronous n-step Q-learning."""

    algorithm = "async_dqn"


class CEM(TrainedAlgorithm):
    """Cross-entropy method over parameters."""

    algorithm = "cem"


class CMAES(TrainedAlgorithm):
    """Covariance matrix adaptation."""

    algorithm = "cmaes"


class DDPG(TrainedAlgorithm):
    """Deep deterministic policy gradient."""

    algorithm = "ddpg"


class DDPPO(TrainedAlgorithm):
    """Decentralized distributed PPO."""

    algorithm = "ddppo"


class DQN(TrainedAlgorithm):
    """Deep Q-network, up to Rainbow."""

    algorithm = "dqn"


class Dreamer(TrainedAlgorithm):
    """DreamerV3: learning in the imagination of a world model."""

    algorithm = "dreamer"


class ES(TrainedAlgorithm):
    """Evolution strategies."""

    algorithm = "es"


class Gorila(TrainedAlgorithm):
    """DQN with actors that learn."""

    algorithm = "gorila"


class Impala(TrainedAlgorithm):
    """Importance weighted actor-learner architecture."""

    algorithm = "impala"


class IPPO(TrainedAlgorithm):
    """Independent PPO of the agents of a world."""

    algorithm = "ippo"


class LinTS(TrainedAlgorithm):
    """Linear Thompson sampling."""

    algorithm = "lints"


class LinUCB(TrainedAlgorithm):
    """Linear upper confidence bounds."""

    algorithm = "linucb"


class MADDPG(TrainedAlgorithm):
    """Centralised critics over decentralised actors."""

    algorithm = "maddpg"


class MAML(TrainedAlgorithm):
    """Model-agnostic meta-learning."""

    algorithm = "maml"


class MAPPO(TrainedAlgorithm):
    """PPO with a value of the whole world's state."""

    algorithm = "mappo"


class MBMPO(TrainedAlgorithm):
    """Meta-policy optimization in a learned model."""

    algorithm = "mbmpo"


class MBPO(TrainedAlgorithm):
    """Model-based policy optimization."""

    algorithm = "mbpo"


class PG(TrainedAlgorithm):
    """REINFORCE."""

    algorithm = "pg"


class PPO(TrainedAlgorithm):
    """Proximal policy optimization."""

    algorithm = "ppo"


class QLearning(TrainedAlgorithm):
    """Tabular Q-learning."""

    algorithm = "q_learning"


class QMIX(TrainedAlgorithm):
    """Q-learning of a team with a monotonic mixing network."""

    algorithm = "qmix"


class QTOpt(TrainedAlgorithm):
    """Q-learning with continuous actions and no actor."""

    algorithm = "qtopt"


class R2D2(TrainedAlgorithm):
    """Recurrent Q-learning over a replay of sequences."""

    algorithm = "r2d2"


class R2D3(TrainedAlgorithm):
    """R2D2 with demonstrations."""

    algorithm = "r2d3"


class Random(TrainedAlgorithm):
    """Actions at random."""

    algorithm = "random"


class SAC(TrainedAlgorithm):
    """Soft actor-critic."""

    algorithm = "sac"


class TD3(TrainedAlgorithm):
    """Twin delayed DDPG."""

    algorithm = "td3"


class ValueIteration(TrainedAlgorithm):
    """Value iteration of a finite env that tells its model."""

    algorithm = "value_iteration"


class VDN(TrainedAlgorithm):
    """Q-learning of a team whose value is the sum of its members'."""

    algorithm = "vdn"
