"""Networks of Stable-Baselines3 policies, recognized by parameter names, and their names in rlrun."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.bridges.translation.sb3_settings import ACTIVATIONS
from rlrun.bridges.translation.sb3_zip import Sb3Zip
from rlrun.engine.messages.errors import UsageError

KINDS = {
    "q_net.": ("dqn",),
    "quantile_net.": ("qrdqn",),
    "action_net.": ("ppo", "a2c"),
    "actor.log_std.": ("tqc", "sac"),
    "actor.mu.": ("td3",),
}
"""Algorithms by a prefix of parameter names in their policies; the first prefix that occurs counts."""

_MARKS = {"ppo": "n_epochs", "tqc": "top_quantiles_to_drop_per_net"}
"""Settings that only the first of two algorithms with the same parameter names has."""

_MODULES = ("stable_baselines3.", "sb3_contrib.")
"""Prefixes of the modules of SB3's own policies."""

NAMES = "PPO, A2C, DQN, QR-DQN, SAC, TQC and TD3"
"""Algorithms whose policies can be imported, for messages."""

_ENCODER_PARTS = {
    **{f"cnn.{i}": f"encoder.parts.0.layers.{i}" for i in (0, 2, 4)},
    "linear.0": "encoder.parts.0.dense.0",
}
"""Layer names of SB3's `NatureCNN` -> rlrun's."""

_EXTRACTORS = ("FlattenExtractor", "NatureCNN")


class NamedParameter(NamedTuple):
    """Parameter tensor, with the names of its source tensors in SB3, for error messages."""

    array: NDArray[np.float32]
    names: str


