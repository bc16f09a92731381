"""What a trial needs, whether it fits, and the message if it does not."""

import re
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.cluster.resources import Capacity, TrialResources, check_fits, container_quota, ray_cpus
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments


def trial(cpus: float = 1.0, algorithm: str = "ppo", **config: float) -> TrialSpec:
    data = {
        "algorithm": algorithm,
        "env": "CartPole-v1",
        "stop": {"iteration": 1},
        "config": config,
        "resources": {"cpus": cpus},
    }
    return parse_experiments({"small": data})[0].trials()[0]


def machine(cpus: float, gpus: float = 0) -> Capacity:
    return Capacity(cpus=(cpus,), gpus=(gpus,), place="this machine", shares_trial_cpu=True)


def cluster(*cpus: float) -> Capacity:
    return Capacity(cpus=cpus, gpus=(0.0,) * len(cpus), place="the cluster at 10.0.0.1:6379", shares_trial_cpu=False)


def test_a_trial_requests_a_bundle_for_its_own_process_and_one_for_each_worker() -> None:
    needs = TrialResources.of(trial(cpus=0.5, num_workers=2, num_gpus=1, num_cpus_per_worker=0.25))
    assert needs.bundles() == [{"CPU": 0.5, "GPU": 1.0}, {"CPU": 0.25}, {"CPU": 0.25}]
    assert needs.total_cpus == 1.0


def test_a_trial_that_uses_no_gpu_requests_none() -> None:
    assert TrialResources.of(trial()).bundles() == [{"CPU": 1.0}]


def test_each_learner_gets_a_bundle_with_its_share_of_the_gpus_and_the_trial_process_gets_no_gpu() -> None:
    needs = TrialResources.of(trial(num_learners=2, num_gpus=1, num_workers=1, torch_threads=3))
    assert needs.bundles() == [{"CPU": 1.0}, {"CPU": 3.0, "GPU": 0.5}, {"CPU": 3.0, "GPU": 0.5}, {"CPU": 1.0}]
    assert (needs.total_cpus, needs.total_gpus) == (8, 1)


def test_workers_that_learn_share_the_gpus_equally_and_each_share_must_fit_on_one_node() -> None:
    two = trial(algorithm="ddppo", num_workers=2, num_gpus=1)
    assert TrialResources.of(two).bundles() == [{"CPU": 1.0}, {"CPU": 1.0, "GPU": 0.5}, {"CPU": 1.0, "GPU": 0.5}]
    alone = TrialResources.of(trial(algorithm="ddppo", num_gpus=1))
    assert (alone.bundles(), alone.total_gpus) == ([{"CPU": 1.0, "GPU": 1.0}], 1.0)
    four = TrialResources.of(trial(algorithm="ddppo", num_workers=4, num_gpus=2))
    assert machine(4, gpus=2).fits(four)
    assert not machine(4, gpus=1).fits(four)
    apart = Capacity(cpus=(4, 4), gpus=(0, 2), place="the cluster", shares_trial_cpu=False)
    assert apart.room_for_workers(four) == 4
    assert apart.room_for_workers(TrialResources.of(trial(algorithm="ddppo", num_workers=4, num_gpus=4))) == 2


def test_learners_take_up_cpus_and_gpus_as_workers_do() -> None:
    assert machine(2).fits(TrialResources.of(trial(num_learners=2)))
    assert machine(2).fits(TrialResources.of(trial(num_learners=1, num_workers=1)))
    assert not machine(2).fits(TrialResources.of(trial(num_learners=2, num_workers=1)))
    assert cluster(2, 1).fits(TrialResources.of(trial(num_learners=2)))
    assert not cluster(2, 1).fits(TrialResources.of(trial(num_learners=3)))
    mixed = Capacity(cpus=(4, 2, 1), gpus=(0, 1, 1), place="the cluster", shares_trial_cpu=False)
    assert mixed.fits(TrialResources.of(trial(num_learners=2, num_gpus=2, num_workers=4)))
    assert not mixed.fits(TrialResources.of(trial(num_learners=2, num_gpus=2, num_workers=5)))
    assert not mixed.fits(TrialResources.of(trial(num_learners=3, num_gpus=3)))


def test_on_a_single_machine_the_trial_process_shares_cores_with_its_workers() -> None:
    assert machine(2).fits(TrialResources.of(trial(num_workers=2)))
    assert not machine(2).fits(TrialResources.of(trial(num_workers=3)))
    assert machine(2).fits(TrialResources.of(trial(num_workers=8, num_cpus_per_worker=0.25)))


def test_a_process_larger_than_the_machine_never_fits() -> None:
    assert not machine(2).fits(TrialResources.of(trial(cpus=3)))
    assert not machine(2).fits(TrialResources.of(trial(num_workers=1, num_cpus_per_worker=3)))


def test_on_a_cluster_all_processes_need_their_own_cpus_and_each_must_fit_on_one_node() -> None:
    assert cluster(2, 2).fits(TrialResources.of(trial(num_workers=3)))
    assert not cluster(2, 2).fits(TrialResources.of(trial(num_workers=4)))
    assert not cluster(2, 2).fits(TrialResources.of(trial(cpus=3)))
    assert cluster(4, 2, 2).fits(TrialResources.of(trial(num_workers=2, num_cpus_per_worker=2)))
    assert cluster(3).fits(TrialResources.of(trial(num_workers=20, num_cpus_per_worker=0.1)))


