"""Broken specs, with the message and exit code for each: through the command line, as users see them."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.registry import BUILT_IN
from rlrun.experiments.spec.expansion import expand
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.spec.search_space import find_spaces

GOOD = "try:\n  algorithm: ppo\n  env: CartPole-v1\n  stop: {env_steps: 1e5}\n"


def entry(lines: str) -> str:
    """A spec whose entry has additional lines, which start in line 5, column 3."""
    return f"{GOOD}  {lines}\n"


def config(lines: str) -> str:
    """A spec whose config begins with the given lines, in line 6, column 5."""
    return entry(f"config:\n    {lines}")


def algorithm(value: str) -> str:
    """A spec whose algorithm is in line 2, column 14."""
    return GOOD.replace("ppo", value)


def env(value: str) -> str:
    """A spec whose env is in line 3, column 8."""
    return GOOD.replace("CartPole-v1", value)


def stop(value: str) -> str:
    """A spec whose stop is in line 4, column 9."""
    return GOOD.replace("{env_steps: 1e5}", value)


ALIAS_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
)

NORMAL, _ = find_spaces({"config": {"lr": {"normal": [1e-6, 1]}}})
LEARNING_RATES = [drawn["config", "lr"] for drawn in expand(NORMAL, 8, seed=0)]
"""The draws of a spec with this space; about half of them are negative."""

SEVERAL_MISTAKES = """\
one:
  algoritm: ppo
  env: CartPole-v9
  stop: {steps: 10}
two:
  algorithm: ppo
  env: Pendulum-v1
  stop: {env_steps: 1e5}
  seeds: [-1]
  lr: 3
  config:
    lr: fast
    lr: slow
    gamma: {uniform: [0, 2]}
    model: {hiddens: [0]}
