"""The manifests in examples/kubernetes name KubeRay's fields, and their commands and specs are valid.

The manifests may only use fields of KubeRay's custom resource definitions. `kubectl apply` only warns about other
fields.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlrun.experiments.spec.load import load_experiments
from tests.command import rlrun

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
SPECS = "/home/ray/specs"
"""Path of the ConfigMap with specs in the head pod."""

Fields = dict[str, Any]
"""Fields of a resource: the fields inside each, or None for a value or a map with the user's own names."""

POD: Fields = {
    "metadata": {"labels": None, "annotations": None},
    "spec": {
        "containers": {
            "name": None,
            "image": None,
            "resources": {"requests": None, "limits": None},
            "env": {"name": None, "value": None},
            "envFrom": {"secretRef": {"name": None}},
            "volumeMounts": {"name": None, "mountPath": None},
        },
        "nodeSelector": None,
        "terminationGracePeriodSeconds": None,
        "tolerations": {"key": None, "operator": None, "value": None, "effect": None, "tolerationSeconds": None},
        "volumes": {"name": None, "configMap": {"name": None}},
    },
}
CLUSTER: Fields = {
    "rayVersion": None,
    "authOptions": {"mode": None, "secretName": None},
    "enableInTreeAutoscaling": None,
    "autoscalerOptions": {"version": None, "idleTimeoutSeconds": None, "upscalingMode": None, "resources": None},
    "headGroupSpec": {"rayStartParams": None, "template": POD},
    "workerGroupSpecs": {
        "groupName": None,
        "replicas": None,
        "minReplicas": None,
        "maxReplicas": None,
        "rayStartParams": None,
        "template": POD,
    },
}
JOB: Fields = {
    "entrypoint": None,
    "backoffLimit": None,
    "submissionMode": None,
    "submitterConfig": {"backoffLimit": None},
    "shutdownAfterJobFinishes": None,
    "ttlSecondsAfterFinished": None,
    "activeDeadlineSeconds": None,
    "clusterSelector": None,
    "suspend": None,
    "rayClusterSpec": CLUSTER,
}
HEAD: Fields = {"apiVersion": None, "kind": None, "metadata": {"name": None, "labels": None}}
KINDS: dict[tuple[str, str], Fields] = {
    ("v1", "ConfigMap"): {**HEAD, "data": None},
    ("ray.io/v1", "RayCluster"): {**HEAD, "spec": CLUSTER},
    ("ray.io/v1", "RayJob"): {**HEAD, "spec": JOB},
}


def resources(manifest: Path, kind: str) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(manifest.read_text()) if found["kind"] == kind]


def unknown(data: Any, fields: Fields | None, place: str) -> list[str]:
    """Returns the places of fields that a resource does not have."""
    if fields is None:
        return []
    if isinstance(data, list):
        return [found for index, item in enumerate(data) for found in unknown(item, fields, f"{place}[{index}]")]
    strange = [f"{place}.{name}" for name in data if name not in fields]
    known = {name: value for name, value in data.items() if name in fields}
    return strange + [
        found for name, value in known.items() for found in unknown(value, fields[name], f"{place}.{name}")
    ]


def clusters(manifest: Path) -> list[dict[str, Any]]:
    """Returns the clusters of a manifest, including those of its jobs."""
    of_jobs = [
        job["spec"]["rayClusterSpec"] for job in resources(manifest, "RayJob") if "rayClusterSpec" in job["spec"]
    ]
    return of_jobs + [cluster["spec"] for cluster in resources(manifest, "RayCluster")]


def specs(manifest: Path, folder: Path) -> Path:
    """Writes the specs of a manifest's ConfigMap into a folder."""
    (data,) = [found["data"] for found in resources(manifest, "ConfigMap")]
    for name, text in data.items():
        (folder / name).write_text(text)
    return folder


def by_name(path: Path) -> str:
    return path.stem


def test_examples_contain_one_raycluster_and_one_rayjob() -> None:
    assert [path.name for path in MANIFESTS] == ["raycluster.yaml", "rayjob.yaml"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=by_name)
def test_manifests_use_only_fields_that_their_resource_types_define(manifest: Path) -> None:
    for found in yaml.safe_load_all(manifest.read_text()):
        assert unknown(found, KINDS[found["apiVersion"], found["kind"]], found["kind"]) == []


def test_a_misplaced_manifest_field_is_detected() -> None:
    (job,) = resources(FOLDER / "rayjob.yaml", "RayJob")
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["backoffLimit"] = 3
    assert unknown(job["spec"], JOB, "spec") == ["spec.rayClusterSpec.workerGroupSpecs[0].backoffLimit"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=by_name)
def test_manifest_specs_are_valid_and_set_storage_and_restarts(manifest: Path, tmp_path: Path) -> None:
    experiments = load_experiments(sorted(specs(manifest, tmp_path).iterdir()))
    assert [experiment.storage for experiment in experiments] == ["s3://my-bucket/runs?region=eu-central-1"]
    assert all(experiment.failure.max_restarts > 0 for experiment in experiments)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=by_name)
def test_job_entrypoint_is_valid_and_resumes_on_its_cluster(manifest: Path, tmp_path: Path) -> None:
    specs(manifest, tmp_path)
    (job,) = resources(manifest, "RayJob")
    program, *words = shlex.split(job["spec"]["entrypoint"].replace(SPECS, str(tmp_path)))
    assert program == "rlrun"
    assert words[words.index("--address") + 1] == "auto"
    assert "--resume" in words
    done = rlrun(*words, "--dry-run")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("manifest", MANIFESTS, ids=by_name)
def test_a_trial_fits_in_a_worker_pod_and_only_the_head_gets_specs_and_credentials(
    manifest: Path, tmp_path: Path
) -> None:
    (cluster,) = clusters(manifest)
    head = cluster["headGroupSpec"]["template"]["spec"]
    (container,) = head["containers"]
    assert {"name": "specs", "mountPath": SPECS} in container["volumeMounts"]
    assert head["volumes"] == [{"name": "specs", "configMap": {"name": "rlrun-specs"}}]
    assert container["envFrom"] == [{"secretRef": {"name": "rlrun-storage"}}]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    (group,) = cluster["workerGroupSpecs"]
    (worker,) = group["template"]["spec"]["containers"]
    assert group["minReplicas"] == 0
    assert "envFrom" not in worker  # the credentials of the storage stay on the head
    (experiment,) = load_experiments(sorted(specs(manifest, tmp_path).iterdir()))
    assert experiment.resources.cpus <= int(worker["resources"]["limits"]["cpu"])
    (drain,) = [int(entry["value"]) for entry in worker["env"]]
    assert drain < group["template"]["spec"]["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=by_name)
def test_clusters_require_a_token_and_use_the_pinned_ray_version(manifest: Path) -> None:
    pinned = re.search(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    for cluster in clusters(manifest):
        assert cluster["authOptions"]["mode"] == "token"
        assert cluster["rayVersion"] == pinned[1]
    assert f"FROM rayproject/ray:{pinned[1]}-py312-cpu\n" in (FOLDER / "Dockerfile").read_text()