def test_on_a_cluster_the_trials_process_needs_cpus_and_gpus_of_the_same_node() -> None:
    mixed = Capacity(cpus=(1, 4), gpus=(1, 0), place="the cluster", shares_trial_cpu=False)
    assert mixed.fits(TrialResources.of(trial(num_gpus=1, num_workers=4)))
    assert not mixed.fits(TrialResources.of(trial(cpus=2, num_gpus=1)))


def test_ray_starts_with_the_number_of_cores_or_the_needs_of_the_largest_trial() -> None:
    assert ray_cpus([trial(), trial()], cores=2) == 2
    assert ray_cpus([trial(), trial(num_workers=2)], cores=2) == 3
    assert ray_cpus([trial(cpus=0.5, num_workers=2)], cores=2) == 3
    assert ray_cpus([], cores=2) == 2


@pytest.mark.parametrize(
    ("spec", "capacity", "setting"),
    [
        (trial(num_workers=8), machine(2), "num_workers"),
        (trial(num_gpus=1), machine(2), "num_gpus"),
        (trial(cpus=4), machine(2), "resources.cpus"),
        (trial(num_learners=4), machine(2), "num_learners"),
        (trial(num_learners=1, num_workers=2), machine(2), "num_workers"),
        (trial(num_learners=2, num_gpus=2), machine(4, gpus=1), "num_gpus"),
        (trial(num_workers=4), cluster(2, 2), "num_workers"),
        (trial(num_workers=3, num_cpus_per_worker=1.5), cluster(2, 2, 2), "num_workers"),
        (trial(cpus=3), cluster(0), "resources.cpus"),
    ],
)
def test_the_refusal_of_a_trial_that_does_not_fit_names_it_the_setting_and_the_capacity(
    spec: TrialSpec, capacity: Capacity, setting: str, wording
) -> None:
    with wording.raised(UsageError, "000-seed=0", setting, capacity.place) as refused:
        check_fits([trial(), spec], capacity)
    assert refused.value.exit_code == 2


def stated_cpus(spec: TrialSpec, capacity: Capacity) -> float:
    """The CPUs that a refusal says a trial needs."""
    return float(TrialResources.of(spec).text(shares_trial_cpu=capacity.shares_trial_cpu).split()[0])


@pytest.mark.parametrize(
    ("settings", "capacity"),
    [
        ({"num_workers": 8}, machine(2)),
        ({"num_learners": 1, "num_workers": 2}, machine(2)),
        ({"num_workers": 5, "num_cpus_per_worker": 0.5}, machine(2)),
        ({"num_workers": 4}, cluster(4)),
        ({"num_workers": 9, "num_learners": 1}, cluster(4)),
    ],
)
def test_the_numbers_stated_in_a_refusal_agree_with_the_advised_number_of_workers(
    settings: dict[str, float], capacity: Capacity
) -> None:
    with pytest.raises(UsageError) as refused:
        check_fits([trial(**settings)], capacity)
    (advised,) = map(int, re.findall(r"ower num_workers to (\d+)", str(refused.value)))
    followed, one_more = (trial(**{**settings, "num_workers": advised + more}) for more in (0, 1))
    check_fits([followed], capacity)
    with pytest.raises(UsageError):
        check_fits([one_more], capacity)
    assert stated_cpus(followed, capacity) <= capacity.cpus[0] < stated_cpus(one_more, capacity)
    assert f"needs {stated_cpus(trial(**settings), capacity):g} CPUs" in str(refused.value)


def test_each_trial_must_fit_on_its_own_and_the_refusal_counts_the_trials_that_do_not() -> None:
    trials = [trial(), trial(num_workers=2), trial(), trial(num_workers=2)]
    check_fits(trials, machine(2))  # one after the other; together, they would need 8 CPUs
    with pytest.raises(UsageError, match=r"\(and 1 more\)"):
        check_fits(trials, machine(1))


@pytest.mark.parametrize(("text", "quota"), [("max 100000\n", None), ("150000 100000\n", 1.5), ("", None)])
def test_the_cpu_quota_of_a_container_is_read(tmp_path: Path, text: str, quota: float | None) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert container_quota(tmp_path / "cpu.max") == quota


def test_there_is_no_cpu_quota_outside_a_container(tmp_path: Path) -> None:
    assert container_quota(tmp_path / "cpu.max") is None


def test_the_resources_of_a_trial_include_the_learners_of_all_policies() -> None:
    policies = {
        "a": {"algorithm": "ppo", "config": {"num_learners": 2, "num_gpus": 1, "torch_threads": 3}},
        "b": {"algorithm": "ppo", "config": {"num_learners": 1}},
        "c": {"algorithm": "ppo", "config": {"num_gpus": 0.5}},
    }
    data = {
        "env": {"world": "rlrun.toys:CartPoles"},
        "policies": policies,
        "mapping": {"pole_0": "a", "pole_1": "b", "*": "c"},
        "config": {"num_workers": 1},
        "stop": {"iteration": 1},
    }
    needs = TrialResources.of(parse_experiments({"world": data})[0].first_trial())
    assert needs.bundles() == [{"CPU": 1.0, "GPU": 0.5}, *([{"CPU": 3.0, "GPU": 0.5}] * 3), {"CPU": 1.0}]
