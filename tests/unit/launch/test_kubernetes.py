"""The manifests for Kubernetes fit the schemas that Kubeflow's two operators publish."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from kubeflow.training import ApiClient
from kubeflow_trainer_api import models
from torch.distributed.run import config_from_args, parse_args

from rankbook.programs.elastic.options import read

FOLDER = Path(__file__).resolve().parents[3] / "launch" / "kubernetes"


@pytest.fixture
def manifest():
    return yaml.safe_load((FOLDER / "pytorchjob.yaml").read_text("utf-8"))


@pytest.fixture
def runtime_and_job():
    """The two parts of a TrainJob: what the admins keep, and what names it."""
    return list(yaml.safe_load_all((FOLDER / "trainjob.yaml").read_text("utf-8")))


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
        (("spec", "runPolicy", "schedulingPolicy"), {"minAvailable": "2"}),
        (("spec", "runPolicy", "schedulingPolicy"), {"schedulerName": "volcano"}),
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
    assert (config.min_nodes, config.max_nodes, config.max_restarts) == (2, 4, 10)
    gang = spec["runPolicy"]["schedulingPolicy"]["minAvailable"]
    assert gang == config.min_nodes <= spec["pytorchReplicaSpecs"]["Worker"]["replicas"]
    assert config.rdzv_endpoint == "every-rank-elastic-worker-0:23456"
    assert config.rdzv_configs["keep_alive_max_attempt"] == "4"
    module = words.index("rankbook.programs.elastic")
    options = read(words[module + 1 :])
    assert options.checkpoint.is_relative_to("/shared") and options.model == "lm"


def through_trainers_schema(manifest: dict) -> dict:
    """`manifest` as Trainer's models keep it: an unknown key is lost, a wrong type raises."""
    model = getattr(models, f"TrainerV1alpha1{manifest['kind']}")
    return json.loads(model.from_dict(manifest).to_json())


def test_trainer_knows_every_key_and_every_type_is_right(runtime_and_job):
    runtime, job = runtime_and_job
    assert through_trainers_schema(runtime) == runtime
    assert through_trainers_schema(job) == job
    assert job["spec"]["runtimeRef"] == {"kind": runtime["kind"], "name": "every-rank"}


REPLICATED = ("spec", "template", "spec", "replicatedJobs", 0)
POD = (*REPLICATED, "template", "spec", "template", "spec")


@pytest.mark.parametrize(
    ("number", "path", "change"),
    [
        (0, ("spec", "mlPolicy"), {"numNodes": "2"}),
        (0, ("spec", "mlPolicy", "torch"), {"elasticPolicy": {"minNodes": 1, "maxNodes": 2}}),
        (0, ("spec", "podGroupPolicy"), {"gang": {}}),
        (0, POD, {"shareProcessNamespace": "true"}),
        (0, (*POD, "volumes", 1, "emptyDir"), {"media": "Memory"}),
        (1, ("spec", "trainer"), {"numNodes": "1:2"}),
        (1, ("spec", "trainer"), {"commands": ["torchrun"]}),
        (1, ("spec", "trainer"), {"volumeMounts": []}),
    ],
)
def test_trainer_finds_a_mistake(runtime_and_job, number, path, change):
    mistaken = put(runtime_and_job[number], *path, **change)
    try:
        found = through_trainers_schema(mistaken)
    except ValueError:
        return
    assert found != mistaken


def test_the_words_of_a_trainjob_win_over_trainers_variables(runtime_and_job, monkeypatch):
    """With the variables that its torch plugin sets."""
    spec, name = runtime_and_job[1]["spec"], runtime_and_job[1]["metadata"]["name"]
    variables = {
        "PET_NNODES": spec["trainer"]["numNodes"],
        "PET_NPROC_PER_NODE": spec["trainer"]["numProcPerNode"],
        "PET_NODE_RANK": 1,
        "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
        "PET_MASTER_PORT": 29400,
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, str(value))
    trainer = spec["trainer"]
    config, _, words = config_from_args(parse_args([*trainer["command"][1:], *trainer["args"]]))
    assert (config.min_nodes, config.max_nodes, config.max_restarts) == (1, 2, 10)
    assert (config.nproc_per_node, config.rdzv_backend) == (1, "c10d")
    assert config.rdzv_endpoint == f"{name}-node-0-0.{name}:29400" and config.run_id == name
    assert config.rdzv_configs["keep_alive_max_attempt"] == "4"
    options = read(words[words.index("rankbook.programs.elastic") + 1 :])
    assert options.checkpoint.is_relative_to("/shared") and options.model == "lm"


def test_both_have_an_init_shared_memory_and_time_to_save(manifest, runtime_and_job):
    v2 = runtime_and_job[0]["spec"]["template"]["spec"]["replicatedJobs"][0]
    for pod in (
        manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"],
        v2["template"]["spec"]["template"]["spec"],
    ):
        assert pod["shareProcessNamespace"] and pod["terminationGracePeriodSeconds"] >= 120
        variables = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
        told = int(variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"])  # torchrun's own default is 30
        assert 30 < told < pod["terminationGracePeriodSeconds"]
        assert {"name": "shm", "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]
        assert any(each.get("emptyDir", {}).get("medium") == "Memory" for each in pod["volumes"])
    assert (
        v2["name"] == "node" == v2["template"]["spec"]["template"]["spec"]["containers"][0]["name"]
    )
