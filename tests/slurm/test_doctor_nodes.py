"""The doctors of two real nodes: what each says of itself, and what they find out together."""

import json

import pytest

from tests.waiting import SOON

PORT = 29444
NOBODY = "10.77.0.77"
NODE = f"""
import os, pathlib, socket, subprocess, sys, time
listens = pathlib.Path(os.environ["SHARED"], "listens")
if os.environ["SLURMD_NODENAME"] == "n2":
    taken = socket.create_server(("", {PORT}))  # one node differs from the other
    listens.touch()
while not listens.exists():
    time.sleep(0.05)
doctor = [sys.executable, "-m", "rankbook", "doctor", "--json"]
sys.exit(subprocess.run([*doctor, *sys.argv[1:]]).returncode)
"""


@pytest.fixture(scope="module")
def documents(cluster):
    """By node, the document and the findings by check and name."""
    shared, folder = cluster.folder, cluster.folder / "checkpoints"
    folder.mkdir()
    (shared / "node.py").write_text(NODE)
    options = f"--checkpoints {folder} --port {PORT} --peer n1 --peer n2 --peer {NOBODY}"
    srun = f"srun --nodes=2 --ntasks-per-node=1 --output={shared}/doctor-%N.json"
    cluster.login(f'{srun} python {shared}/node.py {options} || [ "$?" = 1 ]', seconds=SOON)
    read = {}
    for node in cluster.nodes:
        document = json.loads((shared / f"doctor-{node}.json").read_text())
        read[node] = document, {(f["check"], f["name"]): f for f in document["findings"]}
    assert not list(folder.iterdir())  # nothing is left of their meeting
    return read


def test_each_node_takes_its_own_network(documents):
    for node, (document, found) in documents.items():
        assert document["machine"]["host"] == node
        chosen = found["network", "interface"]
        assert (chosen["level"], chosen["value"]["gloo"]) == ("ok", "eth0")
        assert chosen["value"]["nccl"] == ["eth0"]
        assert found["network", "host name"]["value"]["name"] == node
        assert found["round_trip", "gloo"]["value"]["algorithm_bandwidth"] > 0
        assert found["environment", "slurm"]["value"]["nodes"] == 2


def test_they_meet_in_the_shared_folder_and_compare_clocks(documents):
    for node, (_, found) in documents.items():
        (other,) = documents.keys() - {node}
        assert found["all_nodes", "shared folder"]["value"] == {"nodes": 2, "met": [other]}
        clock = found["all_nodes", "clocks"]
        assert clock["level"] == "ok"
        # one machine, one clock: what they find must be within the error that they state
        assert abs(clock["value"][other]["ahead"]) <= clock["value"][other]["error"] + 0.001


def test_they_measure_the_way_from_each_to_the_next(documents):
    said = set()
    for _, found in documents.values():
        finding = found["links", "links"]
        assert finding["level"] in ("ok", "warning")  # fast or slow
        assert sorted(finding["value"]["links"]) == ["n1 to n2", "n2 to n1"]
        assert all(way["seconds"] > 0 for way in finding["value"]["links"].values())
        said.add(finding["says"])
    assert len(said) == 1  # both say the same


def test_the_one_node_with_a_fault_is_told_from_the_other(documents):
    free, taken = (documents[node][1]["network", "port"] for node in ("n1", "n2"))
    assert free["level"] == "ok" and taken["level"] == "problem"
    assert "node.py" in taken["value"]["holder"]


def test_peers_are_reached_by_the_network_of_the_nodes_or_not_at_all(documents):
    found = documents["n1"][1]
    assert found["network", "peer n1"]["value"] == {"from": "10.77.0.1", "open": False}
    assert found["network", "peer n2"]["value"] == {"from": "10.77.0.1", "open": True}
    nobody = found["network", f"peer {NOBODY}"]
    assert nobody["level"] == "problem"
    assert nobody["value"] in ("No route to host", "no answer in 3 s")
