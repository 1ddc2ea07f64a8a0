"""The wheel in an environment that never saw the checkout: the magics, the commands, the types."""

import json
import re

import pytest

from tests.live.report import raised
from tests.waiting import SOON
from tests.wheel.environment import ROOT

PROGRAM = """%%torchrun --nproc-per-node 2
import torch, torch.distributed as dist, rankbook
dist.init_process_group("gloo")
total = torch.ones(2).numpy().sum() + dist.get_rank()
rankbook.publish(total=float(total), where=rankbook.__file__)
dist.barrier()  # nobody leaves while another still connects
dist.destroy_process_group()"""


def test_pip_leaves_the_torch_that_is_there(box):
    installed = box.said.splitlines()[-1]
    assert "rankbook" in installed and "ipykernel" in installed
    assert " torch" not in installed, installed
    assert (box.packages / "torch").is_symlink()


def test_nothing_leads_to_the_checkout(box):
    code = "import sys, rankbook; print(*sys.path, rankbook.__file__, sep='\\n')"
    seen = box.run("python", "-c", code)
    assert str(ROOT / "src") not in seen
    assert seen.splitlines()[-1].startswith(str(box.folder))


def test_the_package_loads_neither_torch_nor_ipython(box):
    code = "import rankbook, sys; print({'torch', 'IPython', 'numpy'} & sys.modules.keys() or None)"
    assert box.run("python", "-c", code) == "None\n"


def test_it_brings_its_types_and_its_tables(box):
    package = box.packages / "rankbook"
    assert (package / "py.typed").is_file()
    inside = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}
    source = ROOT / "src" / "rankbook"
    ours = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    lacking = {path for path in ours - inside if path.suffix not in (".md", ".pyc")}
    assert not lacking


def test_the_commands(box):
    version = box.run("python", "-c", "import rankbook; print(rankbook.__version__)")
    assert box.run("rankbook", "--version") == f"rankbook {version}"
    assert "usage: rankbook autopsy" in box.run("rankbook", "autopsy", "--help")


def test_the_doctor(box):
    words = ["doctor", "--json", "--seconds", f"{SOON:.0f}"]  # its own minute may be a busy one
    said = json.loads(box.run("rankbook", *words, status=None))
    assert any(finding["says"].startswith("torch ") for finding in said["findings"]), said


def test_a_step_beside_one_process_as_the_readme_has_it(box):
    """Without the extras, without a package that only the book needs."""
    readme = (ROOT / "src" / "rankbook" / "README.md").read_text("utf-8")
    section = readme.split("## Before a long run", 1)[1].split("\n## ", 1)[0]
    program, said = re.findall("```(?:python|text)\n(.*?)```", section, re.DOTALL)
    assert program.startswith("%%torchrun --nproc-per-node 2\n")
    program, said = program.split("\n", 1)[1], said.replace("[0] ", "")  # here without the magic
    divided = program.replace(
        "        dist.all_reduce(parameter.grad)\n",
        "        dist.all_reduce(parameter.grad)\n"
        "        parameter.grad /= dist.get_world_size()\n",
    )
    assert divided != program
    right = "right: loss, 2 gradients, 2 parameters after a step; largest difference "
    for text, expected in ((program, said), (divided, right)):
        (box.work / "proof.py").write_text(text)
        words = "-m torch.distributed.run --nproc-per-node 2 proof.py"
        assert expected in box.run("python", *words.split())
    for extra in ("matplotlib", "datasets", "transformers"):
        assert not (box.packages / extra).exists()


def test_the_magics(box, kernel):
    notebook = kernel(box)
    assert not notebook.run("%load_ext rankbook").error
    assert not notebook.run("%ranks start -n 2").error
    cell = "%%ranks\nt = torch.ones(2) * rank; dist.all_reduce(t); print(t.numpy())"
    assert notebook.run(cell).text == "[0-1] [1. 1.]\n"
    error = notebook.run("%%ranks\nif rank == 1: raise ValueError('here')\ndist.barrier()").error
    assert raised(1, "ValueError: here") in error
    assert "barrier" in error
    result = notebook.run(PROGRAM)
    assert not result.error, result.error
    assert notebook.run("_.ranks[1].total").text == "3.0\n"
    assert str(box.folder) in notebook.run("__.where").text
    assert not notebook.run("%ranks stop").error
    assert not notebook.run("exit()").error
    assert notebook.wait_gone() == []


@pytest.mark.parametrize("name", ["torch", "psutil"])
def test_a_kernel_without_a_package_says_which(less, kernel, name):
    notebook = kernel(less(name))
    for cell, begins in {
        "%load_ext rankbook": "%load_ext rankbook",
        "%ranks start -n 2": "%ranks",
        "%%ranks\nx = 1": "%ranks",
        "%%torchrun\nx = 1": "%torchrun",
    }.items():
        (sentence,) = notebook.run(cell).error.splitlines()
        assert sentence.startswith(f"UsageError: {begins}: ")
        what_to_do = f"%pip install {name}, then %load_ext rankbook again"
        assert sentence.endswith(f" has no {name}; {what_to_do}")
    assert notebook.wait_gone() == []


def test_ipython_without_a_kernel_says_what_it_lacks(less):
    box = less("ipykernel", "ipykernel_launcher", "jupyter_client")
    said = box.run("python", "-m", "IPython", "--no-banner", "-c", "%load_ext rankbook", status=1)
    assert "has no ipykernel and jupyter_client; %pip install ipykernel jupyter_client" in said
    assert "Traceback" not in said


def test_python_alone_says_what_it_lacks(less):
    box = less("IPython", "torch")
    code = "import rankbook; rankbook.load_ipython_extension(None)"
    said = box.run("python", "-c", code, status=1)
    assert said.splitlines()[-1].endswith(
        "the magics work in Jupyter and in IPython, and this is Python alone; start "
        "`jupyter lab` or `ipython` (pip install ipython) and load them there"
    )


def test_what_is_installed_meanwhile_is_found(less, box, kernel):
    without = less("psutil")
    notebook = kernel(without)
    assert "has no psutil" in notebook.run("%load_ext rankbook").error
    without.give(box.packages)
    assert notebook.run("%ranks status").text == "No ranks are running.\n"
