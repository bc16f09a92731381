"""Mapping from agents to policies, by patterns of agent ids or a function."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from rlrun.engine.messages.errors import TrainingFailed, UsageError, did_you_mean
from rlrun.engine.settings.registry import load_object

_EPISODES_LOOKED_AT = 100
"""Number of episodes for which a mapping function is evaluated on the possible agents."""

_REMEMBERED = 4096
"""Cache size for mapped agents, since a world may give every agent a new id."""


class PolicyMapping:
    """Mapping from agent ids to policies.

    Patterns are shell-style globs, `*`, `?` and `[...]`; the first match decides. A mapping that is a function is
    called once per agent and episode, so that the assignment can change between episodes.

    Args:
        policies: Names of all policies, at least one.
        mapping: Policy for each pattern of agent ids, in order; or `package.module:function`, a function that is called
            as `function(agent, episode)` with the index of the world's episode; None if all agents share one policy.

    Attributes:
        policies: Names of all policies.

    Raises:
        UsageError: There are several policies but no mapping, or a pattern's policy or the function does not exist.
        UserCodeError: The function's module raises an exception while it is imported.

    Examples:
        >>> mapping = PolicyMapping(["hunters", "prey"], {"hunter_*": "hunters", "*": "prey"})
        >>> mapping.policy_of("hunter_3", episode=0), mapping.policy_of("hare", episode=0)
        ('hunters', 'prey')
    """

    def __init__(self, policies: Sequence[str], mapping: Mapping[str, str] | str | None = None) -> None:
        self.policies = tuple(policies)
        self._patterns: Mapping[str, str] = {}
        self._function: Callable[[str, int], str] | None = None
        self._known: dict[tuple[str, int], str] = {}
        if isinstance(mapping, str):
            self._path = mapping
            self._function = _loaded(mapping)
        elif mapping is not None:
            self._patterns = dict(mapping)
        elif len(policies) == 1:
            self._patterns = {"*": self.policies[0]}
        else:
            raise UsageError(
                f"with {len(policies)} policies ({', '.join(policies)}), a mapping is required: map agents to "
                "policies with patterns of agent ids, or with package.module:function"
            )
        for pattern, policy in self._patterns.items():
            if policy not in self.policies:
                raise UsageError(f"mapping: the pattern '{pattern}' {self._names_no_policy(policy)}")

    def policy_of(self, agent: str, episode: int) -> str:
        """Returns the policy that acts for an agent in an episode of its world.

        Raises:
            UsageError: No pattern matches the agent, or the function does not return a policy's name.
            TrainingFailed: The function raises an exception.
        """
        key = (agent, 0 if self._function is None else episode)
        policy = self._known.get(key)
        if policy is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            policy = self._known[key] = self._decided(agent, episode)
        return policy

    def seatings(self, agents: Sequence[str]) -> list[dict[str, list[str]]]:
        """Returns which agents each policy plays: a mapping per episode, and only one if all episodes are alike.

        If a function decides, the result covers the first 100 episodes.

        Raises:
            UsageError: No pattern matches an agent, or the function returns an unknown name.
            TrainingFailed: The function raises an exception.
        """
        seatings = []
        for episode in range(1 if self._function is None else _EPISODES_LOOKED_AT):
            seating: dict[str, list[str]] = {policy: [] for policy in self.policies}
            for agent in agents:
                seating[self.policy_of(agent, episode)].append(agent)
            seatings.append(seating)
        return seatings

    def unmatched(self, agents: Sequence[str]) -> list[str]:
        """Returns the patterns that match none of the given agents, such as misspelled ones."""
        return [pattern for pattern in self._patterns if not any(fnmatchcase(agent, pattern) for agent in agents)]

    def _decided(self, agent: str, episode: int) -> str:
        if self._function is not None:
            return self._asked(self._function, agent, episode)
        for pattern, policy in self._patterns.items():
            if fnmatchcase(agent, pattern):
                return policy
        shown = ", ".join(f"'{pattern}'" for pattern in self._patterns)
        hint = did_you_mean(agent, self._patterns)
        raise UsageError(f"mapping: agent '{agent}' has no policy: none of the patterns {shown} matches it{hint}")

    def _asked(self, function: Callable[[str, int], str], agent: str, episode: int) -> str:
        try:
            policy = function(agent, episode)
        except (Exception, SystemExit) as error:
            told = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
            raise TrainingFailed(
                f"the mapping {self._path} raised for agent '{agent}' in episode {episode}:\n{told}"
            ) from error
        if policy not in self.policies:
            raise UsageError(
                f"the mapping {self._path}, for agent '{agent}' in episode {episode}, {self._names_no_policy(policy)}"
            )
        return policy

    def _names_no_policy(self, policy: object) -> str:
        hint = did_you_mean(policy, self.policies) if isinstance(policy, str) else ""
        return f"names {policy!r}, which is not a policy{hint or '; must be one of: ' + ', '.join(self.policies)}"


def _loaded(path: str) -> Callable[[str, int], str]:
    function = load_object(path, "mapping function")
    if not callable(function):
        raise UsageError(f"the mapping function '{path}' must be callable, but its type is {type(function).__name__}")
    return function  # type: ignore[no-any-return]
