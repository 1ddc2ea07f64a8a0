"""What pyproject.toml promises: every library that the source imports, and a page for an index."""

import ast
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.wheel.environment import ROOT

PACKAGE = ROOT / "src" / "rankbook"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# what is imported under another name than it is installed by
CALLED = {"zmq": "pyzmq", "IPython": "ipython", "etcd": "python-etcd"}
# brought by the library that it belongs to
BROUGHT = {"pyarrow": "datasets", "huggingface_hub": "transformers"}
# what a page's other half needs: it runs where somebody has it, and says so where nobody does
ELSEWHERE = {"programs": {"monarch"}}
# folders whose every import the plain installation has to satisfy
PLAIN = {
    "autopsy",
    "checkpoint",
    "context",
    "core",
    "doctor",
    "experts",
    "live",
    "magics",
    "memory",
    "mesh",
    "models",
    "parallel",
    "plan",
    "prove",
    "symptoms",
    "sync",
}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", requirement)[0].rstrip("<>=~!") for requirement in requirements}


BASE = names(PROJECT["dependencies"])
EXTRAS = PROJECT["optional-dependencies"].values()
EVERY = [*PROJECT["dependencies"], *(line for extra in EXTRAS for line in extra)]
EXTRA = set().union(*map(names, EXTRAS))


def imports(path) -> set[str]:
    """The libraries that a file imports, those under TYPE_CHECKING and in functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    found -= {"rankbook", "_typeshed", *sys.stdlib_module_names}
    return {CALLED.get(name, BROUGHT.get(name, name)) for name in found}


@pytest.mark.parametrize("room", sorted(p.name for p in PACKAGE.iterdir() if p.is_dir()))
def test_what_a_folder_imports_is_a_dependency(room):
    may = (BASE if room in PLAIN else BASE | EXTRA) | ELSEWHERE.get(room, set())
    wrong = {path.name: imports(path) - may for path in (PACKAGE / room).rglob("*.py")}
    assert not {name: lacking for name, lacking in wrong.items() if lacking}


def test_every_requirement_has_a_lower_bound_and_torch_no_upper_one():
    assert [requirement for requirement in EVERY if ">=" not in requirement] == []
    (torch,) = [requirement for requirement in EVERY if requirement.startswith("torch>")]
    assert re.fullmatch(r"torch>=[\d.]+", torch)


def test_what_is_tested_is_within_the_bounds():
    """requirements.txt and constraints.txt name a version of every dependency that is allowed."""
    lines = [
        line.split("#")[0].split(";")[0].strip()
        for name in ("requirements.txt", "constraints.txt")
        for line in (ROOT / name).read_text("utf-8").splitlines()
    ]
    pins = dict(line.split("==") for line in lines if "==" in line)
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    for requirement in map(Requirement, EVERY):
        assert pins[requirement.name.lower().replace("_", "-")] in requirement.specifier


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_a_page_of_the_package_has_no_address_that_only_the_checkout_knows(name):
    text = (PACKAGE / name).read_text("utf-8")
    targets = re.findall(r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"", text)
    wrong = [a or b for a, b in targets if not (a or b).startswith(("https://", "#"))]
    assert not wrong, f"{name} is shown on a package index, where these lead nowhere: {wrong}"
