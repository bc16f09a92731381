"""What is said of a league: who may sit in its seats, how its pool grows, how it is rated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlrun.config import ConfigModel, NonNegativeFloat, PositiveInt

Share = Annotated[float, Field(ge=0.0, le=1.0)]
"""A part of the episodes, from 0 to 1."""

Matchmaking = Literal["uniform", "prioritized"]
"""How a member of the pool is chosen."""


class SeatSettings(ConfigModel):
    """A seat: a policy of a world that does not learn, in whose slots frozen opponents act."""

    plays_against: str
    """The trained policy that learns from the games against this seat."""

    selves_of: tuple[str, ...] = ()
    """Trained policies whose present and past selves sit here; by default the one that it plays against, which is
    self-play. An exploiter of `main` plays against a seat with the selves of `main`."""

    self_play_share: Share = 0.5
    """Part of the episodes against present selves: the weights as of the last iteration."""

    scripted: dict[str, Share] = Field(default_factory=dict)
    """Parts of the episodes against scripted opponents: random, one_ply, minimax, mcts, or package.module:Name, a
    function from an observation to an action, or a class that is made with a seed and called like one. It is made anew
    for each decision, so that it remembers nothing. A class may have settings: minimax(depth=5). What self-play,
    scripts and checkpoints leave is against the pool."""

    checkpoints: dict[str, Share] = Field(default_factory=dict)
    """Parts of the episodes against policies of other runs, by the path of a checkpoint's directory; PATH:policy where
    it holds several. Such a policy draws its actions, and sees through the filter that it was saved with."""

    matchmaking: Matchmaking = "prioritized"
    """How a past self is chosen: each as likely as any other, or the more likely the seldomer it is beaten (prioritized
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
        """Part of the episodes against past selves: what self-play, scripts and checkpoints leave."""
        return max(1.0 - self.self_play_share - sum(self.scripted.values()) - sum(self.checkpoints.values()), 0.0)

    def described(self) -> str:
        """Returns in words who plays whom in the seat."""
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
        """The trained policies whose selves sit here."""
        return self.selves_of or (self.plays_against,)

    @property
    def opponents(self) -> tuple[str, ...]:
        """Who may sit here: policies whose selves do, scripts and checkpoints."""
        return (*self.selves, *self.scripted, *self.checkpoints)


class LeagueSettings(ConfigModel):
    """How a league's pool grows and is rated."""

    pool: PositiveInt = 10
    """Most past selves of each trained policy that are kept. When there are more, the oldest but the first goes: the
    newer ones are what the policy has to keep beating, and the first is what ratings are measured from."""

    snapshot_every: PositiveInt = 10
    """Iterations after which each trained policy's weights and filters join the pool."""

    rating_episodes: PositiveInt = 20
    """Episodes of each new snapshot against every other opponent, for pay-offs and ratings. Where both may play either
    side, each does in half of them, and an odd number is rounded up."""

    def described(self) -> str:
        """Returns in words how the pool grows and is rated."""
        return (
            f"a snapshot every {self.snapshot_every} iterations, {self.pool} past selves of each policy at most, "
            f"{self.rating_episodes} rating episodes against each"
        )
