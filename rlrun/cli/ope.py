"""``rlrun ope CHECKPOINT|RUN --data SET``: the value of a saved policy, estimated from recorded episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_trials, json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, counted, stdout_width, table

if TYPE_CHECKING:
    from rlrun.engine.datasets.data_set import DataSet
    from rlrun.exact.off_policy_evaluation.evaluation import PolicyEstimate, PolicyEvaluation, RankedPair, Ranking


@click.command()
@click.argument("targets", metavar="CHECKPOINT|RUN...", nargs=-1, required=True, shell_complete=complete_trials)
@click.option("--data", metavar="SET", required=True, type=click.Path(), help="Data set with the episodes, or its URI.")
@click.option("--rank", is_flag=True, help="Rank several checkpoints, and show the differences between them.")
@click.option("--best", is_flag=True, help="Use the best checkpoint of a run instead of the newest.")
@click.option("--greedy", is_flag=True, help="Evaluate the policy's greedy actions instead of sampled ones.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for fitting the models."
)
@click.option(
    "--sgd-steps", type=click.IntRange(min=1), help="Number of minibatches per fit; default: more for a longer horizon."
)
@runs_dir_option
@trust_option
@json_option("the estimates")
def ope(
    targets: tuple[str, ...],
    data: str,
    rank: bool,
    best: bool,
    greedy: bool,
    seed: int,
    sgd_steps: int | None,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Estimate the value of a policy from recorded episodes.

    This is off-policy evaluation: another policy may have collected the episodes,
    and no env is needed. The value is the expected return from the start of an
    episode, discounted with the algorithm's gamma. Give the directory of a CHECKPOINT, a RUN
    or a trial. For a run or a trial, its newest complete checkpoint is used.

    Estimators with importance weights need stochastic or Discrete actions, and
    log-probabilities in the data set. Where these are missing, the behavior policy
    is estimated from its actions, and the table says so.
    """
    from rlrun.bridges.datasets.conversion import opened
    from rlrun.cli.targets import checkpoint_named
    from rlrun.engine.messages.errors import UsageError

    if rank != (len(targets) > 1):
        raise UsageError("--rank needs at least two checkpoints" if rank else "several checkpoints need --rank")
    checkpoints = [checkpoint_named(target, runs_dir, best=best) for target in targets]
    data_set = opened(data)
    found = _evaluated(checkpoints, data_set, runs_dir, trust=trust, greedy=greedy, seed=seed, sgd_steps=sgd_steps)
    shared = {"data": data, "digest": data_set.digest, "episodes": data_set.num_episodes, "seed": seed}
    shared["steps"] = data_set.num_steps
    titles = [str(checkpoint) for checkpoint in checkpoints]
    if not rank:
        text = f"{titles[0]}\n{evaluation_text(found[0], data_set)}"
        print_result({**_evaluation_document(titles[0], found[0]), **shared}, text)
        return
    from rlrun.exact.off_policy_evaluation.evaluation import ranked

    ranking = ranked(found)
    print_result(
        {**_ranking_document(titles, found, ranking), **shared}, ranking_text(titles, found, ranking, data_set)
    )


def _evaluated(
    checkpoints: list[Path],
    data_set: DataSet,
    runs_dir: Path,
    *,
    trust: bool,
    greedy: bool,
    seed: int,
    sgd_steps: int | None,
) -> list[PolicyEvaluation]:
    """Evaluates checkpoints one after the other, all with the observation encodings of the first one.

    Raises:
        UsageError: Their discount factors differ.
    """
    from rlrun.cli.targets import restored
    from rlrun.engine.messages.errors import UsageError
    from rlrun.exact.off_policy_evaluation.evaluation import evaluator, target_policy
    from rlrun.exact.off_policy_evaluation.fitted_q import FitSettings

    found: list[PolicyEvaluation] = []
    evaluates = None
    for checkpoint in checkpoints:
        with restored(checkpoint, runs_dir, trust=trust) as training:
            gamma = training.description.algorithm.config.gamma
            if found and gamma != found[0].gamma:
                first = f"{checkpoints[0]} has {found[0].gamma:g}"
                raise UsageError(
                    f"ranked policies must have the same gamma, but {first}, and {checkpoint} has {gamma:g}"
                )
            policy = target_policy(training, data_set, is_greedy=greedy, seed=seed)
            evaluates = evaluates or evaluator(training, data_set, settings=FitSettings(sgd_steps), seed=seed)
            found.append(evaluates.evaluate(policy))
    return found


