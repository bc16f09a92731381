"""Policies of Stable-Baselines3: they act as in SB3, no code in their files runs, and bad files are refused."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from torch import Tensor, nn

from rlrun.bridges.sb3_import import Imported, import_sb3, lines_for
from rlrun.bridges.translation import sb3_zip
from rlrun.cli.main import cli
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.act.acting_policy import ActingPolicy
from rlrun.engine.training.training import Training
from rlrun.experiments.launch.run import resume

GENERATOR = np.random.default_rng(0)
SPREAD = np.float32([0.5, 3.0])
CONTRIB = {"policy_class": {"__module__": "sb3_contrib.common.policies"}}


class Pictures(gymnasium.Env[NDArray[np.uint8], Any]):
    """Env of random pictures [40, 36, 3], with two unequal action ranges."""

    observation_space = gymnasium.spaces.Box(0, 255, (40, 36, 3), np.uint8)
    action_space = gymnasium.spaces.Box(np.float32([-2, 0]), np.float32([2, 5]))

    def reset(self, **_kwargs: Any) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, True, False, {}


class Trap:
    """Object whose pickle creates a file when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("sprung"),)


def dense(inputs: int, *widths: int, outputs: int = 0, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """SB3's `create_mlp`."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), activation()]
        inputs = width
    return nn.Sequential(*layers, *([nn.Linear(inputs, outputs)] if outputs else []))


def nature() -> nn.ModuleDict:
    """SB3's `NatureCNN` for pictures of 40 x 36 pixels."""
    convolutions = [nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1)]
    cnn = nn.Sequential(*convolutions, nn.ReLU(), nn.Flatten())
    return nn.ModuleDict({"cnn": cnn, "linear": nn.Sequential(nn.Linear(64, 512), nn.ReLU())})


def seen(extractor: Any, pictures: Tensor) -> Tensor:
    """Features of pictures [N, height, width, channels]; SB3 moves channels first, and scales the pixels."""
    features: Tensor = extractor["linear"](extractor["cnn"](pictures.movedim(-1, 1).float() / 255.0))
    return features


def parts(**modules: nn.Module) -> Any:
    return nn.ModuleDict(modules)


def actor_critic(inputs: int, outputs: int, *widths: int, activation: type[nn.Module] = nn.Tanh) -> Any:
    net = {f"{name}_net": dense(inputs, *widths, activation=activation) for name in ("policy", "value")}
    last = widths[-1] if widths else inputs
    return parts(mlp_extractor=parts(**net), action_net=nn.Linear(last, outputs), value_net=nn.Linear(last, 1))


def critics(inputs: int, *widths: int, number: int = 2, outputs: int = 1) -> dict[str, nn.Module]:
    return {f"qf{i}": dense(inputs, *widths, outputs=outputs) for i in range(number)}


def quantile_nets(online: nn.Module, target: nn.Module | None = None) -> Any:
    nets = {"quantile_net": online, "quantile_net_target": target or online}
    return parts(**{name: parts(quantile_net=net) for name, net in nets.items()})


def saved(path: Path, module: nn.Module, settings: Mapping[str, Any], **variables: Tensor) -> Path:
    """Writes a zip file as `model.save` of SB3 does."""
    own = {":type:": "<class 'abc.ABCMeta'>", ":serialized:": base64.b64encode(pickle.dumps(Trap())).decode()}
    data = {"policy_class": {**own, "__module__": "stable_baselines3.common.policies"}, "policy_kwargs": {}, **settings}
    return zipped(path, tensors_of(module), json.dumps(data), torch_bytes(variables))


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    return {f"{name}": tensor for name, tensor in module.state_dict().items()}


def zipped(path: Path, policy: Any, data: str = "{}", variables: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", data)
        archive.writestr("pytorch_variables.pth", variables or torch_bytes({}))
        archive.writestr("policy.pth", policy if isinstance(policy, bytes) else torch_bytes(policy))
        archive.writestr("policy.optimizer.pth", pickle.dumps(Trap()))
        archive.writestr("_stable_baselines3_version", "2.9.2")
    return path


def torch_bytes(tensors: Any) -> bytes:
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)


