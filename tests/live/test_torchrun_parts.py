"""Parts of ``%%torchrun`` that need no launch: options, reports, loopback stores, publishing."""

import signal
import socket
import time

import psutil
import pytest

from rankbook.live import publish as published
from rankbook.live.errors import UsageError
from rankbook.live.torchrun.loopback import is_loopback, keep_to_loopback
from rankbook.live.torchrun.report import Ending, explain
from rankbook.magics_torchrun import Line


def test_our_words_are_taken_out_and_the_rest_is_torchruns():
    line = Line.parse("--nproc-per-node 4 --into r --cold --max-restarts=2 -- --node x")
    assert line.options == ["--nproc-per-node", "4", "--max-restarts=2"]
    assert line.program == ["--node", "x"]
    assert (line.into, line.cold, line.node, line.background) == ("r", True, "", False)
    assert Line.parse("--node=node-0 --background").node == "node-0"


@pytest.mark.parametrize("line", ["--into", "--into --cold", "--node /x", "--into a.b", "'"])
def test_names_are_checked(line):
    with pytest.raises(UsageError):
        Line.parse(line)


def _ending(rank, code=None, raised="", line=None, call="", when=0.0):
    report = None
    if raised:
        text = f"Traceback\n{raised}"
        report = {"type": raised.split(":")[0], "message": raised.partition(": ")[2],
                  "line": line, "call": call, "traceback": text}  # fmt: skip
    return Ending("", rank, code, when, report, {"line": line, "call": call})


LOST = "RuntimeError: [gloo/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711"


@pytest.mark.parametrize(
    "endings, first",
    [
        # what another failure explains is never first, also when it was seen earlier
        ([_ending(0, 1, LOST, when=1), _ending(1, 1, "ValueError: x", when=2)], "rank 1 raised"),
        ([_ending(0, 1, LOST), _ending(1, -9)], "rank 1 was killed by SIGKILL"),
        ([_ending(0, -15), _ending(1, -9)], "rank 1 was killed by SIGKILL"),
        ([_ending(0, -15), _ending(1, 3)], "rank 1 left with exit code 3"),
        ([_ending(0, -15), _ending(1, 1, LOST)], "rank 1 raised RuntimeError"),
        ([_ending(0, -9, when=3), _ending(1, 1, "OSError: y", when=1)], "rank 1 raised OSError: y"),
        ([_ending(0, -15)], "rank 0 was killed by SIGTERM"),
        ([_ending(r, 1, "ValueError: x") for r in range(3)], "[0-2] raised ValueError: x"),
        # two causes: the earlier first
        ([_ending(0, 1, "A: x", when=2), _ending(1, 1, "B: y", when=1)], "rank 1 raised B: y"),
    ],
)
def test_the_root_cause_comes_first(endings, first):
    assert str(explain(endings, [])).startswith(first)


def test_places_are_told():
    endings = [_ending(0, -15, line=4, call="all_reduce"), _ending(1, 1, "ValueError: x", line=3)]
    report = explain(endings, []).report
    assert report.splitlines()[-1] == "rank 0 was in all_reduce, cell line 4; torchrun ended it"


def test_a_killed_agent_is_the_cause():
    words = "the agent of torchrun was killed by SIGKILL; its workers ended with it"
    assert str(explain([_ending(0), _ending(1)], [words])) == words


@pytest.mark.parametrize(
    "host, yes",
    [("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("10.0.0.1", False), ("n1", False)],
)
def test_loopback_names(host, yes):
    assert is_loopback(host) is yes


def test_stores_at_loopback_addresses_listen_there_only(monkeypatch):
    import importlib

    from rankbook.live.torchrun import loopback

    for name in loopback.WITH_STORES:  # undo after the test
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "TCPStore", module.TCPStore)
    keep_to_loopback()
    dist = importlib.import_module("torch.distributed")
    store = dist.TCPStore("localhost", 0, is_master=True, multi_tenant=True, wait_for_workers=False)
    assert _listening_ips(store.port) == {"127.0.0.1"}
    same = dist.TCPStore("127.0.0.1", store.port, None, True, multi_tenant=True)  # shared
    same.set("key", "value")
    assert store.get("key") == b"value"
    client = dist.TCPStore(host_name="127.0.0.1", port=store.port, wait_for_workers=False)
    assert client.get("key") == b"value"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RuntimeError):
        dist.TCPStore("127.0.0.1", taken.getsockname()[1], is_master=True, wait_for_workers=False)


def _listening_ips(port: int) -> set[str]:
    connections = psutil.Process().net_connections(kind="inet")
    listening = [c for c in connections if c.status == psutil.CONN_LISTEN]
    return {c.laddr.ip for c in listening if c.laddr.port == port}


def _publish(monkeypatch, directory, rank, world_size, **values):
    monkeypatch.setenv(published.DIRECTORY, str(directory))
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world_size))
    published.publish(**values)
    time.sleep(0.001)  # file names sort by the time of writing


def test_published_values_come_back_as_they_were(monkeypatch, tmp_path):
    import numpy as np
    import torch

    values = {
        "number": 3, "real": float("inf"), "flag": True, "nothing": None, "text": "每个 rank",
        "nested": {"a": [1, (2.5, "x")], 3: {"tuple": []}}, "item": np.float32(0.5),
    }  # fmt: skip
    tensor = torch.arange(6.0, requires_grad=True).reshape(2, 3)[:, 1:]
    _publish(monkeypatch, tmp_path, 0, 2, **values, tensor=tensor, array=np.arange(3))
    _publish(monkeypatch, tmp_path, 1, 2, number=4, tensor=tensor.bfloat16())
    _publish(monkeypatch, tmp_path, 1, 2, number=5)
    result = published.gather(published.read_published(tmp_path))
    assert {name: getattr(result, name) for name in values} == values
    assert type(result.nested["a"][1]) is tuple and type(result.item) is float
    assert torch.equal(result.tensor, tensor) and not result.tensor.requires_grad
    assert torch.equal(result.array, torch.arange(3))
    assert result.ranks[1].number == 5 and result.ranks[1].tensor.dtype == torch.bfloat16
    assert "number" in dir(result) and repr(result).startswith("[0] number=3")


def test_the_world_that_published_last_counts(monkeypatch, tmp_path):
    for rank in range(4):
        _publish(monkeypatch, tmp_path, rank, 4, step=1)
    for rank in range(2):
        _publish(monkeypatch, tmp_path, rank, 2, step=2)
    result = published.gather(published.read_published(tmp_path))
    assert [values.step for values in result.ranks] == [2, 2]
    assert repr(result) == "[0-1] step=2"


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", [open], signal.SIGTERM.__class__])
def test_other_values_are_refused_by_name(monkeypatch, tmp_path, value):
    with pytest.raises(TypeError, match=r"publish: thing holds a .* cannot be handed"):
        _publish(monkeypatch, tmp_path, 0, 1, thing=value)
    assert not list(tmp_path.iterdir())


def test_without_a_notebook_the_values_are_printed(monkeypatch, capsys):
    monkeypatch.delenv(published.DIRECTORY, raising=False)
    published.publish(loss=0.5, step=3)
    assert capsys.readouterr().out == "loss = 0.5, step = 3\n"
