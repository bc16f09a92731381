"""Acting and evaluation with the current weights of a training run's policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from rlrun.engine.data.action_kind import ActionKind, other_kind
from rlrun.engine.envs.env_config import WITHOUT_ENV, EnvConfig
from rlrun.engine.messages.errors import UsageError, did_you_mean
from rlrun.engine.rollout.evaluation import ActsInWorld, EvaluationResult, evaluate
from rlrun.engine.worlds.user_env import EnvLike, env_config

if TYPE_CHECKING:
    from rlrun.engine.league.league import League
    from rlrun.engine.training.act.acting_policy import ActingPolicy
    from rlrun.engine.training.assemble.description import Description


OTHER_KIND_PART = 4
"""An evaluation is repeated with the other kind of actions for its number of episodes divided by this number."""

FEWEST_OF_OTHER_KIND = 5
"""Minimum number of episodes that are repeated with the other kind of actions."""


class Acting:
    """Acts and evaluates with the current weights of a training run's policies, in this process.

    Args:
        description: The training's env, policies and seed.
        policies: Policies with current weights, by name.
        league: Frozen opponents in a multi-agent env; None if there are none.
        has_episodes: Whether training episodes are in progress, which an evaluation in the same env object would
            disturb.
    """

    def __init__(
        self,
        description: Description,
        policies: Mapping[str, ActingPolicy],
        league: League | None,
        *,
        has_episodes: bool,
    ) -> None:
        self._description = description
        self._policies = policies
        self._league = league
        self._has_episodes = has_episodes

    def policy(self, name: str = "") -> ActingPolicy:
        """Returns the policy with the given name, for acting.

        Args:
            name: Name of the policy; "" for the first one.

        Raises:
            UsageError: There is no such policy.
        """
        found = self._policies.get(name or next(iter(self._policies)))
        if found is None:
            known = ", ".join(self._policies)
            raise UsageError(
                f"unknown policy {name!r}{did_you_mean(name, self._policies) or f'; must be one of: {known}'}"
            )
        return found

    def only_policy(self) -> ActingPolicy:
        """Returns the training's policy, for acting.

        Raises:
            UsageError: There are several policies.
        """
        name, *others = self._policies
        if others:
            raise UsageError(
                f"this training has {len(self._policies)} policies ({', '.join(self._policies)}), so name the one that "
                f"acts: training.acting.policy({name!r}).act(observation)"
            )
        return self._policies[name]

    def behaviors(self) -> dict[str, ActsInWorld]:
        """Returns all policies that act in the env, by name, including the frozen opponents of a league."""
        acting: dict[str, ActsInWorld] = {name: own.behavior_in_episodes() for name, own in self._policies.items()}
        return acting if self._league is None else acting | self._league.acting()

    def _refuse_interruption(self, world: EnvConfig) -> None:
        """Validates that an evaluation's env has no training episode in progress."""
        instance = None if world.given is None else world.given.instance
        trained_in = self._description.env.given
        if self._has_episodes and instance is not None and trained_in is not None and trained_in.instance is instance:
            raise UsageError(
                f"env {world.id} is an instance, so evaluation would interrupt its training episode: pass the "
                "class instead, or another instance as eval_env="
            )

    def search(self, simulations: int) -> None:
        """Makes all policies run a Monte Carlo tree search before each action, including in evaluations and games.

        Args:
            simulations: Number of simulations per search; 0 for no search.

        Raises:
            UsageError: The env of a policy has no game model, which the search needs.
        """
        for policy in self._policies.values():
            policy.search(simulations)

    def evaluate(
        self,
        episodes: int = 20,
        *,
        seed: int = 0,
        actions: ActionKind | None = None,
        env: EnvLike | None = None,
        draw: Callable[[NDArray[Any] | None], None] | None = None,
    ) -> EvaluationResult:
        """Evaluates the policies with their current weights over a fixed number of episodes.

        Args:
            episodes: Number of episodes, whose seeds depend only on `seed`.
            seed: Seed of the episodes.
            actions: Whether actions are greedy or sampled; None for the training's default.
            env: Evaluation environment; None for the training's own evaluation environment (by default the training
                environment with its `evaluation_kwargs`).
            draw: Callback that receives the image [height, width, 3] of each step (None from an env that renders no
                images); only for multi-agent envs, whose episodes then run one after another. None for no rendering.

        Raises:
            SpecError: `env` is invalid; the error lists all mistakes.
            UsageError: The policy does not fit the environment, there is no environment, or the environment is an
                object that the training is stepping.
        """
        described, policies = self._description, self._description.policies
        with described.hangs_fail():
            world = described.world_of_evaluation() if env is None else env_config(env)
            self._refuse_interruption(world)
            if world.id == WITHOUT_ENV:
                raise UsageError("this policy was trained on data, without an env: name an env to evaluate it in")
            described.check_fits(world, {name: own.trainee.spaces for name, own in self._policies.items()})
            return evaluate(
                self.behaviors(),
                world,
                episodes,
                seed,
                mapping=policies.agent_mapping(),
                slots=policies.slots,
                actions=actions or described.actions,
                draw=draw,
            )

    def other_kind(self, actions: ActionKind | None = None, env: EnvConfig | None = None) -> ActionKind | None:
        """Returns the kind of actions, greedy or sampled, to compare an evaluation with; None for no comparison.

        The result is the kind that the evaluation does not use. A comparison is made for policies that sample discrete
        actions with learned probabilities, except in external envs (clients of a server), where each episode can be
        played only once.

        Args:
            actions: Kind of the evaluation's actions; None for the training's default.
            env: Evaluation environment; None for the training environment.
        """
        if (env or self._description.env).external is not None:
            return None
        compares = any(policy.samples_choices for policy in self._policies.values())
        return other_kind(actions or self._description.actions) if compares else None

    def evaluate_other_kind(
        self, episodes: int, *, seed: int = 0, actions: ActionKind | None = None, env: EnvConfig | None = None
    ) -> EvaluationResult | None:
        """Repeats an evaluation with the other kind of actions (greedy or sampled), for a quarter of its episodes.

        At least 5 episodes are run. The seed is the same.

        Args:
            episodes: Number of episodes of the evaluation.
            seed: Seed of the evaluation's episodes.
            actions: Kind of the evaluation's actions; None for the training's default.
            env: Evaluation environment; None for the training environment.

        Returns:
            Result with the other kind of actions; None if no comparison is made; see `other_kind`.
        """
        other = self.other_kind(actions, env)
        if other is None:
            return None
        played = max(-(-episodes // OTHER_KIND_PART), FEWEST_OF_OTHER_KIND)
        return self.evaluate(played, seed=seed, actions=other, env=env)
