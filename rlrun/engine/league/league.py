"""League training (self-play): a pool of past snapshots of policies, rating games, and the choice of opponents."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.league.frozen_policy import FrozenPolicy, loaded_weights, saved_weights
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.league.matches import Matches
from rlrun.engine.league.ratings import Payoffs, table, total
from rlrun.engine.league.scripted_opponent import ScriptedPlayer
from rlrun.engine.policy.weights import Lineup, Member, Weights
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.league.seat_behavior import SeatBehavior
    from rlrun.engine.rollout.evaluation import ActsInWorld

LEAGUE_METRICS = (
    Metric("league/members", "members", "Past selves in the pool"),
    Metric(
        "league/elo_<policy>",
        "Elo",
        "Elo rating of a policy's newest snapshot, relative to the first policy's initial weights (0)",
        mode="max",
    ),
    Metric(
        "league/win_rate_<policy>",
        "",
        "Mean win rate of a policy's newest snapshot against its past opponents; a draw counts half",
        mode="max",
    ),
)
"""Metrics of a training run with a league."""


class League:
    """League of policies in training: adds snapshots to the opponent pool, rates them in games, and picks opponents.

    A seat is a name in the policy mapping without a trained policy: frozen opponents act for its agents. The seat's
    lineup lists these opponents with their probabilities.

    Args:
        settings: Settings of the pool and its ratings.
        seats: Settings of each seat by name.
        trainees: Policies in training, by name.
        make_seats: For each seat, a function that creates the behavior policy of its agents; opponents are set later.
        matches: Object that plays the rating games.
        saved: Frozen policies from checkpoints that play as opponents, by the path in the seats' settings.
        seed: Seed of the rating games.
    """

    def __init__(
        self,
        settings: LeagueSettings,
        seats: Mapping[str, SeatSettings],
        trainees: Mapping[str, Trainee],
        make_seats: Mapping[str, Callable[[], SeatBehavior]],
        matches: Matches,
        saved: Mapping[str, FrozenPolicy],
        seed: int,
    ) -> None:
        self.seats = seats
        self._settings = settings
        self._trainees = trainees
        self._matches = matches
        self._seed = seed
        self._saved = saved
        # A script uses the spaces of the policy whose selves play in the same seat.
        self._scripts = {path: seat.selves[0] for seat in seats.values() for path in seat.scripted}
        self._payoffs = Payoffs()
        self._make_seats = make_seats
        self.pool = Pool(settings.pool)

    def begin(self) -> None:
        """Adds the trained policies' initial weights to the opponent pool, if the pool is empty."""
        if not self.pool.members:
            for policy, trainee in self._trainees.items():
                self.pool.add(policy, trainee.weights())

    def clear(self) -> None:
        """Clears the opponent pool and the payoff matrix, before training continues from different weights."""
        self.pool, self._payoffs = Pool(self._settings.pool), Payoffs()

    def advance(self, iteration: int) -> None:
        """Adds snapshots of policies to the pool when they are due.

        Each new snapshot plays rating games against all other opponents.
        """
        if iteration % self._settings.snapshot_every:
            return
        new = [self.pool.add(policy, trainee.weights()) for policy, trainee in self._trainees.items()]
        if not self._settings.rating_episodes:
            return
        others = [*self.pool.members, *self._saved_members().values(), *map(Member, self._scripts)]
        self._payoffs.keep([other.name for other in others])
        players = {other.name: self._acting(other) for other in others}
        rated: set[str] = set()
        for member in new:
            rated.add(member.name)
            for other in others:
                sides = self._matches.sides_against(_player(member), _player(other))
                if other.name not in rated and sides:
                    found = self._matches.play(
                        players[member.name],
                        players[other.name],
                        self._settings.rating_episodes,
                        child_seed(self._seed, "rating", zlib.crc32(f"{member.name} {other.name}".encode())),
                        sides=sides,
                    )
                    self._payoffs.record(member.name, other.name, total(found.values()))

    def _acting(self, member: Member) -> ActsInWorld:
        if member.weights is None:
            example = np.asarray(self._trainees[self._scripts[member.name]].spaces.action.sample())
            return ScriptedPlayer(member.name, example.dtype, example.shape, child_seed(self._seed, "script"))
        made_here = member.policy in self._trainees
        behavior = self._trainees[member.policy].policy.behavior() if made_here else self._saved[member.policy].make()
        behavior.load(member.weights)
        return behavior

    def _saved_members(self) -> dict[str, Member]:
        """Returns the opponents loaded from checkpoints, by path."""
        return {path: Member(path, path, own.weights) for path, own in self._saved.items()}

    def lineups(self) -> dict[str, Weights]:
        """Returns each seat's lineup (current opponents with probabilities) as `Weights` to send to rollout workers."""
        present = {policy: self._present(policy) for policy in self._trainees}
        saved = self._saved_members()
        return {
            seat: Weights(
                version=max(trainee.learner.weights_version for trainee in self._trainees.values()),
                acting=np.zeros(0, np.float32),
                lineup=lineup(
                    own,
                    [present[policy] for policy in own.selves],
                    self.pool.of(own.selves),
                    self._win_rates(own),
                    saved,
                ),
            )
            for seat, own in self.seats.items()
        }

    def acting(self) -> dict[str, SeatBehavior]:
        """Creates the behavior policy of each seat, with the seat's current opponents, to act in this process."""
        seats = {seat: make() for seat, make in self._make_seats.items()}
        for seat, weights in self.lineups().items():
            seats[seat].load(weights)
        return seats

    def _present(self, policy: str) -> Member:
        """Returns a policy with its current weights as an opponent, whose name includes the weights' version."""
        weights = self._trainees[policy].weights()
        return Member(f"{policy}@{weights.version}", policy, weights)

    def _win_rates(self, seat: SeatSettings) -> dict[str, float]:
        """Returns the win rates of the learning policy's newest snapshot against the seat's past selves."""
        newest = self.pool.newest(seat.plays_against).name
        found = {member.name: self._payoffs.between(newest, member.name) for member in self.pool.of(seat.selves)}
        return {name: outcomes.win_rate for name, outcomes in found.items() if outcomes is not None}

    def metrics(self) -> dict[str, Any]:
        """Returns metrics such as ratings for the result row of an iteration; None before any games."""
        ratings = self._ratings()
        newest = {policy: self.pool.newest(policy).name for policy in self._trainees}
        return {
            "league/members": len(self.pool.members),
            **{f"league/elo_{policy}": ratings.get(name) for policy, name in newest.items()},
            **{f"league/win_rate_{policy}": self._win_rate_against_pool(name) for policy, name in newest.items()},
        }

    def _win_rate_against_pool(self, newest: str) -> float | None:
        played = [self._payoffs.between(newest, member.name) for member in self.pool.members]
        rates = [outcomes.win_rate for outcomes in played if outcomes is not None]
        return float(np.mean(rates)) if rates else None

    def _ratings(self) -> dict[str, float]:
        return self._payoffs.elo(self.pool.members[0].name)

    def state(self) -> dict[str, Any]:
        """Returns the opponent pool and the payoff matrix for checkpoints, and a table of ratings for human readers."""
        return {
            "pool": self.pool.state(),
            "payoffs": self._payoffs.state(),
            "table": table(self._payoffs, self._ratings()),
            "checkpoints": {path: own.copied for path, own in self._saved.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the opponent pool and the payoff matrix from `state()`.

        Raises:
            ValueError: A pool member's weights belong to a different network.
        """
        self.pool.load_state(state["pool"])
        for member in self.pool.members:
            own = self._trainees[member.policy].learner.acting_flat().shape
            if member.weights is None or member.weights.acting.shape != own:
                raise ValueError(f"snapshot {member.name} must have weights of shape {own}")
        self._payoffs.load_state(state["payoffs"])


def _player(opponent: Member) -> str:
    """Returns an opponent's player name in `Matches`: its policy, or its script."""
    return opponent.policy or opponent.name


UNKNOWN = 0.5
"""Default win rate against an opponent without games."""


def prioritized_weights(win_rates: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """Returns the probabilities of opponents in prioritized fictitious self-play: strong ones are chosen more often.

    p_i = (1 - w_i)^p / sum_j (1 - w_j)^p, from Vinyals et al. (2019), "Grandmaster level in StarCraft II using
    multi-agent reinforcement learning", Methods, f_hard; uniform if all win rates are 1.

    Args:
        win_rates: Win rate w of the learning policy against each opponent, [M].
        exponent: Exponent p of the prioritization.

    Examples:
        >>> import numpy as np
        >>> prioritized_weights(np.array([0.5, 0.75, 1.0]), exponent=2.0).round(2).tolist()
        [0.8, 0.2, 0.0]
    """
    weights = (1.0 - win_rates) ** exponent if exponent else np.ones_like(win_rates)
    total = float(weights.sum())
    return weights / total if total > 0.0 else np.full(len(win_rates), 1.0 / len(win_rates))


def lineup(
    settings: SeatSettings,
    present: Sequence[Member],
    pool: Sequence[Member],
    win_rates: Mapping[str, float],
    saved: Mapping[str, Member],
) -> Lineup:
    """Returns a seat's lineup: the opponents that may act for its agents, with their sampling probabilities.

    Args:
        settings: Settings of the seat.
        present: Copies of the learning policies with their current weights, at least one; together they have the
            probability `self_play_share`.
        pool: Past snapshots of policies, at least one.
        win_rates: Win rates of the learning policy against the opponents, by opponent name; draws count half.
        saved: Frozen policies from checkpoints, by the path in the settings.
    """
    rates = np.array([win_rates.get(member.name, UNKNOWN) for member in pool])
    exponent = settings.priority_exponent if settings.matchmaking == "prioritized" else 0.0
    scripted, checkpoints = settings.scripted, settings.checkpoints
    probabilities = [
        *(settings.self_play_share / len(present) for _ in present),
        *scripted.values(),
        *checkpoints.values(),
        *(settings.pool_share * prioritized_weights(rates, exponent)).tolist(),
    ]
    members = (*present, *map(Member, scripted), *(saved[path] for path in checkpoints), *pool)
    return Lineup(members, np.array(probabilities))


class Pool:
    """Opponent pool that keeps a limited number of past snapshots per policy, always including the policy's first.

    Args:
        limit: Maximum number of past snapshots of a policy.

    Attributes:
        members: Past snapshots; those of each policy are ordered from oldest to newest.

    Examples:
        >>> import numpy as np
        >>> pool = Pool(limit=3)
        >>> for version in range(5):
        ...     added = pool.add("main", Weights(version, np.zeros(1, np.float32)))
        >>> [member.name for member in pool.members], pool.newest("main").name
        (['main:0', 'main:3', 'main:4'], 'main:4')
    """

    def __init__(self, limit: int) -> None:
        self.members: list[Member] = []
        self._limit = limit
        self._added: dict[str, int] = {}

    def add(self, policy: str, weights: Weights) -> Member:
        """Adds a snapshot of a policy's weights to the pool.

        If the policy then has too many snapshots, the oldest one other than the policy's first is removed.
        """
        number = self._added.get(policy, 0)
        self._added[policy] = number + 1
        member = Member(f"{policy}:{number}", policy, weights)
        own = [other for other in self.members if other.policy == policy]
        if len(own) == self._limit:
            self.members.remove(own[min(1, len(own) - 1)])
        self.members.append(member)
        return member

    def of(self, policies: Sequence[str]) -> list[Member]:
        """Returns the past snapshots of the given policies."""
        return [member for member in self.members if member.policy in policies]

    def newest(self, policy: str) -> Member:
        """Returns the newest past snapshot of a policy; at least one must exist."""
        return self.of([policy])[-1]

    def state(self) -> dict[str, Any]:
        """Returns the pool's members with their weights, for checkpoints."""
        return {
            "added": dict(self._added),
            "members": [
                {"name": own.name, "policy": own.policy, "weights": saved_weights(own.weights)}
                for own in self.members
                if own.weights is not None
            ],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the pool's members from `state()`."""
        self._added = {str(policy): as_count(number) for policy, number in state["added"].items()}
        self.members = [
            Member(str(own["name"]), str(own["policy"]), loaded_weights(own["weights"])) for own in state["members"]
        ]