def imported(path: Path, env: str, **kwargs: Any) -> Imported:
    found = import_sb3(path, env, runs_dir=Path("runs"), **kwargs)
    assert not Path("sprung").exists()
    return found


def restored(run: Imported) -> Training:
    (checkpoint,) = run.directory.glob("*/checkpoints/*")
    return Training.restore(checkpoint, trust=True, eager=True, for_training=False)


def acting(training: Training) -> ActingPolicy:
    return training.acting.policy()


def assert_acts_as(run: Imported, theirs: Callable[[Tensor], Tensor], observations: NDArray[Any]) -> None:
    """Asserts that actions of a Box, or logits or Q values, equal those of SB3's network for each observation."""
    with restored(run) as training, torch.no_grad():
        policy = acting(training)
        expected = theirs(torch.from_numpy(observations))
        actions = policy.behavior().actions(observations, None)
        if run.spaces.action.shape:
            assert np.abs(actions - expected.numpy()).max() <= 1e-5
            assert expected.std() > 1e-3
            return
        assert (actions == expected.argmax(-1).numpy()).all()
        views = policy.trainee.policy.parameters.views(torch.from_numpy(policy.trainee.learner.flat()))
        batch = {"obs": torch.from_numpy(observations)[:, None]}
        outputs = policy.trainee.policy.outputs(views, batch)
        if run.algorithm == "dqn":
            found = outputs.values(batch["obs"])
            assert expected.std() > 1e-3
        else:
            expected = expected.log_softmax(-1)
            chosen = [torch.full(batch["obs"].shape[:2], action) for action in range(expected.shape[-1])]
            found = torch.stack([outputs.distribution.log_prob(each) for each in chosen], -1)
        assert (found.squeeze(1) - expected).abs().max() <= 1e-5


def test_a_ppo_policy_with_discrete_actions_acts_as_in_sb3_and_can_be_trained_further() -> None:
    net = actor_critic(4, 2, 8, 8)
    file = saved(Path("ppo.zip"), net, {"n_epochs": 3, "n_steps": 16, "batch_size": 8, "n_envs": 2, "gamma": 0.9})
    run = imported(file, "CartPole-v1", overrides=["stop.env_steps=32", "config.lr=0"])
    observations = GENERATOR.standard_normal((1_000, 4)).astype(np.float32)
    assert run.algorithm == "ppo"
    assert_acts_as(run, lambda x: net["action_net"](net["mlp_extractor"]["policy_net"](x)), observations)
    with restored(run) as training:
        config = training.description.algorithm.config
        assert (config.gamma, config.train_batch_size, config.num_epochs) == (0.9, 32, 3)
    (trial,) = resume(run.directory)
    assert trial.status == "TERMINATED"
    policies = [read_checkpoint(path).tensors["policies/default"] for path in sorted(run.directory.glob("*/*/iter*"))]
    assert len(policies) == 2
    assert all((policies[1][name] == tensor).all() for name, tensor in policies[0].items())  # the learning rate is 0


def test_an_a2c_policy_with_box_actions_has_means_and_deviations_scaled_to_the_action_range() -> None:
    net = actor_critic(3, 1, 8, activation=nn.ReLU)
    net.register_parameter("log_std", nn.Parameter(torch.tensor([0.3])))
    kwargs = {":serialized:": "", "activation_fn": "<class 'torch.nn.modules.activation.ReLU'>"}
    run = imported(saved(Path("a2c.zip"), net, {"policy_kwargs": kwargs}), "Pendulum-v1")
    observations = GENERATOR.standard_normal((1_000, 3)).astype(np.float32)
    assert run.algorithm == "a2c"
    assert_acts_as(run, lambda x: net["action_net"](net["mlp_extractor"]["policy_net"](x)).clamp(-2, 2), observations)
    with restored(run) as training:
        trainee = acting(training).trainee
        named = trainee.policy.parameters.named(trainee.learner.flat())
        assert named["log_stds"] == pytest.approx(0.3 - np.log(2), abs=1e-6)


