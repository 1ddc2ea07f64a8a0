"""What the doctor makes of a machine's parts: versions, GPUs, memory, variables, limits."""

import resource
import subprocess
import sys

import pytest

from rankbook.doctor import environment, gpus, memory, versions
from rankbook.doctor.finding import Options
from rankbook.testbed.faults.disk import CannotMount, SmallDisk

ONE_GPU = {
    "name": "H100",
    "capability": "9.0",
    "kernels": True,
    "free": 79 << 30,
    "total": 80 << 30,
    "peers": [],
}


def seen(found, name):
    """Level and sentence of the one finding called `name`."""
    (one,) = [finding for finding in found if finding.name == name]
    return one.level, one.says


@pytest.mark.parametrize(
    ("built", "supports", "driver", "level", "word"),
    [
        ("13.0", 13010, True, "ok", "13.1"),
        ("12.8", 13000, True, "ok", "12.8"),
        ("12.8", 12040, True, "ok", "12.4"),  # within a major version an older driver does
        ("13.0", 12080, True, "problem", "install a newer driver, or torch built for CUDA 12.8"),
        ("13.0", None, False, "warning", "no driver"),
        ("6.4", None, True, "ok", "ROCm"),
        (None, None, True, "problem", "CUDA build"),
        (None, None, False, "skipped", "CPUs"),
    ],
)
def test_torch_and_driver(built, supports, driver, level, word):
    finding = versions.cuda(built, supports, driver)
    assert finding.level == level and word in finding.says


def test_old_and_missing_parts():
    assert versions.torch_release("2.11.0+cu130").level == "ok"
    assert versions.torch_release("2.9.1").level == "problem"
    assert versions.python((3, 10)).level == versions.python((3, 14)).level == "warning"
    assert versions.importing(40.0, versions.Path("/nfs/env/torch")).level == "warning"
    broken = versions.no_torch(OSError("libcudart.so.13: cannot open shared object file"))
    assert broken.level == "problem" and "libcudart" in broken.says
    assert versions.communication([], None).level == "problem"


def test_no_gpu():
    assert gpus.none_seen(False, {}).level == "warning"
    assert gpus.none_seen(True, {}).level == "problem"
    hidden = gpus.none_seen(True, {"CUDA_VISIBLE_DEVICES": ""})
    assert hidden.level == "warning" and "CUDA_VISIBLE_DEVICES" in hidden.says
    assert "allotted 8" in gpus.none_seen(False, {"SLURM_GPUS_ON_NODE": "8"}).says


@pytest.mark.slow
def test_gpus_are_asked_in_a_process_of_their_own(monkeypatch):
    """Here it answers, as any machine does that hides its GPUs: there are none."""
    command = [sys.executable, "-m", "rankbook.doctor.gpus"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    assert told.stdout == "[]\n"


def test_gpus_of_a_node():
    pair = [{**ONE_GPU, "peers": [1]}, {**ONE_GPU, "peers": [0]}]
    assert {f.level for f in gpus.judge(pair, True, {})} == {"ok"}
    bad = [{**ONE_GPU, "kernels": False}, {**ONE_GPU, "free": 40 << 30}]
    found = list(gpus.judge(bad, True, {"SLURM_GPUS_ON_NODE": "4"}))
    assert "2 of 4 GPUs" in seen(found, "gpus")[1]
    assert seen(found, "peer access")[0] == "warning"
    assert [f.level for f in found if f.name == "gpu"] == ["problem", "warning"]


def test_shared_memory(tmp_path):
    try:
        with SmallDisk(tmp_path / "shm") as tiny:
            finding = memory.shared(tiny.folder)
            assert finding.level == "problem" and "--shm-size=1g" in finding.says
    except CannotMount as error:
        pytest.skip(f"this process may mount nothing: {error}")
    assert memory.shared(tmp_path / "none").level == "skipped"


def test_memory_of_a_group(tmp_path):
    """The least of the limits on the way up counts, not that of the machine."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (cgroup / "job" / "step").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 64000000 kB\nMemAvailable:  32000000 kB\n")
    (proc / "self" / "cgroup").write_text("0::/job/step\n")
    (cgroup / "job" / "step" / "memory.max").write_text("max\n")
    assert memory.available(proc, cgroup).value["limit"] is None
    (cgroup / "job" / "memory.max").write_text("500000000\n")
    finding = memory.available(proc, cgroup)
    assert finding.level == "warning" and "500 MB" in finding.says


def test_variables():
    (slow,) = environment.surprising({"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "0"})
    assert slow.level == "warning" and "NCCL_P2P_DISABLE=1" in slow.says
    left = {"MASTER_ADDR": "n1", "RANK": "0"}
    assert environment.left_over(left).level == "warning"
    assert environment.left_over({**left, "TORCHELASTIC_RUN_ID": "7"}).level == "ok"
    assert "OMP_NUM_THREADS=8" in environment.threads(None, 64, 8).says
    assert environment.threads("16", 64, 8).level == "warning"
    assert environment.threads(None, 2, 2).level == environment.threads("8", 64, 8).level == "ok"


@pytest.mark.parametrize("value", [None, "0", "true"])
def test_a_store_that_is_shared_is_warned_of(value):
    """torch compares with "1" alone, in `DynamicRendezvousHandler`."""
    variable = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    found = environment.shared_store({} if value is None else {variable: value})
    assert found.level == "warning" and f"export {variable}=1" in found.says
    assert "--max-restarts" in found.says
    assert environment.shared_store({variable: "1"}).level == "ok"
    assert "restarts" in {finding.name for finding in environment.findings(Options())}


def test_limits_that_are_set():
    """The system's own limit is what is read."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        found = list(environment.findings(environment.Options()))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert seen(found, "open files") == (
        "warning",
        "Only 512 files may be open at once (loader workers end with 'Too many open files'): "
        "ulimit -n 4096.",
    )
    assert environment.locked_memory(8 << 20, []).level == "ok"
    assert environment.locked_memory(8 << 20, ["mlx5_0"]).level == "warning"


def test_slurm_against_torchrun():
    job = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURMD_NODENAME": "n1"}
    assert environment.slurm({}, 4).level == "skipped"
    assert environment.slurm(job, 4).says == "Slurm: job 7, node n1, 1 of 2."
    eight = {**job, "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2"}
    assert "--ntasks-per-node=1" in environment.slurm(eight, 4).says
    assert "4 cores a task" in environment.slurm({**job, "SLURM_CPUS_PER_TASK": "4"}, 1).says
