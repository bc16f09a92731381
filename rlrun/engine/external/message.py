"""Messages between external simulators (clients) and server: protocol versions, refusals, observations and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK, has_action_mask, masked_choices
from rlrun.engine.data.space_kinds import space_tree
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.json_values import action_batch_from_json, batch_from_json
from rlrun.engine.envs.spaces import SpaceMismatch, Spaces
from rlrun.engine.envs.step_columns import finite_number
from rlrun.engine.settings.metric import MOST_NAME_CHARACTERS, is_name

PROTOCOL = "1.0"
"""Version of the protocol, major.minor; the majors of client and server must be equal."""

LARGEST_REWARD = 1e100
"""Maximum absolute value of a reward, so that sums of rewards stay finite."""

MOST_HALF_RANGES = 1_000
"""Maximum distance of a sampled action from the middle of a Box, in half-ranges; its density is still finite."""

Message = Mapping[str, Any]


class MessageRefused(Exception):
    """Error for a client's message that the server refuses; the message has no effect.

    Args:
        code: Kind of the error, for programs.
        message: Explanation and advice for human readers.
        more: Further entries of the answer to the client.
    """

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.answer: dict[str, Any] = {"error": code, "message": message, **more}


def check_protocol(version: object) -> None:
    """Validates the protocol version of a client.

    Raises:
        MessageRefused: The client uses a different major version, or states none.
    """
    if not isinstance(version, str) or version.partition(".")[0] != PROTOCOL.partition(".")[0]:
        raise MessageRefused(
            "protocol_mismatch",
            f"the client uses protocol {version!r:.40}, but this server uses {PROTOCOL}, and their major "
            "versions must match: replace the client with the one of this server's version (rlrun client "
            "--print)",
            protocol=PROTOCOL,
        )


def text_of(message: Message, name: str) -> str:
    """Returns the string with a given name in a message.

    Raises:
        MessageRefused: The message has no such string.
    """
    value = message.get(name)
    if not isinstance(value, str):
        raise MessageRefused("bad_message", f"{name} must be a string, not {value!r:.80}")
    return value


def flag_of(message: Message, name: str) -> bool:
    """Returns the boolean with a given name in a message; False if it is missing.

    Raises:
        MessageRefused: The value is neither true nor false.
    """
    value = message.get(name, False)
    if not isinstance(value, bool):
        raise MessageRefused("bad_message", f"{name} must be true or false, not {value!r:.80}")
    return value


def version_of(message: Message) -> int | None:
    """Returns the version of the policy's weights that a message states; None if it states none.

    Raises:
        MessageRefused: The version is not an integer.
    """
    value = message.get("version")
    if value is not None and type(value) is not int:
        raise MessageRefused("bad_message", f"version must be a whole number, not {value!r:.80}")
    return value


def reward_of(message: Message) -> float:
    """Returns the reward in a message; 0 if it is missing.

    Raises:
        MessageRefused: The reward is not a finite number.
    """
    value = message.get("reward", 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST_REWARD:
        raise MessageRefused(
            "bad_reward",
            f"reward must be a number with an absolute value of at most {LARGEST_REWARD:g}, not {value!r:.80}",
        )
    return float(value)


def info_of(message: Message) -> dict[str, float]:
    """Returns the numbers in the `info` of a message, by name.

    Raises:
        MessageRefused: The info is not an object of finite numbers, or a name in it is invalid for a metric.
    """
    info = message.get("info", {})
    if not isinstance(info, Mapping):
        raise MessageRefused("bad_message", f"info must be an object that maps names to numbers, not {info!r:.80}")
    found: dict[str, float] = {}
    for name, value in info.items():
        number = finite_number(value)
        if number is None:
            raise MessageRefused("bad_message", f"info: {name!r:.40} must be a finite number, not {value!r:.40}")
        if not is_name(name):
            raise MessageRefused(
                "bad_message",
                f"info: the name {name!r:.40} must be 1 to {MOST_NAME_CHARACTERS} printable characters on one line",
            )
        found[name] = number
    return found


def observation_of(spaces: Spaces, data: Any, *, is_final: bool = False) -> Any:
    """Converts an agent's observation from JSON to the form of its observation space.

    Args:
        spaces: Spaces of the agent.
        data: The observation as JSON.
        is_final: Whether no action follows the observation, so that its action mask may be all False.

    Raises:
        MessageRefused: The observation is outside the space, or its action mask allows no action.
    """
    observation = _element(spaces.observation, data, "observation")
    if has_action_mask(spaces.observation) and not is_final:
        firsts = np.cumsum([0, *masked_choices(spaces.action)[:-1]])
        if not np.logical_or.reduceat(observation[ACTION_MASK], firsts).all():
            raise MessageRefused(
                "bad_observation", f"{ACTION_MASK} allows no action: allow at least one, or end the episode"
            )
    return observation


def read_together(spaces: Mapping[str, Spaces], messages: Sequence[dict[str, Any]]) -> None:
    """Converts the observations of several messages from JSON lists to rows of one array, in place, if all fit a Box.

    Args:
        spaces: Spaces of each agent by id.
        messages: The messages; observations that are not converted are left for `observation_of` to convert.
    """
    space = next(iter(spaces.values())).observation
    given = [message.get("observation") for message in messages]
    if len(spaces) > 1 or not isinstance(space, Box) or not all(type(own) is list for own in given):
        return
    rows = _numbers(space, given, len(given))
    if rows is not None:
        for message, row in zip(messages, rows, strict=True):
            message["observation"] = row


def action_of(spaces: Spaces, data: Any, *, is_drawn: bool) -> Any:
    """Converts an agent's action from JSON to the form of its action space.

    Args:
        spaces: Spaces of the agent.
        data: The action as JSON.
        is_drawn: Whether the action was sampled with the policy's weights; a Gaussian sample may be outside a Box by up
            to `MOST_HALF_RANGES`.

    Raises:
        MessageRefused: The action is outside the space.
    """
    action = _element(spaces.action, data, "action")
    for space, numbers in zip(leaves(space_tree(spaces.action)), leaves(action), strict=True):
        if not isinstance(space, Box):
            continue
        margin = (MOST_HALF_RANGES - 1) * (space.high.astype(np.float64) - space.low) / 2 if is_drawn else 0.0
        if ((numbers < space.low - margin) | (numbers > space.high + margin)).any():
            raise MessageRefused(
                "bad_action", f"the action {data!r:.80} is outside {space}: log the action that was executed"
            )
    return action


def action_to_json(action: Any) -> Any:
    """Converts an action to its JSON form."""
    return map_tree(lambda leaf: np.asarray(leaf).tolist(), action)


def _element(space: Space[Any], data: Any, what: str) -> Any:
    if isinstance(data, np.ndarray):  # not from JSON: already converted, together with others
        return data
    if isinstance(space, Box) and isinstance(data, list):
        array = _numbers(space, data)
        if array is not None:
            return array
    try:
        batch = action_batch_from_json(space, [data]) if what == "action" else batch_from_json(space, [data])
    except (SpaceMismatch, OverflowError) as error:
        raise MessageRefused(f"bad_{what}", str(error)) from None
    return map_tree(lambda leaf: leaf[0], batch)


def _numbers(space: Box, data: list[Any], *rows: int) -> NDArray[Any] | None:
    """Fast conversion of a list of real numbers, in a tenth of the usual time; returns None if anything is wrong.

    Args:
        space: The space.
        data: An element, or several.
        rows: Number of elements, if there are several.
    """
    if space.dtype.kind != "f":
        return None
    try:
        given = np.asarray(data)
    except ValueError:
        return None
    if given.dtype.kind not in "if" or given.shape != (*rows, *space.shape):
        return None
    with np.errstate(over="ignore"):
        array: NDArray[Any] = given.astype(space.dtype)
    return array if np.isfinite(array).all() else None
