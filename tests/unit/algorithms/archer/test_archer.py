"""ArCHer: utterances in streams of tokens, their targets and advantages, what the critics and the actor learn from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from hypothesis import given
from hypothesis import strategies as st

import rlrun
from rlrun.algorithms.archer.archer import Archer, RecordedDialogues
from rlrun.algorithms.archer.operators import (
    CopyActorToCritics,
    FindUtterances,
    UtteranceAdvantages,
    last_tokens,
    redrawn_advantages,
    utterances,
)
from rlrun.algorithms.archer.policy import ArcherPolicy
from rlrun.algorithms.archer.settings import ACTOR, CRITICS, ArcherConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.toys.twenty_questions import RandomQuestioner, TwentyQuestions
from tests.results import numbers

END = 2
SPACES = Spaces(Dict(token=Discrete(3), action_mask=MultiBinary(3)), Discrete(3))
SMALL = {
    "utterance_end": [END],
    "model": {"hiddens": [4], "core_width": 4},
    "num_envs_per_worker": 2,
    "train_batch_size": 32,
    "learning_starts": 30,
    "minibatch_size": 4,
    "training_intensity": 0.1,
    "replay": {"capacity": 400, "length": 6, "stride": 3},
    "min_env_steps_per_iteration": 60,
    "compile": False,
}
TWENTY = "rlrun.toys:TwentyQuestions"


def flags(text: str) -> np.ndarray[Any, Any]:
    return np.array([[each == "1" for each in text]])


def policy_of(**settings: Any) -> ArcherPolicy:
    return ArcherPolicy(SPACES, ArcherConfig.parse({**SMALL, **settings}), 3)


@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=12))
def test_utterances_found_by_vectorized_code_equal_those_found_by_a_loop_over_tokens(
    steps: list[tuple[bool, ...]],
) -> None:
    lasts, valid, starts, chosen = (np.array([column]) for column in zip(*steps, strict=True))
    found = utterances(lasts, valid, starts, chosen)
    rewards = np.arange(1, len(steps) + 1, dtype=np.float32)[None]
    begun, expected = None, {}
    for t, (is_last, is_step, is_start, _) in enumerate(steps):
        is_after_an_end = t > 0 and (steps[t - 1][0] or not steps[t - 1][1])
        if is_step and (is_start or is_after_an_end):
            begun = t
        if not is_step:
            begun = None
        elif is_last and begun is not None:
            expected[t] = begun
    assert {int(t): int(found.starts[0, t]) for t in found.ends[0].nonzero()[0]} == expected
    sums = [sum(range(expected[t] + 1, t + 2)) if t in expected else 0 for t in range(len(steps))]
    assert found.sums(rewards)[0].tolist() == sums
    for last, first in expected.items():
        choices = [step for step in range(first, last + 1) if steps[step][3]]
        assert found.decisions[0, last] == (choices[-1] if choices else last)
    spread, belongs = found.spread(rewards)
    owners = {step: last for last, first in expected.items() for step in range(first, last + 1)}
    assert belongs[0].tolist() == [step in owners for step in range(len(steps))]
    assert spread[0].tolist() == [owners[step] + 1 if step in owners else 0 for step in range(len(steps))]


def test_without_end_tokens_each_token_is_an_utterance() -> None:
    actions = np.array([[0, 2, 1, 2]])
    assert last_tokens(actions, None).all()
    assert last_tokens(actions, (2,)).tolist() == [[False, True, False, True]]


def sequence(**columns: Any) -> SampleBatch:
    """A sequence of a replay: the end of an utterance, a dialogue that terminates, and two that are truncated.

    Rows after the last step of a dialogue hold its final observation.
    """
    valid = flags("11110111011")
    length = valid.shape[1]
    mask = np.ones((1, length + 1, 3), np.int8)
    mask[0, 3] = [0, 0, 1]
    batch = {
        "obs": {"token": np.array([[0, 1, 2, 0, 2, 0, 1, 2, 1, 0, 1, 2]]), "action_mask": mask},
        "actions": np.array([[END, 0, 1, END, 0, 1, END, 1, 0, 1, END]]),
        "rewards": np.array([[0.5, 1, 2, 4, 0, 8, 16, 32, 0, 64, 128]], np.float32),
        "discounts": np.array([[1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1]], np.float32),
        "valid": valid,
        "episode_starts": flags("000001000100"),
        "state": np.random.default_rng(1).normal(size=(1, 8)).astype(np.float32),
        "logp": np.full((1, length), -1.0, np.float32),
        "weights": np.full((1, 1), 0.5, np.float32),
        "indices": np.zeros(1, np.int64),
    }
    return SampleBatch({**batch, **columns})


LASTS, FIRSTS = [3, 6, 7, 10], [1, 5, 7, 9]
DECISIONS = [2, 6, 7, 10]  # the last token of the first utterance was forced


def test_the_rewards_of_an_utterances_tokens_are_summed_and_discounted_once() -> None:
    found = FindUtterances(0.9, (END,))(sequence())
    assert found["utterance_ends"][0].nonzero()[0].tolist() == LASTS
    assert found["utterance_starts"][0, LASTS].tolist() == FIRSTS
    assert found["utterance_decisions"][0, LASTS].tolist() == DECISIONS
    assert found["utterance_rewards"][0, LASTS].tolist() == [1 + 2 + 4, 8 + 16, 32, 64 + 128]
    np.testing.assert_allclose(found["utterance_discounts"][0, LASTS], [0, 0.9, 0.9, 0.9], rtol=1e-6)


class Case:
    """Outputs of a policy with target critics of their own, for the utterances of a sequence."""

    def __init__(self, batch: SampleBatch, algorithm: Archer | None = None) -> None:
        self.algorithm = Archer(**SMALL) if algorithm is None else algorithm
        policy = policy_of()
        flat = policy.parameters.gather(policy.module).requires_grad_()
        found = FindUtterances(self.algorithm.config.gamma, (END,))(batch)
        self.flat = flat
        self.batch = SampleBatch({name: found[name] for name in found if name != "indices"}).map(torch.from_numpy)
        others = torch.from_numpy(np.random.default_rng(2).normal(size=len(flat)).astype(np.float32))
        views, targets = policy.parameters.views(flat), policy.parameters.views(others)
        self.outputs = policy.outputs(views, self.batch, targets)

    def losses(self) -> tuple[float, np.ndarray[Any, Any]]:
        loss = self.algorithm.critics_loss(self.outputs, self.batch, {}).total
        (gradient,) = torch.autograd.grad(loss, self.flat)
        return loss.item(), gradient.numpy()


def test_the_critics_loss_matches_its_definition_for_q_and_v_by_hand() -> None:
    case = Case(sequence())
    own, target = case.outputs.utterance_values(), case.outputs.target_utterance_values()
    (all_q, v), (target_q, target_v) = ((each.q.detach()[:, 0], each.v.detach()[:, 0]) for each in (own, target))
    distribution, said = case.outputs.distribution, case.batch["actions"][0]
    q, mean_q = all_q[:, range(11), said], (distribution.log_probs[0].detach().exp() * target_q).sum(-1)
    rewards, gamma = torch.tensor([7.0, 24.0, 32.0, 192.0]), 0.95
    follows = torch.tensor([0.0, gamma, gamma, gamma]) * target_v[:, [4, 7, 8, 11]]  # nothing after a termination
    assert (follows[:, 1:] != 0).all()
    now = distribution.log_prob(case.batch["actions"])[0].detach() + 1.0
    log_ratios = torch.stack([now[first:decision].sum() for first, decision in zip(FIRSTS, DECISIONS, strict=True)])
    ratios = 0.5 * log_ratios.exp().clamp(max=1.0)  # truncated at 1, times the weight of 0.5
    assert (ratios < 0.5).any()
    expected = (q[:, DECISIONS] - rewards - follows).square() + ratios * (v[:, FIRSTS] - mean_q[:, DECISIONS]).square()
    loss = case.algorithm.critics_loss(case.outputs, case.batch, {})
    assert loss.total.item() == pytest.approx(expected.sum(0).mean().item(), rel=1e-5)
    assert loss.statistics["mean_ratio"].item() == pytest.approx(ratios.mean().item(), rel=1e-5)


def test_importance_ratios_are_truncated_at_1() -> None:
    rarer = np.array([[-1, -9, -9, -1, -1, 9, -1, -1, -1, 9, -1]], np.float32)  # tokens 5 and 9 became rarer
    case = Case(sequence(logp=rarer))
    now = case.outputs.distribution.log_prob(case.batch["actions"])[0].detach()
    ratios = case.algorithm.ratios(case.outputs, case.batch)[0, LASTS].tolist()
    assert float(now[1]) + 9 > 0
    assert ratios == pytest.approx([1.0, (now[5] - 9).exp().item(), 1.0, (now[9] - 9).exp().item()])


def test_the_critics_ignore_padding_and_truncated_utterances() -> None:
    batch, other = sequence(), sequence()
    for column in ("actions", "rewards", "logp"):
        other[column][0, [0, 4, 8]] = [1, 1, 1]  # in the cut utterance, and in rows with final observations
    other["obs"]["token"][0, 4] = 1  # in the row after a termination
    other["actions"][0, 0] = END  # all that counts is that the utterance ends there
    loss, gradient = Case(batch).losses()
    changed_loss, changed_gradient = Case(other).losses()
    assert changed_loss == pytest.approx(loss)
    np.testing.assert_allclose(changed_gradient, gradient, rtol=1e-5, atol=1e-6)
    actor = Case(batch).outputs.policy.parameters.range_under(ACTOR)
    assert not gradient[actor[0] : sum(actor)].any()  # the ratios have no gradient


def dialogue_fragment() -> SampleBatch:
    """A fragment [T, B] of one slot: the end of an utterance, two of one dialogue, its final observation, a start."""
    valid = flags("111111011").T
    length = len(valid)
    return SampleBatch(
        obs={
            "token": np.array([[0, 1, 2, 0, 2, 0, 1, 2, 1, 0]]).T,
            "action_mask": np.ones((length + 1, 1, 3), np.int8),
        },
        actions=np.array([[END, 0, 1, END, 1, 0, 0, 1, 0]]).T,
        rewards=np.zeros((length, 1), np.float32),
        terminateds=flags("000000000").T,
        truncateds=flags("000001000").T,
        valid=valid,
        episode_starts=flags("000000010").T,
        state=np.random.default_rng(1).normal(size=(length, 1, 8)).astype(np.float32),
        logp=np.zeros((length, 1), np.float32),
        values=np.zeros((length + 1, 1), np.float32),
        weights_version=np.zeros((length, 1), np.int64),
    )


def test_last_choices_get_an_advantage_per_token_and_earlier_tokens_that_of_their_utterance() -> None:
    algorithm, policy = Archer(**SMALL), policy_of()
    learner = LocalLearner(
        policy, algorithm.objectives(policy), device="cpu", update_executor="eager", seed=1, has_target=True
    )
    trainee: Any = SimpleNamespace(learner=learner)
    item = dialogue_fragment()
    found = UtteranceAdvantages(trainee, (END,))(item)
    rows = SampleBatch(
        obs={name: leaf[None, :, 0] for name, leaf in item["obs"].items()},
        actions=np.append(item["actions"][:, 0], 0)[None],
        valid=np.append(item["valid"][:, 0], False)[None],
        episode_starts=np.append(item["episode_starts"][:, 0], False)[None],
        state=item["state"][0],
    ).map(torch.from_numpy)
    outputs = policy.outputs(policy.parameters.views(torch.from_numpy(learner.flat())), rows)
    values, p = outputs.utterance_values(), outputs.distribution.log_probs[0].exp().detach().numpy()
    q, v = values.q.detach().amin(0)[0].numpy(), values.v.detach().amin(0)[0].numpy()
    mean_q = (p * q).sum(-1)
    firsts, decisions = [1, 4], [3, 5]
    redrawn = q[decisions] - mean_q[decisions, None]
    before = mean_q[decisions] - v[firsts]
    before -= before.mean()
    scale = np.sqrt((before**2 + (p[decisions] * redrawn**2).sum(-1)).mean())
    expected = np.zeros((9, 3), np.float32)
    for step, own in ((1, before[0]), (2, before[0]), (4, before[1])):
        said = item["actions"][step, 0]
        expected[step, said] = own / p[step, said]
    expected[decisions] = redrawn
    assert found["valid"][:, 0].tolist() == flags("011111000")[0].tolist()
    np.testing.assert_allclose(found["advantages"][:, 0], expected / scale, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["probabilities"][1:6, 0], p[1:6], rtol=1e-5)


def test_a_batch_without_a_complete_utterance_has_no_advantages() -> None:
    nothing = utterances(*np.zeros((4, 1, 2), np.bool_))
    ones = np.ones((1, 2, 3), np.float32)
    advantages, belongs = redrawn_advantages(nothing, np.zeros((1, 2), np.int64), ones, ones[..., 0], ones / 3)
    assert not advantages.any()
    assert not belongs.any()


def test_the_actors_first_gradient_equals_that_of_reinforce_with_an_entropy_bonus() -> None:
    case = Case(sequence(), Archer(**SMALL))
    distribution, valid = case.outputs.distribution, case.batch["valid"]
    now, p, said = distribution.log_probs, distribution.log_probs.detach().exp(), case.batch["actions"].unsqueeze(-1)
    advantages = torch.from_numpy(np.random.default_rng(4).normal(size=(1, 11, 3)).astype(np.float32))
    is_redrawn = torch.from_numpy(flags("01010101010")).unsqueeze(-1)
    drawn = torch.zeros_like(p).scatter_(-1, said, advantages.gather(-1, said) / p.gather(-1, said))
    batch = SampleBatch(case.batch, advantages=torch.where(is_redrawn, advantages, drawn), probabilities=p)
    loss = case.algorithm.loss(case.outputs, batch, {"entropy_coeff": torch.tensor(0.5)})
    redrawn = (p * advantages * now).sum(-1)  # the mean over all possible draws
    once = (now * advantages).gather(-1, said).squeeze(-1)
    expected = -torch.where(is_redrawn.squeeze(-1), redrawn, once)[valid].mean()
    expected = expected - 0.5 * distribution.entropy()[valid].mean()
    (gradient,) = torch.autograd.grad(loss.total, case.flat, retain_graph=True)
    (wanted,) = torch.autograd.grad(expected, case.flat)
    torch.testing.assert_close(gradient, wanted)
    assert loss.statistics["kl"].item() == pytest.approx(0.0, abs=1e-6)
    critics = case.outputs.policy.parameters.range_under(CRITICS)
    assert not gradient[critics[0] : sum(critics)].any()


def test_a_token_whose_probability_has_changed_by_more_than_the_clip_gets_no_gradient() -> None:
    case = Case(sequence(), Archer(**SMALL))
    rarer = case.outputs.distribution.log_probs.detach().exp() / 2
    batch = SampleBatch(case.batch, advantages=torch.ones(1, 11, 3), probabilities=rarer)
    loss = case.algorithm.loss(case.outputs, batch, {"entropy_coeff": torch.tensor(0.0)})
    assert loss.total.item() == pytest.approx(-1.2 / 2)
    (gradient,) = torch.autograd.grad(loss.total, case.flat)
    assert not gradient.any()


def test_a_training_step_updates_actor_and_critics_but_not_the_actors_target() -> None:
    with rlrun.Training(TWENTY, Archer(**{**SMALL, "utterance_end": [5]}), seed=1) as training:
        learner = training.running.trainee.learner
        policy, before = learner.policy, learner.flat().copy()
        result = training.step()
        after, target = learner.flat(), learner.target()
        for prefix in (ACTOR, CRITICS):
            start, size = policy.parameters.range_under(prefix)
            assert (after[start : start + size] != before[start : start + size]).any()
        start, size = policy.parameters.range_under(ACTOR)
        np.testing.assert_array_equal(target[start : start + size], before[start : start + size])  # not updated
        assert result["learner/critics/mean_ratio"] <= 1.0


@pytest.mark.parametrize("learning_starts", [30, 10_000])
def test_critics_are_updated_with_replayed_minibatches_and_the_actor_with_each_batch(learning_starts: int) -> None:
    settings = {**SMALL, "utterance_end": [5], "learning_starts": learning_starts}
    with rlrun.Training(TWENTY, Archer(**settings), seed=1) as training:
        tokens = training.step()["env_steps"]
        steps = training.running.trainee.learner.optimizer_state()
    assert steps["critics/steps"] == max(int(0.1 * (tokens - learning_starts)), 0)
    assert 2 * 32 < tokens < 3 * 32  # three batches of 32 rows, of which some hold final observations
    assert steps["actor/steps"] == 3 * 3  # three epochs of each batch


def test_the_actors_trunk_is_copied_to_the_critics_exactly_once() -> None:
    algorithm, policy = Archer(**SMALL), policy_of()
    learner = LocalLearner(
        policy, algorithm.objectives(policy), device="cpu", update_executor="eager", seed=1, has_target=True
    )
    trainee: Any = SimpleNamespace(learner=learner, policy=policy)
    begin = CopyActorToCritics(trainee)
    before = policy.parameters.named(learner.flat().copy())
    assert begin("fragment") == "fragment"
    after, target = policy.parameters.named(learner.flat()), learner.target()
    for name, parameter in after.items():
        giver = name.replace(CRITICS, ACTOR, 1) if name.startswith((f"{CRITICS}trunk", f"{CRITICS}gru")) else name
        np.testing.assert_array_equal(parameter, before[giver])
    assert (after["value_gru_memory.weight"] != before["value_gru_memory.weight"]).any()
    np.testing.assert_array_equal(target, learner.flat())
    again = CopyActorToCritics(trainee)
    again.load_state(begin.state())
    learner.load_flat(np.arange(len(target), dtype=np.float32))
    again("fragment")
    np.testing.assert_array_equal(learner.flat(), np.arange(len(target)))


def written(folder: Path, ends: list[tuple[int, str]]) -> DataSet:
    """A set in which the observation of step t of episode e is 10 e + t, its reward t and its action t % 3."""
    with SetWriter(folder, Box(0, 99, (1,)), Discrete(3)) as writer:
        for number, (length, end) in enumerate(ends):
            steps, last = np.arange(length), np.arange(length) == length - 1
            columns = {"actions": steps % 3, "rewards": 1.0 * steps}
            flags = {f"{name}s": last & (name == end) for name in ("terminated", "truncated")}
            seen = 10.0 * number + np.arange(length + 1, dtype=np.float32)[:, None]
            writer.add_episode({"obs": seen, **columns, **flags})
    return DataSet(folder)


def test_recorded_dialogues_have_replay_columns_including_final_observations(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(5, "terminated"), (2, "truncated"), (3, "terminated")])
    view = RecordedDialogues(data, length=3, state_size=2)
    found = view.gather(np.arange(len(view)))
    assert found["obs"][..., 0].tolist() == [[0, 1, 2, 3], [3, 4, 5, 5], [10, 11, 12, 12], [20, 21, 22, 23]]
    assert found["valid"].tolist() == [[True] * 3, [True, True, False], [True, True, False], [True] * 3]
    assert found["actions"].tolist() == [[0, 1, 2], [0, 1, 0], [0, 1, 0], [0, 1, 2]]
    assert found["rewards"].tolist() == [[0, 1, 2], [3, 4, 0], [0, 1, 0], [0, 1, 2]]
    assert found["discounts"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert found["episode_starts"].tolist() == [[is_first, False, False, False] for is_first in (1, 0, 1, 1)]
    assert not found["weights"].any()  # V learns nothing from these rows
    utterances_found = FindUtterances(0.9, (2,))(found)
    assert utterances_found["utterance_ends"].tolist() == [[0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]


def dialogues(folder: Path) -> str:
    """Records eight scripted dialogues of twenty questions."""
    env, asks = TwentyQuestions(), RandomQuestioner(seed=1)
    with SetWriter(folder, env.observation_space, env.action_space) as writer:
        for seed in range(8):
            seen, is_over = [env.reset(seed=seed)[0]], False
            columns: dict[str, list[Any]] = {"actions": [], "rewards": [], "terminateds": [], "truncateds": []}
            while not is_over:
                action = asks(seen[-1])
                observation, *earned, _ = env.step(action)
                for column, entry in zip(columns.values(), (action, *earned), strict=True):
                    column.append(entry)
                is_over = earned[1]
                seen.append(observation)
            obs = {name: np.stack([each[name] for each in seen]) for name in seen[0]}
            writer.add_episode({"obs": obs, **{name: np.array(column) for name, column in columns.items()}})
    return str(folder)


@pytest.mark.parametrize("with_data", [False, True])
def test_a_resumed_archer_run_continues_exactly(with_data: bool, tmp_path: Path) -> None:
    settings = {**SMALL, "utterance_end": [5], "replay": {"capacity": 400, "length": 28, "stride": 4}}
    if with_data:
        settings["input"] = [{"path": dialogues(tmp_path / "dialogues"), "share": 0.5}]
    training = rlrun.Training(TWENTY, Archer(**settings), seed=1)
    training.step()
    training.save(tmp_path / "saved")
    expected = numbers(training.step())
    training.close()
    resumed = rlrun.Training.restore(tmp_path / "saved", trust=with_data)
    assert numbers(resumed.step()) == expected
    resumed.close()


def test_non_token_actions_and_unknown_end_tokens_are_refused(wording) -> None:
    with wording.raised(UsageError):
        ArcherPolicy(Spaces(SPACES.observation["token"], Box(-1, 1, (2,))), ArcherConfig(), 1)
    with wording.raised(UsageError):
        policy_of(utterance_end=[3])
    alone = rlrun.Training(TWENTY, Archer(**{**SMALL, "input": "here"}))
    with wording.raised(UsageError):
        alone.start()
    with wording.raised(SpecError, "burn_in"):
        Archer(replay={"burn_in": 4})
