"""The manifest for Kubernetes fits the schema that the training operator publishes."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from kubeflow.training import ApiClient
from torch.distributed.run import config_from_args, parse_args

from rankbook.programs.elastic.options import read

MANIFEST = Path(__file__).resolve().parents[3] / "launch" / "kubernetes" / "elastic.yaml"


@pytest.fixture
def manifest():
    return yaml.safe_load(MANIFEST.read_text("utf-8"))


def through_the_schema(manifest: dict) -> dict:
    """`manifest` as the operator's models keep it: an unknown key is lost, a wrong type changed."""
    client = ApiClient()
    job = client.deserialize(SimpleNamespace(data=json.dumps(manifest)), "KubeflowOrgV1PyTorchJob")
    return client.sanitize_for_serialization(job)


def put(manifest: dict, *path, **changes) -> dict:
    """A copy with `changes` to the mapping at `path`; a key that becomes None is removed."""
    changed = copy.deepcopy(manifest)
    place = changed
    for key in path:
        place = place[key]
    place.update(changes)
    return changed


def test_every_key_is_known_and_every_type_right(manifest):
    assert through_the_schema(manifest) == manifest


WORKER = ("spec", "pytorchReplicaSpecs", "Worker")
CONTAINER = (*WORKER, "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (("spec",), {"nprocPerNode": 1}),
        (("spec", "elasticPolicy"), {"minReplica": 1}),
        (("spec", "elasticPolicy"), {"maxReplicas": "2"}),
        (WORKER, {"restart_policy": "OnFailure"}),
        (CONTAINER, {"images": "x"}),
        (CONTAINER, {"env": [{"name": "A", "values": "1"}]}),
        ((*WORKER, "template", "spec"), {"terminationGracePeriod": 5}),
    ],
)
def test_a_mistake_is_found(manifest, path, change):
    mistaken = put(manifest, *path, **change)
    try:
        found = through_the_schema(mistaken)
    except (ValueError, TypeError, AttributeError):
        return
    assert found != mistaken


def test_torchrun_and_the_program_understand_the_command(manifest, monkeypatch):
    """With the variables that the operator sets, as its documentation names them."""
    spec = manifest["spec"]
    policy = spec["elasticPolicy"]
    conf = ",".join(f"{each['key']}={each['value']}" for each in policy["rdzvConf"])
    variables = {
        "PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}",
        "PET_NPROC_PER_NODE": spec["nprocPerNode"],
        "PET_MAX_RESTARTS": policy["maxRestarts"],
        "PET_RDZV_BACKEND": policy["rdzvBackend"],
        "PET_RDZV_ENDPOINT": f"{manifest['metadata']['name']}-worker-0:23456",
        "PET_RDZV_CONF": conf,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    container = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["command"][:3] == ["python", "-m", "torch.distributed.run"]
    arguments = parse_args([*container["command"][3:], *container["args"]])
    config, _, words = config_from_args(arguments)
    assert (config.min_nodes, config.max_nodes, config.max_restarts) == (1, 2, 10)
    assert config.rdzv_endpoint == "every-rank-elastic-worker-0:23456"
    assert config.rdzv_configs["keep_alive_max_attempt"] == "4"
    module = words.index("rankbook.programs.elastic")
    options = read(words[module + 1 :])
    assert options.checkpoint.is_relative_to("/shared") and options.model == "lm"