@dataclass(frozen=True)
class Sb3Network:
    """Network of a Stable-Baselines3 policy, with SB3's parameter names.

    Attributes:
        prefix: Name prefix of the network's layers in rlrun.
        head: Name of the output layer in rlrun.
        encoder: Name prefix of the image encoder; "" for none.
        trunk: Dense layers, first to last.
        outputs: Output layers, which rlrun joins into one.
    """

    prefix: str
    head: str
    encoder: str
    trunk: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def layers(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yields for each layer its names in SB3 (several for outputs that rlrun joins), and its name in rlrun."""
        if self.encoder:
            for foreign, ours in _ENCODER_PARTS.items():
                yield (f"{self.encoder}.{foreign}",), f"{self.prefix}{ours}"
        for i, layer in enumerate(self.trunk):
            yield (layer,), f"{self.prefix}trunk.{2 * i}"
        yield self.outputs, self.head

    def widths(self, file: Sb3Zip) -> list[int]:
        """Widths of the dense layers, after checking that consecutive layers fit together.

        Raises:
            UsageError: Two consecutive layers do not fit together.
        """
        shapes = [file.tensor(f"{layer}.weight").shape for layer in self.trunk]
        for i, (layer, shape) in enumerate(zip(self.trunk, shapes, strict=True)):
            if len(shape) != 2 or (i and shape[1] != shapes[i - 1][0]):
                raise UsageError(
                    f"{file.path}: {layer}.weight has shape {shape}, which is not the shape of a dense layer"
                )
        return [shape[0] for shape in shapes]

    def has_layers_of(self, other: Sb3Network, file: Sb3Zip) -> bool:
        """Whether another network has equal parameters in all layers except the output layers."""
        pairs = list(zip([*self.layers][:-1], [*other.layers][:-1], strict=False))
        return len(self.trunk) == len(other.trunk) and all(
            np.array_equal(file.tensor(f"{own}.{part}"), file.tensor(f"{others}.{part}"))
            for ((own,), _), ((others,), _) in pairs
            for part in ("weight", "bias")
        )

    def named(self, file: Sb3Zip) -> dict[str, NamedParameter]:
        """Parameters under their names in rlrun.

        Raises:
            UsageError: Two adjacent layers have incompatible dimensions.
        """
        found = {}
        for foreign, ours in self.layers:
            for part in ("weight", "bias"):
                names = " and ".join(f"{name}.{part}" for name in foreign)
                arrays = [file.tensor(f"{name}.{part}") for name in foreign]
                if not arrays[0].ndim or len({array.shape[1:] for array in arrays}) > 1:
                    raise UsageError(
                        f"{file.path}: {names} have inconsistent shapes {[array.shape for array in arrays]}"
                    )
                found[f"{ours}.{part}"] = NamedParameter(np.concatenate(arrays), names)
        return found


@dataclass(frozen=True)
class Sb3Policy:
    """Policy of Stable-Baselines3, described in rlrun's terms.

    Attributes:
        algorithm: Name of the algorithm.
        settings: Settings of the network, by dotted path in the config.
        sees_image: Whether the first layer is an image encoder.
        online: Parameters by name.
        target: Parameters of the target networks by name; networks without a target copy are left out, and the dict is
            empty if no network has one.
    """

    algorithm: str
    settings: dict[str, Any]
    sees_image: bool
    online: dict[str, NamedParameter]
    target: dict[str, NamedParameter]


def sb3_policy(file: Sb3Zip, algorithm: str | None = None) -> Sb3Policy:
    """Recognizes the policy in a zip file of Stable-Baselines3.

    Args:
        file: Content of the zip file.
        algorithm: Name of the algorithm; None to recognize it.

    Raises:
        UsageError: The policy belongs to another algorithm, or has networks that rlrun does not support.
    """
    _refuse_others(file)
    found = _algorithm(file, algorithm)
    online, target = _networks(file, found)
    _refuse_unknown(file, [*online, *target])
    settings: dict[str, Any] = {
        "model.hiddens": _common_widths(file, online),
        "model.activation": _activation(file, found),
    }
    if found in ("ppo", "a2c"):
        policy, value = online
        settings["model.shared_value"] = value.has_layers_of(policy, file)
        if settings["model.shared_value"]:
            online = [policy, replace(value, prefix=policy.prefix)]
    elif found not in ("dqn", "qrdqn"):
        settings["num_critics"] = len(online) - 1
    parameters, target_parameters = _merged(file, online), _merged(file, target)
    if found == "tqc":
        settings["num_quantiles"] = len(parameters["critics.0.head.bias"].array)
    elif found == "qrdqn":
        quantiles = settings["num_atoms"] = _quantiles_per_action(file, parameters)
        parameters, target_parameters = (_by_action(each, quantiles) for each in (parameters, target_parameters))
    if "log_std" in file.tensors:
        parameters["log_stds"] = NamedParameter(file.tensor("log_std"), "log_std")
    return Sb3Policy(found, settings, bool(online[0].encoder), parameters, target_parameters)


def _merged(file: Sb3Zip, networks: Iterable[Sb3Network]) -> dict[str, NamedParameter]:
    return {name: part for network in networks for name, part in network.named(file).items()}


def _quantiles_per_action(file: Sb3Zip, parameters: Mapping[str, NamedParameter]) -> int:
    """Number of quantiles per action of QR-DQN, which divides the number of outputs.

    Raises:
        UsageError: The file's settings have no such number.
    """
    number, outputs = file.settings.get("n_quantiles"), len(parameters["stream.0.bias"].array)
    if type(number) is not int or number < 1 or outputs % number:
        raise UsageError(f"{file.path}: n_quantiles must divide the {outputs} outputs of the network")
    return number


def _by_action(parameters: Mapping[str, NamedParameter], quantiles: int) -> dict[str, NamedParameter]:
    """Parameters of QR-DQN with outputs in rlrun's order, action by action; SB3's order is quantile by quantile."""
    found = dict(parameters)
    for name in ("stream.0.weight", "stream.0.bias"):
        array = found[name].array
        ordered = array.reshape(quantiles, -1, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)
        found[name] = found[name]._replace(array=ordered)
    return found


def _refuse_others(file: Sb3Zip) -> None:
    """Raises an error for policies without a counterpart: with gSDE, custom classes or unscaled pixels."""
    for name in ("log_std", "actor.log_std"):
        if name in file.tensors and file.tensors[name].ndim == 2:
            raise UsageError(f"{file.path}: the policy explores with gSDE (use_sde), which cannot be imported")
    module = str(file.section("policy_class").get("__module__", "stable_baselines3."))
    kwargs = file.section("policy_kwargs")
    extractor = _class_name(kwargs.get("features_extractor_class", _EXTRACTORS[0]))
    if not module.startswith(_MODULES) or extractor not in _EXTRACTORS:
        own = extractor if module.startswith(_MODULES) else f"a class of {module}"
        raise UsageError(f"{file.path}: the policy uses {own:.80}; only SB3's own networks can be imported")
    if kwargs.get("normalize_images", True) is not True:
        raise UsageError(
            f"{file.path}: the policy uses unscaled pixels (normalize_images=False), which cannot be imported"
        )


def _refuse_unknown(file: Sb3Zip, networks: Iterable[Sb3Network]) -> None:
    """Refuses parameters outside of the networks, other than further names of a shared image encoder."""
    used = {name for network in networks for foreign, _ in network.layers for name in foreign}
    for name in file.tensors:
        layer = name.rpartition(".")[0]
        alias = re.fullmatch(r"(?:pi_|vf_)?features_extractor\.(.*)", layer)
        if layer not in used and name != "log_std" and not (alias and alias[1] in _ENCODER_PARTS):
            raise UsageError(
                f"{file.path}: unknown parameter {name}: only dense networks and NatureCNN of {NAMES} can be imported"
            )


def _algorithm(file: Sb3Zip, asked: str | None) -> str:
    """Name of the algorithm; a setting distinguishes two algorithms with the same parameter names."""
    kind = next((known for prefix, known in KINDS.items() if any(name.startswith(prefix) for name in file.tensors)), ())
    if not kind:
        first = next(iter(file.tensors), "nothing")
        raise UsageError(f"{file.path}: policy.pth contains {first}, so this is none of the policies of {NAMES}")
    if asked is not None and asked not in kind:
        raise UsageError(f"{file.path}: the parameter names match {' or '.join(kind)}, not {asked}")
    if asked is None and len(kind) > 1 and not file.settings:
        raise UsageError(
            f"{file.path}: the file does not name its algorithm: pass --algorithm with {' or '.join(kind)}"
        )
    return asked or (kind[0] if _MARKS.get(kind[0]) in file.settings else kind[-1])


def _networks(file: Sb3Zip, algorithm: str) -> tuple[list[Sb3Network], list[Sb3Network]]:
    """Networks of a policy, and its target networks."""
    if algorithm in ("ppo", "a2c"):
        shared, extractor = _dense(file, "mlp_extractor.shared_net."), "features_extractor"
        made = [
            Sb3Network(
                f"{ours}_",
                f"{ours}_head",
                _encoder(file, f"{short}_{extractor}") or _encoder(file, extractor),
                (*shared, *_dense(file, f"mlp_extractor.{foreign}_net.")),
                (output,),
            )
            for ours, short, foreign, output in (
                ("policy", "pi", "policy", "action_net"),
                ("value", "vf", "value", "value_net"),
            )
        ]
        return made, []
    if algorithm in ("dqn", "qrdqn"):
        layers = "q_net" if algorithm == "dqn" else "quantile_net"
        online, target = (
            _ending_in_outputs(file, net, f"{net}.{layers}.", "", "stream.0") for net in (layers, f"{layers}_target")
        )
        return [online], [target]
    critics = [i for i in range(len(file.tensors)) if f"critic.qf{i}.0.weight" in file.tensors]
    online_critics, target_critics = (
        [_ending_in_outputs(file, net, f"{net}.qf{i}.", f"critics.{i}.", f"critics.{i}.head") for i in critics]
        for net in ("critic", "critic_target")
    )
    if algorithm == "td3":
        actor, target_actor = (
            _ending_in_outputs(file, net, f"{net}.mu.", "actor.", "actor.head") for net in ("actor", "actor_target")
        )
        return [actor, *online_critics], [target_actor, *target_critics]
    hidden = tuple(_dense(file, "actor.latent_pi."))
    outputs = ("actor.mu", "actor.log_std")
    actor = Sb3Network("actor.", "actor.head", _encoder(file, "actor.features_extractor"), hidden, outputs)
    return [actor, *online_critics], target_critics


def _ending_in_outputs(file: Sb3Zip, net: str, layers: str, prefix: str, head: str) -> Sb3Network:
    """A network whose last dense layer is the output layer."""
    *trunk, outputs = _dense(file, layers) or [f"{layers}0"]
    return Sb3Network(prefix, head, _encoder(file, f"{net}.features_extractor"), tuple(trunk), (outputs,))


def _encoder(file: Sb3Zip, prefix: str) -> str:
    return prefix if f"{prefix}.cnn.0.weight" in file.tensors else ""


def _dense(file: Sb3Zip, prefix: str) -> list[str]:
    """Names of the numbered dense layers with a given prefix, in order."""
    numbers = [re.fullmatch(rf"{re.escape(prefix)}(\d+)\.weight", name) for name in file.tensors]
    return [f"{prefix}{number}" for number in sorted(int(found[1]) for found in numbers if found)]


def _common_widths(file: Sb3Zip, networks: Sequence[Sb3Network]) -> list[int]:
    """Widths of the dense layers, which must be equal in all networks of a policy."""
    first, *others = networks
    for other in others:
        if other.widths(file) != first.widths(file):
            raise UsageError(
                f"{file.path}: the networks have layers of different widths: {first.widths(file)} before "
                f"{first.outputs[0]} and {other.widths(file)} before {other.outputs[0]}; rlrun needs the same "
                "widths for all"
            )
    return first.widths(file)


def _activation(file: Sb3Zip, algorithm: str) -> str:
    """Activation of the dense layers, read from the settings since parameters do not show it."""
    default = "Tanh" if algorithm in ("ppo", "a2c") else "ReLU"
    name = _class_name(file.section("policy_kwargs").get("activation_fn", default))
    if name not in ACTIVATIONS:
        raise UsageError(f"{file.path}: rlrun has no activation {name:.80}, only {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _class_name(written: Any) -> str:
    """Name of a class from its text, such as `<class 'torch.nn.modules.activation.ReLU'>`."""
    return str(written).strip("<>'").rpartition(".")[2].rpartition("'")[2]
