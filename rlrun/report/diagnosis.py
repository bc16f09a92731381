"""Why a run does not learn: looks at what its trials report for what usually goes wrong, and says what to try.

A finding is a number that is out of its usual range, with the reason why that matters. It is a suspicion and no proof.
What is told of an end or a beginning of a run is the mean over a tenth of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlrun.envs.env_findings import EnvFinding
from rlrun.metric import of_policy
from rlrun.report.configurations import configurations
from rlrun.report.value_bounds import largest_value
from rlrun.rollout.evaluation import EvaluationResult
from rlrun.runs.outcome import resume_command
from rlrun.runs.trial_result import TrialResult
from rlrun.runs.trial_status import is_complete
from rlrun.trial.divergence import DIVERGED
from rlrun.trial.results import RETURN

Floats = NDArray[np.float64]

ENTROPIES = ("learner/entropy", "learner/actor/entropy")
VALUE_MEANS = ("learner/q_mean", "learner/critics/q_mean", "learner/value_mean", "learner/actor/value_mean")
TEMPERATURE = "learner/alpha/alpha"
GRADIENT_NORMS = ("learner/grad_norm", "learner/critics/grad_norm", "learner/actor/grad_norm")
METRICS = (
    *(
        "env_steps",
        "agent_steps",
        "sgd_steps",
        "episodes",
        RETURN,
        "episode_return_min",
        "episode_return_max",
        "episode_len_mean",
    ),
    *("policy_lag_mean", "worker_restarts", "learner/kl", "learner/clip_fraction", "learner/explained_variance"),
    *("learner/lr", "learner/epsilon", TEMPERATURE, *ENTROPIES, *VALUE_MEANS, *GRADIENT_NORMS),
)
"""The columns of results that are looked at."""

OF_THE_WHOLE = ("env_steps", "worker_restarts")
"""Those of them that a world of many agents reports as a whole, the others for each policy."""

FEW_MINIBATCHES = 200
"""Classic control takes some thousands; fewer than this hardly move a network."""
LARGE_KL = 0.1
"""Nats for each update. PPO learns with 0.01 to 0.03 (its paper's target is 0.01); the clipped loss is blind beyond."""
LARGE_CLIP_FRACTION = 0.5
SMALL_KL = 1e-5
LITTLE_ENTROPY = 0.05
"""Part of the first entropy that is left of a policy which tries nothing any more."""
UNMOVED_ENTROPY = 0.98
POOR_EXPLAINED_VARIANCE = 0.1
LONG_ENOUGH = 10
"""Rows after which a value function should have begun to explain something."""
GREATLY_CLIPPED = 100.0
"""Times by which gradients are cut."""
USUAL_BOUND = 0.5
"""The bound of the gradient's norm that most algorithms have by default, and none a smaller one."""
LEAP = 1.0
"""Nats by which no useful update moves a policy."""
MOST_LAG = 10.0
"""Updates: importance weights of older experience are mostly cut off."""
IMPOSSIBLE_VALUE = 1.5
"""Times the largest value that returns so far allow: rewards of both signs may add up to more than a return."""
LOST = 0.5
"""Part of what was gained over a random policy that is gone again at the end, or by which seeds differ."""
STILL_EXPLORING = 0.5


class Remedy(NamedTuple):
    """A change of one setting that may help.

    Attributes:
        setting: The setting below `config`.
        words: What to do with it; {} stands for it.
        to: The value that is advised, where it is a certain one.
    """

    setting: str
    words: str
    to: Any = None


@dataclass(frozen=True)
class Finding:
    """Something about a run that is out of its usual range.

    Attributes:
        name: What it is called.
        found: Its numbers.
        reason: Why it matters.
        advice: What to try.
        trials: Names of the trials in which it was found; () for the run as a whole.
    """

    name: str
    found: str
    reason: str
    advice: str
    trials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What is known of one trial.

    Attributes:
        trial: The trial with the columns `METRICS`.
        config: Its settings.
        random: What a random policy reaches in its env; None if nobody knows.
        policy: The policy of a world that is looked at; "" where an env has one agent.
        algorithm: What it learns by.
    """

    trial: TrialResult
    config: Mapping[str, Any]
    random: EvaluationResult | None
    policy: str = ""
    algorithm: str = ""

    def values(self, *names: str) -> Floats:
        """Returns the finite values of the first of these metrics that is reported, row by row."""
        for name in names:
            found = self.trial.columns.values.get(column_of(name, self.policy), np.empty(0))
            if (there := found[np.isfinite(found)]).size:
                return there
        return np.empty(0)

    def begin(self, *names: str) -> float:
        """Returns the mean over the first tenth of the rows, NaN without any."""
        values = self.values(*names)
        return float(values[: max(1, len(values) // 10)].mean()) if values.size else math.nan

    def end(self, *names: str) -> float:
        """Returns the mean over the last tenth of the rows, NaN without any."""
        values = self.values(*names)
        return float(values[-max(1, len(values) // 10) :].mean()) if values.size else math.nan

    def usual(self, *names: str) -> float:
        """Returns the median of the later half, NaN without any."""
        values = self.values(*names)
        return float(np.median(values[len(values) // 2 :])) if values.size else math.nan

    @property
    def best(self) -> float:
        """The best return, as the mean over a tenth of the rows; NaN without any."""
        values = self.values(RETURN)
        window = max(1, len(values) // 10)
        return float(np.convolve(values, np.full(window, 1 / window), "valid").max()) if values.size else math.nan

    @property
    def baseline(self) -> float:
        """The return of a policy that has learned nothing: a random one's, else the first of the run."""
        return self.random.mean if self.random is not None else self.begin(RETURN)

    @property
    def has_learned(self) -> bool:
        """Whether its best return is above what random policies reach, by their standard deviation."""
        return self.best > self.baseline + (self.random.std if self.random else 0.0)

    @property
    def lost(self) -> float:
        """Part of the best gain over a random policy that is gone at the end."""
        return min(1.0, (self.best - self.end(RETURN)) / (self.best - self.baseline)) if self.has_learned else 0.0

    @property
    def is_well(self) -> bool:
        """Whether it has learned and kept it: what is odd in it does no harm."""
        return self.has_learned and self.lost < LOST

    @property
    def num_agents(self) -> int:
        """How many possible agents its world has, 0 in an env with one agent."""
        return sum(name.startswith("agents/") for name in self.trial.columns.reported)

    @property
    def descends_gradients(self) -> bool:
        """Whether it learns by gradients: only such algorithms have a bound of their norm."""
        return "max_grad_norm" in self.config


def advised(config: Mapping[str, Any], *remedies: Remedy | str) -> str:
    """Returns what to try, in words, without what cannot be set or is set already.

    Args:
        config: All settings of the algorithm: what only one value makes sense of is none of them.
        remedies: Changes of settings, and words for what is none.
    """
    texts = []
    for remedy in remedies:
        if isinstance(remedy, str):
            texts.append(remedy)
        elif remedy.setting in config and (remedy.to is None or config[remedy.setting] != remedy.to):
            texts.append(remedy.words.format(f"config.{remedy.setting}"))
    return ", or ".join([", ".join(texts[:-1]), *texts[-1:]] if len(texts) > 1 else texts)


def has_diverged(trial: TrialResult) -> bool:
    """Whether a trial failed because its numbers were not finite any more."""
    return trial.status == "ERROR" and trial.error.startswith(DIVERGED)


def column_of(metric: str, policy: str) -> str:
    """Returns where a metric of a policy stands in results; "" is the policy of an env with one agent."""
    return metric if metric in OF_THE_WHOLE else of_policy(policy, metric)


def failures(evidence: Sequence[Evidence]) -> list[Finding]:
    """Returns with which errors trials have failed, and where processes ended; those that diverged are told as one."""
    groups: dict[str, list[Evidence]] = {}
    for one in evidence:
        if one.trial.status == "ERROR":
            groups.setdefault(DIVERGED if has_diverged(one.trial) else one.trial.short_error, []).append(one)
    failed = [replace(_failed(group[0]), trials=tuple(one.trial.name for one in group)) for group in groups.values()]
    return failed + [_ended(one.trial) for one in evidence if one.trial.ended_in]


def _ended(trial: TrialResult) -> Finding:
    reason = "nothing was raised: native code crashed, or the process was killed from outside, as where memory ran out"
    advice = f"the env alone, by `rlrun env check`, then: {resume_command(trial.directory.parent)}"
    return Finding("process ended", trial.ended_in, reason, advice, (trial.name,))


def _failed(one: Evidence) -> Finding:
    reason = "training ended there, and what it reports up to then is not looked at"
    if has_diverged(one.trial):
        advice = advised(
            one.config,
            Remedy("lr", "{} ten times smaller"),
            Remedy("critic_lr", "{} ten times smaller"),
            Remedy("max_grad_norm", f"{{}}: {USUAL_BOUND}", USUAL_BOUND),
            *SCALED_REWARDS,
            *SCALED_OBSERVATIONS,
        )
    else:
        run = one.trial.directory.parent
        advice = f"mend what raised (`rlrun show` has the whole error), then: {resume_command(run, retry_failed=True)}"
    return Finding("failed", one.trial.short_error, reason, advice)


def diagnose(evidence: Sequence[Evidence], env: Iterable[EnvFinding]) -> list[Finding]:
    """Returns what is out of its usual range, the most likely causes first.

    Args:
        evidence: Of each trial; those that failed are left to `failures`.
        env: What stepping the env showed.
    """
    configs = [one.config for one in evidence]
    evidence = [one for one in evidence if one.trial.status != "ERROR"]
    causes = _found(CAUSES, evidence)
    explained = {name for cause in causes for name in cause.trials}
    symptoms = _found(SYMPTOMS, [one for one in evidence if one.trial.name not in explained])
    return [*causes, *symptoms, *_of_env(configs, env), *_seeds_disagree(evidence)]


def _found(checks: Iterable[Callable[[Evidence], Finding | None]], evidence: Sequence[Evidence]) -> list[Finding]:
    """Returns what checks find, each told once, by the first of the trials that show it."""
    found = []
    for check in checks:
        hits = [(hit, one.trial.name) for one in evidence if (hit := check(one)) is not None]
        if hits:
            found.append(replace(hits[0][0], trials=tuple(name for _, name in hits)))
    return found


def _number(value: float) -> str:
    return f"{value:,.4g}"


def _learns_nothing(one: Evidence) -> Finding | None:
    if one.algorithm != "random":
        return None
    reason = "it is what other algorithms are compared with"
    return Finding("does not learn", "random takes any action", reason, "one that `rlrun algorithms` lists")


def _no_episode_ended(one: Evidence) -> Finding | None:
    if one.values(RETURN).size or not one.end("env_steps"):  # some algorithms step no env
        return None
    found = f"none of its {_number(one.end('env_steps'))} env steps ended an episode"
    reason = (
        "without ends there is no return to judge by, and nothing that an algorithm without bootstrapping learns from"
    )
    return Finding("no episode ends", found, reason, "env.max_episode_steps: 1000")


def _nothing_learned_from(one: Evidence) -> Finding | None:
    minibatches = one.values("sgd_steps")
    if one.is_well or not one.descends_gradients or not is_complete(one.trial.status):
        return None
    if not minibatches.size or minibatches[-1] >= FEW_MINIBATCHES:
        return None
    found, steps = f"{minibatches[-1]:,.0f} minibatches in all", one.end("agent_steps", "env_steps")
    starts = one.config.get("learning_starts", 0)
    if starts >= steps:
        more = [Remedy("learning_starts", f"{{}} below {steps:,.0f} (it is {starts:,})")]
    else:
        size = "minibatch_size" if "minibatch_size" in one.config else "train_batch_size"
        more = [
            Remedy(size, "a smaller {}"),
            Remedy("num_epochs", "more {}"),
            Remedy("training_intensity", "a higher {}"),
        ]
    advice = advised(one.config, *more, "a later stop")
    return Finding("few updates", found, "a network hardly moves in so few", advice)


def _rate_is_zero(one: Evidence) -> Finding | None:
    rates = one.values("learner/lr")
    if not rates.size or rates.max() > 1e-7:
        return None
    advice = advised(one.config, Remedy("lr", "{} above 0, such as its default"))
    return Finding("no learning rate", f"lr {_number(float(rates.max()))}", "parameters do not move", advice)


def _no_gradient(one: Evidence) -> Finding | None:
    norms = one.values(*GRADIENT_NORMS)
    if not norms.size or norms.max() > 1e-8:
        return None
    reason = "all actions look alike: rewards do not differ, or the loss does not reach the network"
    return Finding("no gradient", "the gradient's norm is 0", reason, "look at the env's rewards: rlrun env check")


def _all_returns_alike(one: Evidence) -> Finding | None:
    least, most = one.values("episode_return_min"), one.values("episode_return_max")
    if not least.size or one.has_learned or one.end("episodes") < 10 or least.min() != most.max():
        return None
    found = f"every episode returned {_number(float(most.max()))}"
    reason = "nothing that was done made a difference, so there is nothing to learn from yet"
    advice = advised(
        one.config,
        *(Remedy(name, "a higher {}") for name in ("entropy_coeff", "epsilon", "exploration_noise", "sigma")),
        "demonstrations (r2d3)",
        "a shaped reward",
    )
    return Finding("all returns alike", found, reason, advice)


def _no_better_than_random(one: Evidence) -> Finding | None:
    if one.random is None or one.has_learned or not one.values(RETURN).size:
        return None
    found = f"best {_number(one.best)}; random policy {_number(one.random.mean)}"
    found += f" (standard deviation {_number(one.random.std)})"
    reason = "it has learned nothing that shows"
    return Finding("no better than random", found, reason, "the other findings, else a longer run")


def _collapsed(one: Evidence) -> Finding | None:
    if not one.has_learned or one.lost < LOST:
        return None
    found = f"best {_number(one.best)}, in the end {_number(one.end(RETURN))}"
    reason = f"{one.lost:.0%} of the gain over a random policy is lost: updates are too large for what is left to learn"
    falls = Remedy("lr", "{} that falls, such as [[0, 3.0e-4], [end, 0]]")
    advice = advised(one.config, falls, "the checkpoint that checkpoint.best has kept")
    return Finding("collapsed", found, reason, advice)


def _policy_leaps(one: Evidence) -> Finding | None:
    divergence, clipped = one.usual("learner/kl"), one.usual("learner/clip_fraction")
    most = max(one.values("learner/kl"), default=0.0)
    if one.is_well or not (divergence > LARGE_KL or clipped > LARGE_CLIP_FRACTION or most > LEAP):
        return None
    divergence = divergence if divergence > LARGE_KL else most
    found = f"kl {_number(divergence)} nats an update"
    if clipped > 0:
        found += f", {clipped:.0%} of the steps clipped"
    reason = "the data of an update says little about a policy so far from the one that collected it"
    advice = advised(
        one.config,
        Remedy("lr", "{} three times smaller"),
        Remedy("num_epochs", "fewer {}"),
        Remedy("kl_target", "{}: 0.02", 0.02),
    )
    return Finding("policy leaps", found, reason, advice)


def _policy_stands_still(one: Evidence) -> Finding | None:
    divergence = one.usual("learner/kl")
    if one.is_well or not divergence < SMALL_KL or _policy_leaps(one) or _gradients_cut(one):
        return None
    found = f"kl {_number(divergence)} nats an update"
    advice = advised(one.config, Remedy("lr", "{} three times larger"))
    return Finding("policy stands still", found, "updates change nothing that shows", advice)


def _entropy_collapsed(one: Evidence) -> Finding | None:
    begin, end = one.begin(*ENTROPIES), one.end(*ENTROPIES)
    if one.is_well or not begin > 0 or not end < LITTLE_ENTROPY * begin:
        return None
    found = f"{_number(end)} nats, {_number(begin)} at the beginning"
    reason = "it takes the same actions always, and so cannot find better ones"
    bonus = Remedy("entropy_coeff", "{}: 0.01 (or three times its value)")
    return Finding("entropy is gone", found, reason, advised(one.config, bonus, Remedy("lr", "a smaller {}")))


def _entropy_unmoved(one: Evidence) -> Finding | None:
    begin, end = one.begin(*ENTROPIES), one.end(*ENTROPIES)
    weight = one.config.get("entropy_coeff")
    is_short = len(one.values(*ENTROPIES)) < LONG_ENOUGH
    if one.is_well or is_short or not end > UNMOVED_ENTROPY * begin > 0:
        return None
    if _policy_stands_still(one) or _gradients_cut(one):
        return None
    found = f"{_number(end)} nats, {_number(begin)} at the beginning"
    reason = "it still takes any action: what it learns is too weak against the entropy bonus, or does not arrive"
    remedy = Remedy("lr", "{} three times larger")
    if isinstance(weight, int | float) and weight > 0:
        remedy = Remedy("entropy_coeff", f"{{}} below {weight:g}")
    return Finding("entropy stays", found, reason, advised(one.config, remedy))


def _values_explain_nothing(one: Evidence) -> Finding | None:
    explained = one.usual("learner/explained_variance")
    rows = len(one.values("learner/explained_variance"))
    if one.is_well or rows < LONG_ENOUGH or not explained < POOR_EXPLAINED_VARIANCE or _policy_stands_still(one):
        return None
    reason = "advantages are then returns with all their noise"
    advice = advised(
        one.config,
        Remedy("normalize_rewards", "{}: true where rewards are large", True),
        Remedy("vf_loss_coeff", "{}: 1.0", 1.0),
        Remedy("num_epochs", "more {}"),
        "a later stop",
    )
    return Finding("values explain nothing", f"explained_variance {_number(explained)}", reason, advice)


def _gradients_cut(one: Evidence) -> Finding | None:
    norm, most = one.usual(*GRADIENT_NORMS), one.config.get("max_grad_norm")
    if one.is_well or not isinstance(most, int | float) or not norm > GREATLY_CLIPPED * most:
        return None
    found = f"norm {_number(norm)}, cut to max_grad_norm {most:g}"
    if most < USUAL_BOUND and norm <= GREATLY_CLIPPED * USUAL_BOUND:
        reason = "the bound is far below what gradients usually are"
        advice = advised(one.config, Remedy("max_grad_norm", f"{{}}: {USUAL_BOUND}"))
    else:
        reason = "one loss is far larger than the other, most often that of values of large rewards"
        advice = advised(one.config, *SCALED_REWARDS)
    return Finding("gradients are cut", found, reason, advice)


def _values_grow(one: Evidence) -> Finding | None:
    metric = next((name for name in VALUE_MEANS if one.values(name).size), "")
    bound = _largest_value(one)
    if not metric or bound is None or one.config.get("normalize_rewards"):  # which gives values another unit
        return None
    end = one.end(metric)
    if abs(end) < IMPOSSIBLE_VALUE * bound:
        return None
    found = f"{metric.rpartition('/')[2]} {_number(end)}; returns so far allow {_number(bound)} at most"
    reason = (
        "values are learned from values that are too large already, and grow without end; where episodes are cut off, "
        "no reward ever corrects the last one"
    )
    rate = "critic_lr" if "critic_lr" in one.config else "lr"
    advice = advised(
        one.config,
        Remedy(rate, "{} ten times smaller"),
        Remedy("target_update_interval", "a larger {}"),
        Remedy("tau", "a smaller {}"),
        Remedy("double", "{}: true", True),
        "episodes that a time limit ends as terminated instead of truncated, where observations or the world's state "
        "show the clock (else hide the clock)",
    )
    return Finding("values grow", found, reason, advice)


def _largest_value(one: Evidence) -> float | None:
    """Returns the largest value that returns, clipped rewards and the bonus for entropy allow, None if unknown."""
    returns = np.abs(np.append(one.values("episode_return_min"), one.values("episode_return_max")))
    length, gamma = one.usual("episode_len_mean"), float(one.config.get("gamma", 0.99))
    if not returns.size or not length >= 1:
        return None
    clip = one.config.get("clip_rewards")
    bound = largest_value(float(returns.max()), length, gamma)
    if isinstance(clip, int | float) and gamma < 1:
        bound = clip / (1 - gamma)
    if one.config.get("team_reward") == "sum":
        bound *= max(1, one.num_agents)
    bonus = np.nan_to_num(abs(one.usual(*ENTROPIES)) * one.usual(TEMPERATURE))
    return max(bound + float(bonus) / max(1 - gamma, 1e-6), 1e-6)


def _explores_still(one: Evidence) -> Finding | None:
    epsilon = one.end("learner/epsilon")
    if one.is_well or not epsilon > STILL_EXPLORING or not is_complete(one.trial.status):
        return None
    found = f"epsilon {_number(epsilon)} at the end of the run"
    reason = "most actions are still random ones; the returns of training are theirs"
    falls = Remedy("epsilon", "{}: [[0, 1.0], [10_000, 0.05]]")
    return Finding("explores still", found, reason, advised(one.config, falls, "a later stop"))


def _lag(one: Evidence) -> Finding | None:
    lag = one.usual("policy_lag_mean")
    if one.is_well or not one.descends_gradients or not lag > MOST_LAG:
        return None
    found = f"experience is {_number(lag)} updates old"
    reason = "it tells of policies that are gone"
    advice = advised(
        one.config,
        Remedy("broadcast_interval", "{}: 1", 1),
        Remedy("gradients_in_flight", "{}: 1", 1),
        Remedy("num_workers", "fewer {}", 0),
        Remedy("rollout_fragment_length", "a smaller {}"),
        Remedy("train_batch_size", "a larger {}"),
    )
    return Finding("old experience", found, reason, advice)


def _workers_lost(one: Evidence) -> Finding | None:
    restarts = one.values("worker_restarts")
    if not restarts.size or restarts.max() < 1:
        return None
    reason = "their envs began anew each time"
    advice = "the run's log says why they died"
    return Finding("workers were lost", f"{restarts.max():,.0f} were made anew", reason, advice)


CAUSES: tuple[Callable[[Evidence], Finding | None], ...] = (
    _learns_nothing,
    _no_episode_ended,
    _nothing_learned_from,
    _rate_is_zero,
    _no_gradient,
    _all_returns_alike,
    _workers_lost,
)
"""What is looked for in each trial first: it explains whatever else is odd in a trial."""

SYMPTOMS: tuple[Callable[[Evidence], Finding | None], ...] = (
    _no_better_than_random,
    _collapsed,
    _values_grow,
    _gradients_cut,
    _policy_leaps,
    _policy_stands_still,
    _entropy_collapsed,
    _entropy_unmoved,
    _values_explain_nothing,
    _explores_still,
    _lag,
)
"""What is looked for in the trials without such a cause."""


SCALED_REWARDS = (
    Remedy("normalize_rewards", "{}: true", True),
    Remedy("clip_rewards", "{}: 1", 1.0),
    "rewards that are scaled",
)
SCALED_OBSERVATIONS = (Remedy("normalize_observations", "{}: true", True), "observations that are scaled")


def _of_env(configs: Sequence[Mapping[str, Any]], env: Iterable[EnvFinding]) -> list[Finding]:
    """Returns what stepping the env showed, without what the settings take care of already."""
    scales = all(config.get("normalize_rewards") or config.get("clip_rewards") for config in configs)
    normalises = all(config.get("normalize_observations") for config in configs)
    handled = {"rewards": scales, "observations": normalises}
    scaled = {"rewards": SCALED_REWARDS, "observations": SCALED_OBSERVATIONS}
    found = []
    for one in env:
        if one.verdict == "wrong" or (one.verdict == "note" and not handled.get(one.topic, False)):
            names_setting = "config." in one.advice  # of any algorithm, as the env is checked for all of them
            advice = advised(configs[0], *scaled[one.topic]) if names_setting else one.advice
            found.append(Finding(f"env: {one.topic}", one.found, one.reason, advice))
    return found


def _seeds_disagree(evidence: Sequence[Evidence]) -> list[Finding]:
    """Looks at trials that differ by their seed only."""
    numbered = {one.trial.name: one for one in evidence if one.values(RETURN).size}
    found = []
    for group in configurations((one.trial, one.trial.configuration) for one in numbered.values()):
        seeds = [numbered[trial.name] for trial in group]
        ends = [one.end(RETURN) for one in seeds]
        gain = max(ends, default=0.0) - seeds[0].baseline
        if len(seeds) > 1 and seeds[int(np.argmax(ends))].has_learned and max(ends) - min(ends) > LOST * gain:
            told = f"{len(seeds)} seeds end from {_number(min(ends))} to {_number(max(ends))}"
            reason = "what one of them shows is luck: the settings work for some beginnings only"
            advice = advised(
                seeds[0].config,
                Remedy("lr", "a smaller {}"),
                Remedy("train_batch_size", "a larger {}"),
                "more exploration",
                "ten seeds to judge by",
            )
            found.append(Finding("seeds disagree", told, reason, advice, tuple(one.trial.name for one in seeds)))
    return found