def test_a_dqn_policy_has_the_values_and_the_target_network_of_the_sb3_policy() -> None:
    nets = [dense(4, 8, 8, outputs=2) for _ in range(2)]
    module = parts(q_net=parts(q_net=nets[0]), q_net_target=parts(q_net=nets[1]))
    run = imported(saved(Path("dqn.zip"), module, {"exploration_rate": 0.05}), "CartPole-v1")
    assert_acts_as(run, nets[0], GENERATOR.standard_normal((1_000, 4)).astype(np.float32))
    with restored(run) as training:
        trainee = acting(training).trainee
        target = trainee.policy.parameters.named(trainee.learner.target())
        assert (target["stream.0.weight"] == nets[1][4].weight.detach().numpy()).all()
        assert training.description.algorithm.config.epsilon[0] == (0, 0.05)


def test_a_qrdqn_policy_has_the_values_and_the_target_network_of_the_sb3_contrib_policy() -> None:
    nets = [dense(4, 8, 8, outputs=6) for _ in range(2)]
    run = imported(saved(Path("qrdqn.zip"), quantile_nets(*nets), {"n_quantiles": 3, **CONTRIB}), "CartPole-v1")
    assert_acts_as(
        run, lambda x: nets[0](x).view(-1, 3, 2).mean(1), GENERATOR.standard_normal((1_000, 4)).astype(np.float32)
    )
    with restored(run) as training:
        trainee = acting(training).trainee
        target = trainee.policy.parameters.named(trainee.learner.target())
        assert target["stream.0.bias"].tolist() == nets[1][4].bias.view(3, 2).T.flatten().tolist()


def test_a_tqc_policy_acts_as_in_sb3_contrib_and_keeps_its_quantiles() -> None:
    actor = parts(latent_pi=dense(3, 8), mu=nn.Linear(8, 1), log_std=nn.Linear(8, 1))
    both = [parts(**critics(4, 8, number=3, outputs=5)) for _ in range(2)]
    module = parts(actor=actor, critic=both[0], critic_target=both[1])
    run = imported(saved(Path("tqc.zip"), module, {"top_quantiles_to_drop_per_net": 1, **CONTRIB}), "Pendulum-v1")
    observations = GENERATOR.standard_normal((1_000, 3)).astype(np.float32)
    assert run.algorithm == "tqc"
    assert_acts_as(run, lambda x: 2 * actor["mu"](actor["latent_pi"](x)).tanh(), observations)
    with restored(run) as training:
        config = training.description.algorithm.config
        assert (config.num_critics, config.num_quantiles, config.dropped_per_critic) == (3, 5, 1)
        trainee = acting(training).trainee
        target = trainee.policy.parameters.named(trainee.learner.target())
        assert (target["critics.2.head.weight"] == both[1]["qf2"][2].weight.detach().numpy()).all()


def test_a_sac_image_policy_acts_as_in_sb3_and_keeps_its_temperature() -> None:
    actor = parts(features_extractor=nature(), latent_pi=dense(512, 8), mu=nn.Linear(8, 2), log_std=nn.Linear(8, 2))
    both = [parts(features_extractor=nature(), **critics(514, 8)) for _ in range(2)]
    module = parts(actor=actor, critic=both[0], critic_target=both[1])
    file = saved(Path("sac.zip"), module, {"ent_coef": "auto"}, log_ent_coef=torch.tensor([-1.5]))
    run = imported(file, f"{__name__}:Pictures", overrides=["config.replay.capacity=100"])

    def action(pictures: Tensor) -> Tensor:
        squashed = actor["mu"](actor["latent_pi"](seen(actor["features_extractor"], pictures))).tanh()
        return torch.tensor([-2.0, 0.0]) + 0.5 * (squashed + 1) * torch.tensor([4.0, 5.0])

    assert_acts_as(run, action, GENERATOR.integers(0, 256, (1_000, 40, 36, 3), np.uint8))
    with restored(run) as training:
        trainee = acting(training).trainee
        online, target = map(trainee.policy.parameters.named, (trainee.learner.flat(), trainee.learner.target()))
        assert online["log_alpha"] == -1.5
        first, second = (net["qf1"][2].weight.detach().numpy() for net in both)
        assert (online["critics.1.head.weight"] == first).all()
        assert (target["critics.1.head.weight"] == second).all()


