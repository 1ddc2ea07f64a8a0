"""The environment that all launch files share: what the agents need that no program can set."""

import os
import subprocess
from pathlib import Path

import yaml

LAUNCH = Path(__file__).resolve().parents[3] / "launch"
VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def test_a_command_in_the_ranks_environment_gets_the_variable_of_a_restart():
    plain = {"PATH": os.environ["PATH"]}
    command = [str(LAUNCH / "with_env.sh"), "env"]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=True)
    assert f"{VARIABLE}=1" in done.stdout.splitlines()


def test_the_agents_script_reads_it_before_it_starts_torchrun():
    text = (LAUNCH / "torchrun.sh").read_text("utf-8")
    assert 0 < text.index('source "$here/cluster.env"') < text.index("torch.distributed.run")


def test_the_manifests_set_it():
    for manifest in sorted((LAUNCH / "kubernetes").glob("*.yaml")):
        found = list(settings(list(yaml.safe_load_all(manifest.read_text("utf-8")))))
        assert found and set(found) == {"1"}, manifest.name


def settings(node: object):
    """Each value that the variable is given, wherever it stands."""
    if isinstance(node, dict):
        if node.get("name") == VARIABLE:
            yield node["value"]
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from settings(each)
