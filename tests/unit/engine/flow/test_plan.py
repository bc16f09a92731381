from __future__ import annotations

from typing import Any

from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.nodes import Polled, Source
from rlrun.engine.flow.plan import plan_text


class Rollouts(Source):
    def __init__(self, mode: str, on_workers: tuple[tuple[str, dict[str, Any]], ...] = ()) -> None:
        super().__init__("parallel_rollouts", {"workers": 2, "mode": mode})
        self.on_workers = on_workers

    def next_item(self) -> Polled:
        raise AssertionError("a printed plan pulls nothing")


class Named(Operator):
    def __call__(self, item: Any) -> Any:
        return item


class ComputeAdvantages(Named):
    def settings(self) -> dict[str, Any]:
        return {"gamma": 0.99, "gae_lambda": 0.95}


class ConcatBatches(Named):
    def settings(self) -> dict[str, Any]:
        return {"train_batch_size": 2048}


class TrainOnBatch(Named):
    pass


class StoreToReplay(Named):
    pass


class SelectPolicy(Named):
    def __init__(self, policy: str) -> None:
        self.policy = policy

    def settings(self) -> dict[str, Any]:
        return {"policy": self.policy}


def is_long(item: Any) -> bool:
    return bool(item)


def chain() -> Flow[Any]:
    rollouts: Flow[Any] = Flow(Rollouts("sync"))
    return rollouts.for_each(ComputeAdvantages()).combine(ConcatBatches()).filter(is_long).for_each(TrainOnBatch())


def two_branches() -> Flow[Any]:
    rollouts: Flow[Any] = Flow(Rollouts("async", (("ComputeAdvantages", {"gamma": 0.99}),)))
    for_dqn, for_ppo = rollouts.duplicate(2)
    store = for_dqn.for_each(SelectPolicy("dqn")).for_each(StoreToReplay())
    update = for_ppo.for_each(SelectPolicy("ppo")).for_each(TrainOnBatch())
    return concurrently(store, update, weights=(1, 4), output=update).zip_with_worker()


def test_the_printed_plan_of_a_chain_lists_its_steps_in_order_with_their_settings(wording) -> None:
    assert plan_text(chain().describe()) == wording("parallel_rollouts", "ComputeAdvantages", "gae_lambda")


def test_branches_are_printed_as_a_tree_and_a_duplicated_stream_is_printed_once(wording) -> None:
    assert plan_text(two_branches().describe()) == wording("parallel_rollouts", "ComputeAdvantages", "SelectPolicy")


def test_plans_with_copies_of_copies_and_with_settings_of_filters_are_printed(wording) -> None:
    left, right = chain().duplicate(2)
    first, second = left.for_each(StoreToReplay()).duplicate(2)
    joined = concurrently(concurrently(first, second.filter(SelectPolicy("dqn"))), right)
    assert plan_text(joined.describe()) == wording("parallel_rollouts", "ComputeAdvantages", "gae_lambda")
