"""Settings of a league: opponents in its seats, growth of its pool, and ratings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlrun.config import ConfigModel, NonNegativeFloat, PositiveInt

Share = Annotated[float, Field(ge=0.0, le=1.0)]
"""A fraction of the episodes, from 0 to 1."""

Matchmaking = Literal["uniform", "prioritized"]
"""How an opponent is chosen from the pool."""


class SeatSettings(ConfigModel):
    """A seat: a policy of a world that does not learn, in whose slots frozen opponents act."""

    plays_against: str
    """The trained policy that learns from the games against this seat."""

    selves_of: tuple[str, ...] = ()
    """Trained policies whose present and past selves play here; by default the one in `plays_against` (self-play). An
    exploiter of `main` plays against a seat with the selves of `main`."""

    self_play_share: Share = 0.5
    """Fraction of the episodes against present selves, with the weights of the last iteration."""

    scripted: dict[str, Share] = Field(default_factory=dict)
    """Fractions of the episodes against scripted opponents: random, one_ply, minimax, mcts, or package.module:Name, a
    function from an observation to an action, or a class that takes a seed and whose instances are such functions. An
    instance is created for each decision, and so has no memory. A class may have settings: minimax(depth=5). All other
    episodes are against the pool."""

    checkpoints: dict[str, Share] = Field(default_factory=dict)
    """Fractions of the episodes against policies of other runs, by the path of a checkpoint's directory; PATH:policy if
    it holds several. Such a policy samples its actions, and uses its saved observation filter."""

    matchmaking: Matchmaking = "prioritized"
    """How a past self is chosen: uniformly, or the more likely the lower the win rate against it (prioritized
    fictitious self-play)."""

    priority_exponent: NonNegativeFloat = 2.0
    """p of prioritized matchmaking, whose weights are (1 - win rate)^p."""

    @model_validator(mode="after")
    def _shares_of_a_whole(self) -> SeatSettings:
        total = self.self_play_share + sum(self.scripted.values()) + sum(self.checkpoints.values())
        if total > 1.0 + 1e-9:
            raise ValueError(f"self_play_share and the shares of other opponents add up to {total:g}, more than 1")
        return self

    @property
    def pool_share(self) -> float:
        """Fraction of the episodes against past selves: those without self-play, scripts and checkpoints."""
        return max(1.0 - self.self_play_share - sum(self.scripted.values()) - sum(self.checkpoints.values()), 0.0)

    def described(self) -> str:
        """Words for the opponents in the seat."""
        selves = ", ".join(self.selves)
        opponents = [
            (self.self_play_share, f"present selves of {selves}"),
            *((share, path) for path, share in (self.scripted | self.checkpoints).items()),
            (self.pool_share, f"past selves of {selves} ({self.matchmaking})"),
        ]
        shown = ", ".join(f"{share:.3g} {who}" for share, who in opponents if share > 1e-9)
        return f"{self.plays_against} plays against {shown}"

    @property
    def selves(self) -> tuple[str, ...]:
        """The trained policies whose selves play here."""
        return self.selves_of or (self.plays_against,)

    @property
    def opponents(self) -> tuple[str, ...]:
        """All possible opponents here: policies (by their selves), scripts and checkpoints."""
        return (*self.selves, *self.scripted, *self.checkpoints)


class LeagueSettings(ConfigModel):
    """How a league's pool grows and is rated."""

    pool: PositiveInt = 10
    """Maximum number of past selves of each trained policy. The first is always kept, since ratings are relative to it;
    beyond the maximum, the oldest of the others is removed."""

    snapshot_every: PositiveInt = 10
    """Iterations after which each trained policy's weights and filters join the pool."""

    rating_episodes: PositiveInt = 20
    """Episodes of each new snapshot against every other opponent, for pay-offs and ratings. If both can play either
    side, each plays both sides equally often, and an odd number is rounded up."""

    def described(self) -> str:
        """Words for the growth of the pool and its ratings."""
        return (
            f"a snapshot every {self.snapshot_every} iterations, {self.pool} past selves of each policy at most, "
            f"{self.rating_episodes} rating episodes against each"
        )
