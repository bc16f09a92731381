"""Settings of a league: opponents for its seats, growth of its opponent pool, and rating games."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rlrun.engine.settings.config import ConfigModel, Fraction, NonNegativeFloat, NonNegativeInt, PositiveInt

Matchmaking = Literal["uniform", "prioritized"]
"""Sampling rule for past selves from the pool: uniform, or prioritized fictitious self-play."""


class SeatSettings(ConfigModel):
    """Settings of a league seat: a name that the policy mapping gives to agents that frozen opponents play."""

    plays_against: str
    """Name of the trained policy that learns from games against this seat."""

    selves_of: tuple[str, ...] = ()
    """Trained policies whose present and past selves are opponents in this seat; by default the one in `plays_against`
    (self-play). An exploiter of `main` plays against a seat with the selves of `main`."""

    self_play_share: Fraction = 0.5
    """Fraction of the episodes against present selves, which have the weights of the last iteration."""

    scripted: dict[str, Fraction] = Field(default_factory=dict)
    """Fractions of the episodes against scripted opponents: random, one_ply, minimax, mcts, or package.module:Name of a
    function from an observation to an action. Name can also be a class of such functions, created from a seed and
    optional settings, as in minimax(depth=5). A new instance is created for each decision, so it has no memory. All
    other episodes are against the pool."""

    checkpoints: dict[str, Fraction] = Field(default_factory=dict)
    """Fractions of the episodes against policies of other runs, by checkpoint directory: PATH, or PATH:policy if the
    checkpoint holds several. They sample their actions, and use their saved observation filters."""

    matchmaking: Matchmaking = "prioritized"
    """Sampling of past selves: `uniform`, or `prioritized`, which more often draws past selves that the policy rarely
    beats (prioritized fictitious self-play)."""

    priority_exponent: NonNegativeFloat = 2.0
    """Exponent p of prioritized matchmaking, which samples past selves in proportion to (1 - win rate)^p."""

    @model_validator(mode="after")
    def _shares_of_a_whole(self) -> SeatSettings:
        total = self.self_play_share + sum(self.scripted.values()) + sum(self.checkpoints.values())
        if total > 1.0 + 1e-9:
            raise ValueError(
                f"self_play_share and the shares of other opponents must sum to at most 1; they sum to {total:g}"
            )
        return self

    @property
    def pool_share(self) -> float:
        """Fraction of episodes against past snapshots: the remainder after self-play, scripts and checkpoints."""
        return max(1.0 - self.self_play_share - sum(self.scripted.values()) - sum(self.checkpoints.values()), 0.0)

    def described(self) -> str:
        """Returns a sentence for the user with the seat's opponents and the share of episodes that each plays."""
        selves = " and ".join(self.selves)
        opponents = [
            (self.self_play_share, f"the current {selves}"),
            *((share, path) for path, share in (self.scripted | self.checkpoints).items()),
            (self.pool_share, f"past snapshots of {selves}, {self.matchmaking}"),
        ]
        shown = ", ".join(f"{who} ({100 * share:.3g}%)" for share, who in opponents if share > 1e-9)
        return f"{self.plays_against} plays against {shown}"

    @property
    def selves(self) -> tuple[str, ...]:
        """Names of the trained policies whose current and past versions play as opponents in this seat."""
        return self.selves_of or (self.plays_against,)

    @property
    def opponents(self) -> tuple[str, ...]:
        """Names of all opponents that may play in this seat: policies (current and past), scripts and checkpoints."""
        return (*self.selves, *self.scripted, *self.checkpoints)


class LeagueSettings(ConfigModel):
    """Settings of a league: growth and size of the opponent pool, and rating games."""

    pool: PositiveInt = 10
    """Maximum number of past selves of each trained policy. The oldest are removed, except the first, to which ratings
    are relative."""

    snapshot_every: PositiveInt = 10
    """Iterations between snapshots of each trained policy (weights and filters), which join the pool."""

    rating_episodes: NonNegativeInt = 20
    """Rating episodes of each new snapshot against every other opponent, rounded up so that, if possible, both play
    each side equally often. 0 for no ratings, which makes prioritized matchmaking uniform."""

    def described(self) -> str:
        """Returns a sentence for the user on when snapshots enter the opponent pool, and on the rating games."""
        return (
            f"a snapshot every {self.snapshot_every} iterations, at most {self.pool} snapshots per policy, "
            f"{self.rating_episodes} rating episodes against each opponent"
        )