"""


@dataclass
class Case:
    name: str
    spec: str | bytes
    messages: list[str]
    overrides: list[str] = field(default_factory=list)


ATARI = "{id: ALE/Pong-v5, preset: atari}"

PRESETS = [
    Case(
        "an unknown preset",
        env("{id: ALE/Pong-v5, preset: atary}"),
        ["spec.yaml:3:34: try.env.preset: must be 'atari' or null, not 'atary'; did you mean 'atari'?"],
    ),
    Case(
        "a preset of another family of envs",
        env("{id: CartPole-v1, preset: atari}"),
        ["spec.yaml:3:34: try.env.preset: preset: atari supports only ALE's vector envs, not CartPole-v1"],
    ),
    Case(
        "a preset around which nothing vectorised is left",
        env("{id: ALE/Pong-v5, preset: atari, backend: loop}"),
        ["spec.yaml:3:34: try.env.preset: preset: atari supports only ALE's vector envs, not ALE/Pong-v5"],
    ),
    Case(
        "a preset that varies",
        env("{id: ALE/Pong-v5, preset: {grid_search: [atari, null]}}"),
        [
            (
                "spec.yaml:3:34: try.env.preset: a preset also sets config, so it cannot vary: write a separate "
                "experiment for each"
            )
        ],
    ),
    Case(
        "envs with a preset that vary as a whole",
        env("{choice: [{id: ALE/Pong-v5, preset: atari}, CartPole-v1]}"),
        [
            (
                "spec.yaml:3:8: try.env: a preset also sets config, so it cannot vary: write a separate experiment "
                "for each"
            )
        ],
    ),
    Case(
        "a section that varies as a whole under a preset",
        env(ATARI) + "  config: {model: {choice: [{hiddens: [8]}, {hiddens: []}]}}\n",
        ["spec.yaml:5:19: try.config.model: preset atari sets keys of model: vary these keys individually"],
    ),
    Case(
        "keyword arguments for evaluations that the env does not have",
        env("{id: CartPole-v1, evaluation_kwargs: {sutton: true}}"),
        [
            (
                "spec.yaml:3:45: try.env.evaluation_kwargs: env CartPole-v1: wrong keyword arguments: got an "
                "unexpected keyword argument 'sutton'"
            )
        ],
    ),
]

FILES = [
    Case("an empty file", "", ["spec.yaml: is empty"]),
    Case("only a comment", "# nothing\n", ["spec.yaml: is empty"]),
    Case(
        "a list",
        "- algorithm: ppo\n",
        ["spec.yaml:1:1: must be a mapping of experiment names to experiments, not a list"],
    ),
    Case("a text", "ppo\n", ["spec.yaml:1:1: must be a mapping of experiment names to experiments, not 'ppo'"]),
    Case("an empty mapping", "{}\n", ["spec.yaml:1:1: contains no experiment"]),
    Case("not UTF-8", b"try:\n  algorithm: \xff\n", ["spec.yaml:2:14: is not UTF-8 text (byte 0xff)"]),
    Case("UTF-16", "try: {}".encode("utf-16"), ["spec.yaml:1:1: is not UTF-8 text (byte 0xff)"]),
    Case("binary", b"PK\x03\x04\x00", ["spec.yaml:1:3: the character '\\x03' is not allowed in YAML"]),
    Case("too large", "# " + "x" * 600_000, ["spec.yaml: is larger than 512 KiB, the limit for specs"]),
    Case(
        "two documents",
        GOOD + "---\n" + GOOD,
        [
            (
                "spec.yaml:5:1: a second document starts (---), but a spec must be one document; put each "
                "experiment under its own name"
            )
        ],
    ),
    Case("an unclosed bracket", config("lr: [1, 2"), ["spec.yaml:7:1: YAML syntax: unclosed ["]),
    Case("an unclosed brace", entry("config: {lr: 1e-3"), ["spec.yaml:6:1: YAML syntax: unclosed {"]),
    Case("an unclosed quote", entry("config: {lr: '1e-3}"), ["spec.yaml:6:1: YAML syntax: unclosed quote"]),
    Case("a tab", "try:\n\talgorithm: ppo\n", ["spec.yaml:2:1: YAML syntax: a tab is not allowed: indent with spaces"]),
    Case(
        "bad indentation",
        "try:\n  algorithm: ppo\n   env: CartPole-v1\n",
        [
            (
                "spec.yaml:3:7: YAML syntax: unexpected ':': check the indentation and any ':' before it, or "
                "quote the text"
            )
        ],
    ),
    Case(
        "a list item among keys",
        "try:\n  algorithm: ppo\n  - env\n",
        [("spec.yaml:3:3: YAML syntax: this line is indented differently from the lines above, or a ':' is missing")],
    ),
    Case(
        "a missing colon",
        "try:\n  algorithm ppo\n  env: CartPole-v1\n",
        [
            (
                "spec.yaml:3:6: YAML syntax: unexpected ':': check the indentation and any ':' before it, or "
                "quote the text"
            )
        ],
    ),
    Case(
        "two colons",
        "try:\n  algorithm: ppo: 2\n",
        [
            (
                "spec.yaml:2:17: YAML syntax: unexpected ':': check the indentation and any ':' before it, "
                "or quote the text"
            )
        ],
    ),
    Case(
        "an at sign",
        "try:\n  algorithm: @ppo\n",
        ["spec.yaml:2:14: YAML syntax: a text that starts with this character must be quoted"],
    ),
    Case(
        "an unknown alias",
        config("lr: *fast"),
        ["spec.yaml:6:9: the alias *fast refers to an anchor (&) that is not defined above it"],
    ),
    Case(
        "a python tag",
        config("lr: !!python/object/apply:os.system [ls]"),
        [
            (
                "spec.yaml:6:9: try.config.lr: the tag !!python/object/apply:os.system is not allowed; use "
                "only plain YAML values"
            )
        ],
    ),
    Case(
        "a custom tag",
        config("lr: !env LR"),
        ["spec.yaml:6:9: try.config.lr: the tag !env is not allowed; use only plain YAML values"],
    ),
    Case(
        "a tag that lies",
        config("lr: !!float fast"),
        ["spec.yaml:6:9: try.config.lr: 'fast' does not match its tag !!float"],
    ),
    Case(
        "duplicate keys",
        config("lr: 1e-3\n    gamma: 0.9\n    lr: 1e-4"),
        ["spec.yaml:8:5: try.config: the key 'lr' appears twice, first on line 6, column 5"],
    ),
    Case(
        "duplicate experiments", GOOD + GOOD, ["spec.yaml:5:1: the key 'try' appears twice, first on line 1, column 1"]
    ),
    Case(
        "a key that is a number",
        config("1: 2"),
        ["spec.yaml:6:5: try.config: '1' must be quoted to be a key, because keys are strings"],
    ),
    Case(
        "a key that is true",
        config("true: 2"),
        ["spec.yaml:6:5: try.config: 'true' must be quoted to be a key, because keys are strings"],
    ),
    Case(
        "a key that is a list",
        config("[a]: 2"),
        ["spec.yaml:6:5: try.config: a key must be a string, not a list or mapping"],
    ),
    Case("an alias bomb", ALIAS_BOMB, ["spec.yaml:1:35: contains more than 100,000 values, with aliases expanded"]),
    Case("too deep", "try: " + "[" * 60, ["spec.yaml:1:45: is nested more than 40 levels deep"]),
    Case(
        "an alias inside itself",
        "try: &a [*a]\n",
        ["spec.yaml:1:6: try.0: an alias (*) inside its own value"],
    ),
    Case(
        "a merge of a number",
        config("<<: 3"),
        ["spec.yaml:6:9: try.config: << must merge a mapping (*name) or a list of mappings"],
    ),
    Case("a control character", "try: \x07\n", ["spec.yaml:1:6: the character '\\x07' is not allowed in YAML"]),
]

ENTRIES = [
    Case(
        "an experiment without a name",
        "algorithm: ppo\nenv: CartPole-v1\n",
        [
            (
                "spec.yaml:1:1: an experiment needs a name: add a first line with the name (my-experiment:), "
                "and indent the rest below it"
            )
        ],
    ),
    Case(
        "a name that is a path",
        GOOD.replace("try", "../try"),
        [
            (
                "spec.yaml:1:1: ../try: the name '../try' must consist of letters, digits and _.+-, because it "
                "becomes a directory name"
            )
        ],
    ),
    Case(
        "an entry that is a text",
        "try: ppo\n",
        ["spec.yaml:1:6: try: must be a mapping with algorithm, env, config and stop, not 'ppo'"],
    ),
    Case(
        "an empty entry",
        "try:\n",
        ["spec.yaml:1:5: try: must be a mapping with algorithm, env, config and stop, not null"],
    ),
    Case(
        "no algorithm",
        "try:\n  env: CartPole-v1\n  stop: {env_steps: 1e5}\n",
        ["spec.yaml:1:1: try.algorithm: is missing: add one of " + ", ".join(sorted(BUILT_IN))],
    ),
    Case(
        "unknown algorithm",
        algorithm("pp0"),
        ["spec.yaml:2:14: try.algorithm: unknown algorithm 'pp0'; did you mean 'ppo'?"],
    ),
    Case(
        "algorithm is a number",
        algorithm("3"),
        ["spec.yaml:2:14: try.algorithm: must be the name of an algorithm, not 3"],
    ),
    Case(
        "algorithm grid",
        algorithm("{grid_search: [ppo, ppo]}"),
        [("spec.yaml:2:14: try.algorithm: an experiment has one algorithm: write a separate experiment for each")],
    ),
    Case(
        "algorithm module missing",
        algorithm("no_such_lab:AWR"),
        [
            (
                "spec.yaml:2:14: try.algorithm: the algorithm's module 'no_such_lab' cannot be imported: "
                "no module named 'no_such_lab'; run rlrun in the folder that contains no_such_lab.py, or "
                "move the spec file there"
            )
        ],
    ),
    Case(
        "algorithm not an Algorithm",
        algorithm("collections:OrderedDict"),
        [
            (
                "spec.yaml:2:14: try.algorithm: 'collections:OrderedDict' is not an Algorithm: derive it "
                "from rlrun.plugin.Algorithm"
            )
        ],
    ),
    Case(
        "no env",
        "try:\n  algorithm: ppo\n  stop: {env_steps: 1e5}\n",
        ["spec.yaml:1:1: try.env: is missing: add, for example, env: CartPole-v1"],
    ),
    Case(
        "unknown env",
        env("CartPole-v7"),
        ["spec.yaml:3:8: try.env.id: unknown env 'CartPole-v7'; did you mean 'CartPole-v1'?"],
    ),
    Case(
        "misspelt env",
        env("LunarLandr-v3"),
        [("spec.yaml:3:8: try.env.id: unknown env 'LunarLandr-v3'; did you mean 'LunarLander-v3'?")],
    ),
    Case(
        "env a number",
        env("1"),
        [("spec.yaml:3:8: try.env: must be a Gymnasium id, package.module:factory or a mapping with an id, not 1")],
    ),
    Case("env without id", env("{kwargs: {}}"), ["spec.yaml:3:3: try.env.id: is missing"]),
    Case(
        "env key",
        env("{id: CartPole-v1, kwarg: {}}"),
        ["spec.yaml:3:26: try.env.kwarg: unknown key 'kwarg'; did you mean 'kwargs'?"],
    ),
    Case(
        "env kwargs",
        env("{id: CartPole-v1, kwargs: {suton_barto_reward: true}}"),
        [
            (
                "spec.yaml:3:34: try.env.kwargs: env CartPole-v1: wrong keyword arguments: got an unexpected "
                "keyword argument 'suton_barto_reward'; did you mean 'sutton_barto_reward'?"
            )
        ],
    ),
    Case(
        "env wrapper",
        env("{id: CartPole-v1, wrappers: [TimeAwareObservatio]}"),
        [
            (
                "spec.yaml:3:37: try.env.wrappers.0: gymnasium.wrappers has no wrapper "
                "'TimeAwareObservatio'; did you mean 'TimeAwareObservation'?"
            )
        ],
    ),
    Case(
        "env backend",
        env("{id: CartPole-v1, backend: vectr}"),
        [
            (
                "spec.yaml:3:35: try.env.backend: must be 'auto', 'vector', 'loop' or 'envpool', not "
                "'vectr'; did you mean 'vector'?"
            )
        ],
    ),
    Case(
        "env rule",
        env("{id: CartPole-v1, backend: vector, wrappers: [NormalizeReward]}"),
        [("spec.yaml:3:8: try.env: wrappers are not supported with backend: vector; use backend: loop or auto")],
    ),
    Case(
        "env factory missing",
        env("rlrun.toys:DictCartPol"),
        [
            (
                "spec.yaml:3:8: try.env.id: the env factory 'rlrun.toys:DictCartPol' does not "
                "exist: rlrun.toys has no 'DictCartPol'; did you mean 'DictCartPole'?"
            )
        ],
    ),
    Case(
        "env module missing",
        env("gymnasium.envs.toy_tex:TaxiEnv"),
        [
            (
                "spec.yaml:3:8: try.env.id: the env factory's module 'gymnasium.envs.toy_tex' cannot be "
                "imported: no module named 'gymnasium.envs.toy_tex'; did you mean 'toy_text'?"
            )
        ],
    ),
    Case(
        "env in a private module",
        env("rlrun.toys.known_optimum:DictCartPole"),
        [
            (
                "spec.yaml:3:8: try.env.id: the env factory 'rlrun.toys.known_optimum:DictCartPole' is in a private "
                "module of rlrun: use rlrun.toys:DictCartPole"
            )
        ],
    ),
    Case(
        "no stop",
        "try:\n  algorithm: ppo\n  env: CartPole-v1\n",
        [("spec.yaml:1:1: try.stop: is missing: set when a trial ends, such as stop: {env_steps: 100_000}")],
    ),
    Case(
        "empty stop",
        stop("{}"),
        ["spec.yaml:4:9: try.stop: needs at least one metric; add, for example, env_steps: 100_000"],
    ),
    Case("stop a number", stop("100000"), ["spec.yaml:4:9: try.stop: must be a mapping (key: value), not 100000"]),
    Case("stop text", stop("{env_steps: many}"), ["spec.yaml:4:21: try.stop.env_steps: must be a number, not 'many'"]),
    Case("stop zero", stop("{env_steps: 0}"), ["spec.yaml:4:21: try.stop.env_steps: must be > 0, not 0"]),
    Case(
        "stop RLlib",
        stop("{episode_reward_mean: 475, timesteps_total: 1e5}"),
        [
            (
                "spec.yaml:4:10: try.stop.episode_reward_mean: unknown metric 'episode_reward_mean'; did "
                "you mean 'episode_return_mean'?"
            ),
            ("spec.yaml:4:36: try.stop.timesteps_total: unknown metric 'timesteps_total'; did you mean 'env_steps'?"),
        ],
    ),
    Case(
        "stop learner",
        stop("{kl: 1}"),
        ["spec.yaml:4:10: try.stop.kl: unknown metric 'kl'; did you mean 'learner/kl'?"],
    ),
    Case(
        "stop evaluation",
        stop("{evaluation/episode_return_mean: 1}"),
        [
            (
                "spec.yaml:4:10: try.stop.evaluation/episode_return_mean: 'evaluation/episode_return_mean' "
                "is reported only with an evaluation: add, for example, evaluation: {every: 10}"
            )
        ],
    ),
    Case(
        "stop nan", stop("{env_steps: .nan}"), ["spec.yaml:4:21: try.stop.env_steps: must be a finite number, not nan"]
    ),
    Case(
        "stop space",
        stop("{env_steps: {grid_search: [1, 2]}}"),
        [
            (
                "spec.yaml:4:21: try.stop.env_steps: a search space is allowed only below config and env, and in "
                "the mutations of pbt"
            )
        ],
    ),
    Case(
        "misspelt key",
        entry("chekpoint: {every: 3}"),
        ["spec.yaml:5:3: try.chekpoint: unknown key 'chekpoint'; did you mean 'checkpoint'?"],
    ),
    Case(
        "unknown key",
        entry("zzz: 3"),
        [
            (
                "spec.yaml:5:3: try.zzz: unknown key 'zzz'; must be one of: algorithm, checkpoint, "
                "config, env, evaluation, expect, failure, hooks, loggers, machine, machines, "
                "num_samples, output, policies, resources, scheduler, searcher, seeds, stop, storage"
            )
        ],
    ),
    Case(
        "nothing to learn from",
        algorithm("r2d3"),
        [
            (
                "spec.yaml:1:1: try.config.demonstrations: must name demonstrations to learn from; "
                "record them with `rlrun demonstrate`"
            )
        ],
    ),
    Case(
        "no data and no env",
        "try: {algorithm: bc, stop: {sgd_steps: 10}}",
        ["spec.yaml:1:1: try.config.input: must name a data set to learn from"],
    ),
    Case(
        "data that is nowhere",
        "try: {algorithm: bc, config: {input: nowhere, num_workers: 1}, stop: {sgd_steps: 10}}",
        [
            (
                "spec.yaml:1:47: try.config.num_workers: cannot be set for bc, because the algorithm "
                "does not step an env"
            ),
        ],
    ),
    Case("config key beside config", entry("lr: 1e-3"), ["spec.yaml:5:3: try.lr: 'lr' belongs under config"]),
    Case(
        "model key beside config",
        entry("hiddens: [64]"),
        ["spec.yaml:5:3: try.hiddens: 'hiddens' belongs under config.model"],
    ),
    Case("env key beside env", entry("wrappers: []"), ["spec.yaml:5:3: try.wrappers: 'wrappers' belongs under env"]),
    Case(
        "seeds zero",
        entry("seeds: 0"),
        [("spec.yaml:5:10: try.seeds: must be a number of seeds from 1 to 10,000, or a list of seeds, not 0")],
    ),
    Case(
        "seeds negative", entry("seeds: [0, -1]"), ["spec.yaml:5:14: try.seeds.1: must be a whole number >= 0, not -1"]
    ),
    Case("seeds twice", entry("seeds: [1, 2, 1]"), ["spec.yaml:5:10: try.seeds: seed 1 appears twice"]),
    Case(
        "seeds fraction",
        entry("seeds: 2.5"),
        [("spec.yaml:5:10: try.seeds: must be a number of seeds from 1 to 10,000, or a list of seeds, not 2.5")],
    ),
    Case("seeds empty", entry("seeds: []"), ["spec.yaml:5:10: try.seeds: must contain at least one seed"]),
    Case(
        "seeds true",
        entry("seeds: true"),
        [("spec.yaml:5:10: try.seeds: must be a number of seeds from 1 to 10,000, or a list of seeds, not true")],
    ),
    Case(
        "num_samples zero",
        entry("num_samples: 0"),
        ["spec.yaml:5:16: try.num_samples: must be a whole number > 0, not 0"],
    ),
    Case(
        "num_samples without spaces",
        entry("num_samples: 4"),
        [
            (
                "spec.yaml:5:16: try.num_samples: 4 samples would be identical, because there is no random "
                "search space; for repetitions, set seeds"
            )
        ],
    ),
    Case(
        "checkpoint key",
        entry("checkpoint: {kep: 3}"),
        ["spec.yaml:5:16: try.checkpoint.kep: unknown key 'kep'; did you mean 'keep'?"],
    ),
    Case(
        "checkpoint metric",
        entry("checkpoint: {best: episode_return}"),
        [("spec.yaml:5:22: try.checkpoint.best: unknown metric 'episode_return'; did you mean 'episode_return_mean'?")],
    ),
    Case(
        "checkpoint every",
        entry("checkpoint: {every: 0}"),
        ["spec.yaml:5:23: try.checkpoint.every: must be a whole number > 0 or null, not 0"],
    ),
    Case(
        "checkpoint not mapping",
        entry("checkpoint: 10"),
        ["spec.yaml:5:15: try.checkpoint: must be a mapping (key: value), not 10"],
    ),
    Case(
        "evaluation episodes",
        entry("evaluation: {episodes: ten}"),
        ["spec.yaml:5:26: try.evaluation.episodes: must be a whole number > 0, not 'ten'"],
    ),
    Case(
        "evaluation env",
        entry("evaluation: {env: CartPol-v1}"),
        [("spec.yaml:5:21: try.evaluation.env.id: unknown env 'CartPol-v1'; did you mean 'CartPole-v1'?")],
    ),
    Case(
        "resources",
        entry("resources: {cpus: -1}"),
        ["spec.yaml:5:21: try.resources.cpus: must be a number > 0, not -1"],
    ),
    Case(
        "resources gpus",
        entry("resources: {gpus: 1}"),
        ["spec.yaml:5:15: try.resources.gpus: unknown key 'gpus'; did you mean 'cpus'?"],
    ),
    Case(
        "expect nothing",
        entry("expect: {within_env_steps: 1e5}"),
        [("spec.yaml:5:11: try.expect: has no metric; add one, such as episode_return_mean: 450")],
    ),
    Case(
        "expect metric",
        entry("expect: {episode_return_men: 450}"),
        [
            (
                "spec.yaml:5:12: try.expect.episode_return_men: unknown metric 'episode_return_men'; did "
                "you mean 'episode_return_mean'?"
            )
        ],
    ),
    Case(
        "expect text",
        entry("expect: {episode_return_mean: good}"),
        ["spec.yaml:5:33: try.expect.episode_return_mean: must be a number, not 'good'"],
    ),
]

CONFIGS = [
    Case(
        "misspelt config key",
        config("lrr: 1e-3"),
        ["spec.yaml:6:5: try.config.lrr: unknown key 'lrr'; did you mean 'lr'?"],
    ),
    Case(
        "unknown config key",
        config("zzz: 1e-3"),
        ["spec.yaml:6:5: try.config.zzz: unknown key 'zzz'; see `rlrun config ppo`"],
    ),
    Case(
        "entry key in config",
        config("seeds: 3"),
        ["spec.yaml:6:5: try.config.seeds: 'seeds' belongs next to `config`, not inside it"],
    ),
    Case(
        "model key in config",
        config("activation: relu"),
        ["spec.yaml:6:5: try.config.activation: 'activation' belongs under config.model"],
    ),
    Case(
        "true number",
        config("lr: true"),
        [
            (
                "spec.yaml:6:9: try.config.lr: must be a number >= 0, a list of pairs [a whole number >= 0, "
                "a number >= 0] or a mapping (key: value), not true"
            )
        ],
    ),
    Case(
        "number as text",
        config("num_epochs: '10'"),
        ["spec.yaml:6:17: try.config.num_epochs: must be a whole number > 0, not '10'"],
    ),
    Case(
        "fraction for whole",
        config("num_epochs: 2.5"),
        ["spec.yaml:6:17: try.config.num_epochs: must be a whole number > 0, not 2.5"],
    ),
    Case(
        "yes",
        config("normalize_observations: yes"),
        [("spec.yaml:6:29: try.config.normalize_observations: must be true or false, not 'yes'; did you mean true?")],
    ),
    Case(
        "number for boolean",
        config("normalize_observations: 1"),
        ["spec.yaml:6:29: try.config.normalize_observations: must be true or false, not 1"],
    ),
    Case(
        "out of range",
        config("gamma: 1.5"),
        ["spec.yaml:6:12: try.config.gamma: must be a number >= 0 and <= 1, not 1.5"],
    ),
    Case("negative lr", config("lr: -1e-3"), ["spec.yaml:6:9: try.config.lr: must be a number >= 0, not -0.001"]),
    Case("infinite", config("lr: .inf"), ["spec.yaml:6:9: try.config.lr: must be a finite number >= 0, not inf"]),
    Case(
        "nan",
        config("gamma: .nan"),
        ["spec.yaml:6:12: try.config.gamma: must be a finite number >= 0 and <= 1, not nan"],
    ),
    Case("null", config("gamma:"), ["spec.yaml:6:11: try.config.gamma: must be a number >= 0 and <= 1, not null"]),
    Case(
        "config list", entry("config: [lr]"), ["spec.yaml:5:11: try.config: must be a mapping (key: value), not ['lr']"]
    ),
    Case(
        "hiddens",
        config("model: {hiddens: 64}"),
        ["spec.yaml:6:22: try.config.model.hiddens: must be a list of whole numbers > 0 or null, not 64"],
    ),
    Case(
        "hiddens item",
        config("model: {hiddens: [64, 0]}"),
        ["spec.yaml:6:27: try.config.model.hiddens.1: must be a whole number > 0, not 0"],
    ),
    Case(
        "choice",
        config("model: {activation: rellu}"),
        [
            (
                "spec.yaml:6:25: try.config.model.activation: must be 'tanh', 'relu', 'elu' or "
                "'silu', not 'rellu'; did you mean 'relu'?"
            )
        ],
    ),
    Case(
        "schedule order",
        config("lr: [[100, 1e-3], [0, 0]]"),
        [("spec.yaml:6:9: try.config.lr: the env_steps of a schedule's points must ascend, not [100, 0]")],
    ),
    Case(
        "schedule point",
        config("lr: [[0, 1e-3], [100]]"),
        ["spec.yaml:6:21: try.config.lr.1: must be [a whole number >= 0, a number >= 0], not [100]"],
    ),
    Case(
        "rule across",
        config("minibatch_size: 4096"),
        ["spec.yaml:6:5: try.config: minibatch_size (4096) must not exceed train_batch_size (2048)"],
    ),
    Case(
        "rule across 2",
        config("normalize_rewards: true\n    clip_rewards: 1"),
        [
            (
                "spec.yaml:6:5: try.config: set normalize_rewards to false or clip_rewards to null, because they "
                "cannot be combined"
            )
        ],
    ),
]

SPACES = [
    Case(
        "misspelt space",
        config("lr: {grid_serch: [1e-3, 1e-4]}"),
        [("spec.yaml:6:10: try.config.lr.grid_serch: unknown search space 'grid_serch'; did you mean 'grid_search'?")],
    ),
    Case(
        "misspelt space in kwargs",
        env("{id: Pendulum-v1, kwargs: {g: {grid_serch: [9, 10]}}}"),
        [
            (
                "spec.yaml:3:39: try.env.kwargs.g.grid_serch: unknown search space 'grid_serch'; did you "
                "mean 'grid_search'?"
            )
        ],
    ),
    Case(
        "space two keys",
        config("lr: {uniform: [0, 1], q: 0.1}"),
        [("spec.yaml:6:9: try.config.lr: a search space must be a mapping with one key, not 2: uniform, q")],
    ),
    Case(
        "grid empty",
        config("lr: {grid_search: []}"),
        [("spec.yaml:6:23: try.config.lr.grid_search: has no values (grid_search: [value, value, ...])")],
    ),
    Case(
        "grid not list",
        config("lr: {grid_search: 1e-3}"),
        [("spec.yaml:6:23: try.config.lr.grid_search: must be a list (grid_search: [value, value, ...]), not 0.001")],
    ),
    Case(
        "grid value",
        config("lr: {grid_search: [1e-3, fast]}"),
        [
            (
                "spec.yaml:6:30: try.config.lr.grid_search.1: must be a number >= 0, a list of pairs [a "
                "whole number >= 0, a number >= 0] or a mapping (key: value), not 'fast'"
            )
        ],
    ),
    Case(
        "grid twice",
        config("lr: {grid_search: [1e-3, 0.001]}"),
        ["spec.yaml:6:30: try.config.lr.grid_search.1: 0.001 appears twice"],
    ),
    Case(
        "uniform end",
        config("gamma: {uniform: [0.9, 1.1]}"),
        ["spec.yaml:6:28: try.config.gamma.uniform.1: must be a number >= 0 and <= 1, not 1.1"],
    ),
    Case(
        "uniform order",
        config("gamma: {uniform: [0.99, 0.9]}"),
        ["spec.yaml:6:22: try.config.gamma.uniform: low (0.99) must be below high (0.9)"],
    ),
    Case(
        "uniform one",
        config("gamma: {uniform: [0.9]}"),
        [("spec.yaml:6:22: try.config.gamma.uniform: takes 2 numbers (uniform: [low, high]), not [0.9]")],
    ),
    Case(
        "uniform text",
        config("gamma: {uniform: [low, high]}"),
        [
            "spec.yaml:6:23: try.config.gamma.uniform.0: low must be a finite number, not 'low'",
            "spec.yaml:6:28: try.config.gamma.uniform.1: high must be a finite number, not 'high'",
        ],
    ),
    Case(
        "uniform on whole",
        config("num_epochs: {uniform: [1, 10]}"),
        [
            (
                "spec.yaml:6:17: try.config.num_epochs: uniform draws values such as 6.562, but each must be "
                "a whole number > 0; use randint"
            )
        ],
    ),
    Case(
        "loguniform zero",
        config("lr: {loguniform: [0, 1]}"),
        ["spec.yaml:6:23: try.config.lr.loguniform.0: low must be > 0 for a log-uniform space, not 0"],
    ),
    Case(
        "randint fraction",
        config("num_epochs: {randint: [1.5, 10]}"),
        [("spec.yaml:6:28: try.config.num_epochs.randint.0: low must be a whole number below 2**53, not 1.5")],
    ),
    Case(
        "randint end",
        config("num_epochs: {randint: [0, 10]}"),
        ["spec.yaml:6:28: try.config.num_epochs.randint.0: must be a whole number > 0, not 0"],
    ),
    Case(
        "quniform no multiple",
        config("gamma: {quniform: [0.91, 0.99, 0.5]}"),
        [("spec.yaml:6:23: try.config.gamma.quniform: there is no multiple of q (0.5) from 0.91 to 0.99")],
    ),
    Case(
        "quniform q",
        config("gamma: {quniform: [0.9, 0.99, 0]}"),
        ["spec.yaml:6:35: try.config.gamma.quniform.2: q must be > 0, not 0"],
    ),
    Case(
        "normal std",
        config("lr: {normal: [0.1, 0]}"),
        ["spec.yaml:6:24: try.config.lr.normal.1: std must be > 0, not 0"],
    ),
    Case(
        "normal draws",
        config("lr: {normal: [1e-6, 1]}\n  num_samples: 8"),
        [
            f"spec.yaml:6:9: try.config.lr: in trial {trial:03}: must be a number >= 0, not {lr}"
            for trial, lr in enumerate(LEARNING_RATES)
            if lr < 0
        ],
    ),
    Case(
        "nested space",
        config("lr: {grid_search: [{uniform: [0, 1]}]}"),
        ["spec.yaml:6:24: try.config.lr.grid_search.0: a search space inside a search space"],
    ),
    Case(
        "space in env kwargs",
        env("{id: CartPole-v1, kwargs: {sutton_barto_reward: {choice: [true]}, gravity: {uniform: [1, 2]}}}"),
        [
            (
                "spec.yaml:3:34: try.env.kwargs: env CartPole-v1: wrong keyword arguments: got an unexpected "
                "keyword argument 'gravity'"
            )
        ],
    ),
    Case(
        "grid of envs",
        env("{grid_search: [CartPole-v1, Pendulm-v1]}"),
        [("spec.yaml:3:36: try.env.grid_search.1.id: unknown env 'Pendulm-v1'; did you mean 'Pendulum-v1'?")],
    ),
    Case(
        "rule for a grid value",
        config("minibatch_size: {grid_search: [64, 4096]}"),
        ["spec.yaml:6:5: try.config: minibatch_size (4096) must not exceed train_batch_size (2048)"],
    ),
    Case(
        "too many trials",
        config("lr: {uniform: [0, 1]}\n  seeds: 101\n  num_samples: 100"),
        [
            (
                "spec.yaml:1:1: try: has 10,100 trials, more than the limit of 10,000; pass --max-trials 10100 "
                "to allow them"
            )
        ],
    ),
]

OVERRIDES = [
    Case(
        "set without equals",
        GOOD,
        ["--set config.lr: write --set path=value, such as --set config.lr=1e-3"],
        overrides=["config.lr"],
    ),
    Case(
        "set wrong key",
        GOOD,
        ["--set config.lrr=1e-3: try.config.lrr: unknown key 'lrr'; did you mean 'lr'?"],
        overrides=["config.lrr=1e-3"],
    ),
    Case(
        "set wrong entry key",
        GOOD,
        ["--set cofnig.lr=1e-3: unknown experiment or key 'cofnig'; did you mean 'config'?"],
        overrides=["cofnig.lr=1e-3"],
    ),
    Case(
        "set wrong name",
        GOOD,
        ["--set ty.config.lr=1e-3: unknown experiment or key 'ty'; did you mean 'try'?"],
        overrides=["ty.config.lr=1e-3"],
    ),
    Case("set beside config", GOOD, ["--set lr=1e-3: try.lr: 'lr' belongs under config"], overrides=["lr=1e-3"]),
    Case(
        "set bad value",
        GOOD,
        [
            (
                "--set try.config.lr=fast: try.config.lr: must be a number >= 0, a list of pairs [a whole "
                "number >= 0, a number >= 0] or a mapping (key: value), not 'fast'"
            )
        ],
        overrides=["try.config.lr=fast"],
    ),
    Case("set bad yaml", GOOD, ["--set config.lr=[1, 2: YAML syntax: unclosed ["], overrides=["config.lr=[1, 2"]),
    Case(
        "set below value",
        config("lr: 1e-3"),
        ["--set config.lr.grid=[1]: try.config.lr is 0.001, which has no 'grid'"],
        overrides=["config.lr.grid=[1]"],
    ),
    Case(
        "set list index",
        env("{id: CartPole-v1, wrappers: [NormalizeReward]}"),
        [
            (
                "--set env.wrappers.1=NormalizeReward: try.env.wrappers is a list of 1, which has no "
                "'1'; items count from 0"
            )
        ],
        overrides=["env.wrappers.1=NormalizeReward"],
    ),
    Case(
        "set empty step",
        GOOD,
        ["--set config..lr=3: write --set path=value, such as --set config.lr=1e-3"],
        overrides=["config..lr=3"],
    ),
    Case(
        "set space end",
        GOOD,
        [("--set config.gamma={uniform: [0, 2]}: try.config.gamma.uniform.1: must be a number >= 0 and <= 1, not 2")],
        overrides=["config.gamma={uniform: [0, 2]}"],
    ),
]

SEVERAL = [
    Case(
        "many",
        SEVERAL_MISTAKES,
        [
            "spec.yaml:2:3: one.algoritm: unknown key 'algoritm'; did you mean 'algorithm'?",
            "spec.yaml:3:8: one.env.id: unknown env 'CartPole-v9'; did you mean 'CartPole-v1'?",
            "spec.yaml:4:10: one.stop.steps: unknown metric 'steps'; did you mean 'sgd_steps'?",
            "spec.yaml:9:11: two.seeds.0: must be a whole number >= 0, not -1",
            "spec.yaml:10:3: two.lr: 'lr' belongs under config",
            (
                "spec.yaml:12:9: two.config.lr: must be a number >= 0, a list of pairs [a whole number >= 0, "
                "a number >= 0] or a mapping (key: value), not 'fast'"
            ),
            "spec.yaml:13:5: two.config: the key 'lr' appears twice, first on line 12, column 5",
            "spec.yaml:14:26: two.config.gamma.uniform.1: must be a number >= 0 and <= 1, not 2",
            "spec.yaml:15:23: two.config.model.hiddens.0: must be a whole number > 0, not 0",
        ],
    ),
]

CASES = [*FILES, *PRESETS, *ENTRIES, *CONFIGS, *SPACES, *OVERRIDES, *SEVERAL]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def validate(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["validate", *arguments])


def test_at_least_60_broken_specs_with_unique_names_are_tested() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_error_for_a_broken_spec_gives_the_line_and_a_fix(case: Case) -> None:
    spec = case.spec if isinstance(case.spec, bytes) else case.spec.encode()
    Path("spec.yaml").write_bytes(spec)
    result = validate("spec.yaml", *(word for override in case.overrides for word in ("--set", override)))
    assert result.stderr.splitlines() == case.messages
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_column_missing_from_the_env_is_reported_together_with_other_mistakes() -> None:
    constraint = {"column": "cost", "limit": 1.0}
    wrong = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 0}, "config": {"constraint": constraint}}
    with pytest.raises(SpecError) as raised:
        parse_experiments({"a": wrong})
    assert [problem.path for problem in raised.value.problems] == ["a.stop.env_steps", "a.env.columns"]


def test_the_error_for_a_missing_file_suggests_the_closest_name(wording) -> None:
    Path("cartpole.yaml").write_text(GOOD)
    result = validate("cartpoel.yaml")
    assert (result.exit_code, result.stderr) == (
        2,
        wording("cartpoel.yaml", "cartpole.yaml"),
    )


def test_unsupported_action_spaces_are_reported_together_with_other_mistakes(folder: Path, wording) -> None:
    (folder / "spec.yaml").write_text(
        "alone: {algorithm: dqn, env: Pendulum-v1, stop: {env_steps: 10}, config: {lrr: 1}}\n"
        "sweep: {algorithm: td3, env: {id: {grid_search: [Pendulum-v1, CartPole-v1]}}, stop: {env_steps: 10}}\n"
        "data: {algorithm: bcq, env: Pendulum-v1, stop: {sgd_steps: 10}, config: {input: nowhere}}\n"
        "world:\n"
        "  env: {world: rlrun.toys:MatrixGame}\n"
        "  policies: {chooser: {algorithm: td3}, other: {algorithm: ppo}}\n"
        "  mapping: {agent_0: chooser, '*': other}\n"
        "  stop: {env_steps: 10}\n"
        "absent: {algorithm: dqn, env: missing:Env, stop: {env_steps: 10}}\n"
    )
    box = "Box(-2.0, 2.0, (1,), float32)"
    result = validate("spec.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    other = "or another algorithm (`rlrun algorithms`)"
    told = result.stderr.splitlines()
    assert [told[0], told[1], told[2], told[3], told[5]] == wording(
        box, other, "spec.yaml:1:30", "alone.env.id", "spec.yaml:1:75"
    )
    assert told[6].startswith("spec.yaml:9:31: absent.env.id: ")


@pytest.mark.parametrize("command", [["train", "--dry-run"], ["train"]])
def test_unsupported_action_spaces_are_reported_before_a_run_starts(command: list[str], wording) -> None:
    Path("spec.yaml").write_text("swing: {algorithm: td3, env: CartPole-v1, stop: {env_steps: 10}}\n")
    for words in (["spec.yaml"], ["--algorithm", "td3", "--env", "CartPole-v1"]):
        result = CliRunner().invoke(cli, [*command, *words])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == wording("env.id")


def test_hook_logging_and_exploration_keys_of_other_libraries_are_explained(folder: Path) -> None:
    keys = ["callbacks: x", "wandb: true", "tensorboard_log: x", "verbose: 1", "steps: 5"]
    (folder / "spec.yaml").write_text(entry("\n  ".join([*keys, "config: {exploration_enabled: true}"])))
    told = [line.partition(" ")[2] for line in validate("spec.yaml").stderr.splitlines()]
    answers = [
        ("try.callbacks: unknown setting 'callbacks'; in rlrun this is `hooks`, next to `config` (a list of classes"),
        "try.wandb: unknown setting 'wandb'; in rlrun this is `loggers`, next to `config` (a list of services",
        (
            "try.tensorboard_log: unknown setting 'tensorboard_log'; rlrun has no counterpart: each trial writes "
            "TensorBoard"
        ),
        "try.verbose: unknown setting 'verbose'; rlrun has no counterpart: `rlrun train --quiet` and `--progress`",
        "try.steps: unknown setting 'steps'; in rlrun this is `stop.env_steps`, next to `config`",
        "try.config.exploration_enabled: unknown setting 'exploration_enabled'; rlrun has no counterpart: set `config",
    ]
    assert len(told) == len(answers)
    assert all(line.startswith(answer) for line, answer in zip(told, answers, strict=True)), told


def test_a_module_that_raises_does_not_hide_the_mistakes_of_other_specs(folder: Path, wording) -> None:
    (folder / "raising_lab.py").write_text("1 / 0\n")
    (folder / "one.yaml").write_text(env("raising_lab:Env"))
    (folder / "two.yaml").write_text(config("lrr: 1").replace("try:", "other:"))
    result = validate("one.yaml", "two.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    first, *trace, last = result.stderr.splitlines()
    assert first == wording("one.yaml:1:1", "raising_lab")
    assert trace[-1] == wording("ZeroDivisionError")
    assert last == wording("two.yaml:6:5", "other.config.lrr")
    alone = validate("one.yaml")
    assert alone.exit_code == 4
    assert "ZeroDivisionError" in alone.stderr


def test_a_plugin_whose_policy_family_cannot_be_imported_is_rejected(folder: Path, wording) -> None:
    (folder / "policy_lab.py").write_text(
        "from rlrun.algorithms.ppo import PPO\n\n\nclass Own(PPO):\n    policy_family = 'no_such_lab.nets:Net'\n"
    )
    (folder / "spec.yaml").write_text(algorithm("policy_lab:Own"))
    result = validate("spec.yaml")
    assert result.exit_code == 2
    assert result.stderr == wording("spec.yaml:2:14", "try.algorithm", "no_such_lab.nets")


def test_an_import_path_with_a_dot_gets_a_hint_to_use_a_colon(folder: Path, wording) -> None:
    (folder / "greenhouse.py").write_text("raise AssertionError('a hint imports nothing')\n")
    (folder / "spec.yaml").write_text(env("greenhouse.Greenhouse"))
    hint = "did you mean 'greenhouse:Greenhouse'?"
    assert validate("spec.yaml").stderr == wording(hint, "spec.yaml:3:8", "try.env.id", "greenhouse.Greenhouse")


def test_a_directory_without_specs_is_rejected(folder: Path, wording) -> None:
    (folder / "specs").mkdir()
    result = validate("specs")
    assert (result.exit_code, result.stderr) == (2, wording())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.yaml/more", "spec.yaml/more: cannot read: Not a directory"),
        ("loop.yaml", "loop.yaml: cannot read: Too many levels of symbolic links"),
        (f"{'x' * 300}.yaml", f"{'x' * 300}.yaml: cannot read: File name too long"),
    ],
    ids=["not a directory", "a loop of links", "a long name"],
)
def test_the_error_for_an_unreadable_spec_file_says_why_it_cannot_be_read(
    folder: Path, path: str, message: str
) -> None:
    (folder / "spec.yaml").write_text(GOOD)
    os.symlink("loop.yaml", folder / "loop.yaml")
    result = validate(path)
    assert (result.exit_code, result.stderr) == (2, f"{message}\n")


def test_the_mistakes_of_all_files_are_reported_together(folder: Path, wording) -> None:
    (folder / "one.yaml").write_text(config("lrr: 1"))
    (folder / "two.yaml").write_text(GOOD + "  zseeds: 3\n")
    result = validate("one.yaml", "two.yaml", "absent.yaml")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == wording("absent.yaml", "one.yaml:6:5", "try.config.lrr")


def test_validating_an_env_whose_package_is_missing_gives_the_pip_command_and_exits_with_code_6(
    folder: Path, wording
) -> None:
    (folder / "spec.yaml").write_text(env("phys2d/CartPole-v1"))  # needs jax, which no extra of rlrun installs
    result = validate("spec.yaml")
    assert result.exit_code == 6
    assert result.stderr == wording("spec.yaml:3:8", "try.env.id", "phys2d/CartPole-v1")


def test_mistakes_in_a_spec_take_precedence_over_a_missing_package(folder: Path) -> None:
    (folder / "spec.yaml").write_text(env("phys2d/CartPole-v1") + "  config: {lrr: 1}\n")
    result = validate("spec.yaml")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2


def test_an_error_in_a_user_module_is_shown_with_its_traceback(folder: Path, wording) -> None:
    (folder / "lab_licence.py").write_text("raise RuntimeError('expired')\n")
    (folder / "lab_that_fails.py").write_text("import lab_licence\n")  # Python draws no carets below an import
    (folder / "spec.yaml").write_text(env("lab_that_fails:World"))
    result = validate("spec.yaml")
    assert result.exit_code == 4
    assert result.stderr.splitlines() == wording("/lab_that_fails.py", "/lab_licence.py", "RuntimeError")