def test_a_td3_policy_acts_as_in_sb3() -> None:
    actors = [dense(3, 8, 6, outputs=1).append(nn.Tanh()) for _ in range(2)]
    module = parts(actor=parts(mu=actors[0]), actor_target=parts(mu=actors[1]))
    module.update({name: parts(**critics(4, 8, 6)) for name in ("critic", "critic_target")})
    run = imported(saved(Path("td3.zip"), module, {}), "Pendulum-v1")
    assert_acts_as(run, lambda x: 2 * actors[0](x), GENERATOR.standard_normal((1_000, 3)).astype(np.float32))


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_policy_and_the_value_share_an_image_encoder_if_they_do_in_sb3(is_shared: bool) -> None:
    net = actor_critic(512, 2)
    net.register_parameter("log_std", nn.Parameter(torch.zeros(2)))
    encoders = [nature() for _ in range(2)]
    net.update(dict.fromkeys(("features_extractor", "pi_features_extractor"), encoders[0]))
    net["vf_features_extractor"] = encoders[0 if is_shared else 1]
    run = imported(saved(Path("ppo.zip"), net, {"n_epochs": 1}), f"{__name__}:Pictures")
    pictures = GENERATOR.integers(0, 256, (100, 40, 36, 3), np.uint8)
    bounds = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 5.0])
    assert_acts_as(run, lambda x: net["action_net"](seen(encoders[0], x)).clamp(*bounds), pictures)
    with restored(run) as training:
        assert training.description.algorithm.config.model.shared_value is is_shared


def normalization(path: Path, **changed: Any) -> Path:
    numbers = {"mean": np.float64([1, -2, 0]), "var": np.float64([4, 0.25, 1]), "count": 99, "clip_obs": 10.0}
    np.savez(path, **{**numbers, "epsilon": 1e-8, **changed})
    return path


def test_a_policy_with_normalization_converted_from_vecnormalize_acts_as_in_sb3() -> None:
    net = actor_critic(3, 1, 8)
    net.register_parameter("log_std", nn.Parameter(torch.zeros(1)))
    file, path = saved(Path("ppo.zip"), net, {"n_epochs": 3}), normalization(Path("norm.npz"))
    run = imported(file, "Pendulum-v1", normalization=path)

    def action(x: Tensor) -> Tensor:
        normalized = (x.double() - torch.tensor([1.0, -2, 0])) / (torch.tensor([4, 0.25, 1]).double() + 1e-8).sqrt()
        normalized = normalized.clamp(-10, 10).float()
        return net["action_net"](net["mlp_extractor"]["policy_net"](normalized)).clamp(-2, 2)

    assert_acts_as(run, action, (20 * GENERATOR.standard_normal((1_000, 3))).astype(np.float32))
    Path("vecnormalize.pkl").write_bytes(pickle.dumps(Trap()))
    refused = CliRunner().invoke(
        cli, ["import-sb3", "ppo.zip", "--env", "Pendulum-v1", "--normalization", "vecnormalize.pkl"]
    )
    assert refused.exit_code == 2
    assert lines_for(Path("vecnormalize.pkl")) in refused.stderr
    assert len(lines_for(Path("vecnormalize.pkl")).splitlines()) == 5
    assert not Path("sprung").exists()


@pytest.mark.parametrize("changed", [{"clip_obs": 5.0}, {"epsilon": 1e-2}, {"mean": np.zeros(4)}, {"var": -np.ones(3)}])
def test_normalization_with_a_different_formula_or_invalid_statistics_is_refused(changed: dict[str, Any]) -> None:
    net = actor_critic(3, 1, 8)
    net.register_parameter("log_std", nn.Parameter(torch.zeros(1)))
    path = normalization(Path("norm.npz"), **changed)
    with pytest.raises(UsageError, match=r"^norm\.npz: "):
        imported(saved(Path("ppo.zip"), net, {"n_epochs": 3}), "Pendulum-v1", normalization=path)
    assert not list(Path("runs").glob("*"))