def evaluation_text(evaluation: PolicyEvaluation, data_set: DataSet) -> str:
    """Formats the off-policy evaluation of one policy: a table with one row per estimator, followed by remarks."""
    rows = [
        [row.estimator, _value(row), *_interval_cells(row), row.effective_size, "; ".join(row.remarks) or None]
        for row in evaluation.judgements
    ]
    headings = ["estimator", "value", "low", "high", "effective size", "remarks"]
    lines = [_about(evaluation, data_set), table(headings, rows, stdout_width())]
    if (weight := evaluation.mean_weight) is not None:
        low, high = map(cell_text, weight.ci95)
        interval = f"95% interval {low} to {high}"
        lines.append(f"mean importance weight {cell_text(weight.value)} ({interval}), 1 in expectation")
    return "\n".join([*lines, *evaluation.remarks])


def ranking_text(titles: list[str], found: list[PolicyEvaluation], ranking: Ranking, data_set: DataSet) -> str:
    """Formats a ranking of checkpoints by estimated value, and lists the pairs whose values do not clearly differ."""
    rows = []
    for place, index in enumerate(ranking.order, 1):
        judgement = found[index].judged_by(ranking.estimator)
        assert judgement is not None
        rows.append([place, titles[index], _value(judgement), *_interval_cells(judgement), judgement.effective_size])
    headings = ["rank", "checkpoint", "value", "low", "high", "effective size"]
    differing = f"pairs with a significant difference: {ranking.num_resolved} of {len(ranking.pairs)}"
    unresolved = [_pair_text(pair, ranking.order) for pair in ranking.pairs if not pair.is_resolved]
    remarks = dict.fromkeys(remark for evaluation in found for remark in evaluation.remarks)
    lines = [_about(found[0], data_set), f"ranked by {ranking.estimator}", table(headings, rows, stdout_width())]
    return "\n".join([*lines, differing, *unresolved, *remarks])


def _about(evaluation: PolicyEvaluation, data_set: DataSet) -> str:
    size = f"{counted(data_set.num_episodes, 'episode')}, {counted(data_set.num_steps, 'step')}"
    return f"{evaluation.policy} policy, gamma {evaluation.gamma:g}, evaluated on {data_set.folder} ({size})"


def _value(row: PolicyEstimate) -> float | None:
    return None if row.estimate is None else row.estimate.value


def _interval_cells(row: PolicyEstimate) -> tuple[float | None, float | None]:
    return (None, None) if row.estimate is None else row.estimate.ci95


def _pair_text(pair: RankedPair, order: tuple[int, ...]) -> str:
    better, worse = (order.index(index) + 1 for index in (pair.better, pair.worse))
    low, high = map(cell_text, pair.ci95)
    interval = f"95% interval {low} to {high}"
    return f"  {better} and {worse} may be equal: difference {cell_text(pair.difference)} ({interval})"


def _evaluation_document(checkpoint: str, evaluation: PolicyEvaluation) -> dict[str, Any]:
    weight = evaluation.mean_weight
    return {
        "checkpoint": checkpoint,
        "policy": evaluation.policy,
        "gamma": evaluation.gamma,
        "mean_weight": None if weight is None else {"value": weight.value, "ci95": weight.ci95},
        "estimates": [
            {
                "estimator": row.estimator,
                "value": _value(row),
                "ci95": None if row.estimate is None else row.estimate.ci95,
                "effective_size": row.effective_size,
                "remarks": row.remarks,
            }
            for row in evaluation.judgements
        ],
        "remarks": evaluation.remarks,
    }


def _ranking_document(titles: list[str], found: list[PolicyEvaluation], ranking: Ranking) -> dict[str, Any]:
    return {
        "ranked_by": ranking.estimator,
        "checkpoints": [_evaluation_document(titles[index], found[index]) for index in ranking.order],
        "pairs": [
            {
                "better": titles[pair.better],
                "worse": titles[pair.worse],
                "difference": pair.difference,
                "ci95": pair.ci95,
                "differs": pair.is_resolved,
            }
            for pair in ranking.pairs
        ],
    }