def changed(**tensors: Any) -> Callable[[Path], Path]:
    """A function that writes a PPO policy with changed parameters; None leaves a parameter out."""

    def write(path: Path) -> Path:
        found = {**tensors_of(actor_critic(4, 2, 8, 8)), **{name.replace("__", "."): t for name, t in tensors.items()}}
        return zipped(path, {name: tensor for name, tensor in found.items() if tensor is not None}, '{"n_epochs": 1}')

    return write


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "damaged": (
        lambda path: path.write_bytes(changed()(path).read_bytes()[:-900]),
        "contains no policy.pth: it was not written by SB3's model.save, or is damaged",
    ),
    "flipped": (lambda path: path.write_bytes(changed()(path).read_bytes().replace(b"n_epochs", b"n_epochz")), "read"),
    "other zip": (lambda path: path.write_bytes(torch_bytes({})), "no policy.pth"),
    "code": (lambda path: zipped(path, {"a": Trap()}), "contains objects other than tensors"),
    "uneven quantiles": (
        lambda path: zipped(path, tensors_of(quantile_nets(dense(4, 8, outputs=6))), '{"n_quantiles": 4}'),
        "n_quantiles must divide the 6 outputs",
    ),
    "no torch": (lambda path: zipped(path, pickle.dumps(Trap())), "cannot be read"),
    "no dict": (lambda path: zipped(path, torch.zeros(2)), "contains objects other than tensors"),
    "spread": (changed(action_net__weight=torch.zeros(1).expand(2, 10**9)), "larger than the file"),
    "large": (lambda path: zipped(path, {}, " " * 2_000_000), "bytes unpacked"),
    "wide": (
        changed(mlp_extractor__policy_net__2__weight=torch.zeros(900, 3)),
        "which is not the shape of a dense layer",
    ),
    "NaN": (changed(action_net__bias=torch.full((2,), np.nan)), "contains NaN or infinite numbers"),
    "missing": (changed(value_net__weight=None), "policy.pth lacks value_net.weight"),
    "nothing": (lambda path: zipped(path, {}), "so this is none of the policies of PPO"),
    "nested": (lambda path: zipped(path, tensors_of(actor_critic(4, 2)), "[" * 100_000), "cannot be read"),
    "unsaid": (
        lambda path: zipped(path, tensors_of(actor_critic(4, 2))),
        "the file does not name its algorithm: pass --algorithm with",
    ),
    "recurrent": (changed(lstm_actor__bias_hh_l0=torch.zeros(2)), "unknown parameter lstm_actor.bias_hh_l0"),
    "gSDE": (changed(log_std=torch.zeros(8, 2)), "gSDE"),
    "uneven": (changed(mlp_extractor__value_net__2__weight=torch.zeros(9, 8)), "different widths"),
    "own": (lambda path: saved(path, actor_critic(4, 2), {"policy_class": {"__module__": "my.nets"}}), "my.nets"),
    "GELU": (lambda path: saved(path, actor_critic(4, 2), {"policy_kwargs": {"activation_fn": "a.GELU"}}), "GELU"),
    "other env": (lambda path: saved(path, actor_critic(6, 3, 8), {}), "is --env the env"),
    "Box": (changed(log_std=torch.zeros(2)), "is --env the env"),
    "pictures": (
        lambda path: saved(path, parts(**actor_critic(512, 2), features_extractor=nature()), {}),
        "an image enc",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_importing_a_bad_file_prints_a_single_message_and_creates_no_run(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, message = BAD[kind]
    monkeypatch.setattr(sb3_zip, "MOST_DATA_BYTES", 1_000_000)
    write(Path("bad.zip"))
    result = CliRunner().invoke(cli, ["import-sb3", "bad.zip", "--env", "CartPole-v1"])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert not Path("sprung").exists()
    assert not list(Path("runs").glob("*"))


def test_the_import_command_prints_the_run_and_the_next_steps(wording) -> None:
    saved(Path("ppo.zip"), actor_critic(4, 2, 8), {"n_epochs": 3})
    Path("vecnormalize.pkl").touch()
    result = CliRunner().invoke(cli, ["import-sb3", "ppo.zip", "--env", "CartPole-v1", "--name", "theirs"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == wording("runs/theirs", "CartPole-v1")
    assert result.stderr == wording("vecnormalize.pkl")
    asked = CliRunner().invoke(cli, ["import-sb3", "ppo.zip", "--env", "CartPole-v1", "--algorithm", "sac"])
    assert asked.exit_code == 2
    assert asked.stderr == wording()
