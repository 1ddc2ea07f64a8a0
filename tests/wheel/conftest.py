"""The wheel, and an environment that has it."""

import json
from contextlib import ExitStack

import pytest

from tests.live.kernel import Notebook
from tests.wheel.environment import Environment, build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The file that would be published."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def box(wheel, tmp_path_factory):
    """An environment with a torch of its own, into which pip has installed the wheel."""
    environment = Environment(tmp_path_factory.mktemp("box"))
    environment.give_installed("torch")
    environment.said = environment.pip_install(wheel)
    return environment


@pytest.fixture
def less(box, tmp_path):
    """Return a function that gives the same environment, but for some packages."""
    return lambda *names: Environment(tmp_path).give(box.packages, without=names)


@pytest.fixture
def kernel(tmp_path):
    """Return a function that gives a notebook whose kernel is an environment's."""
    with ExitStack() as opened:

        def start(environment: Environment) -> Notebook:
            argv = [str(environment.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            spec = {"argv": argv, "display_name": "box", "language": "python"}
            folder = tmp_path / "kernels" / "python3"
            folder.mkdir(parents=True)
            (folder / "kernel.json").write_text(json.dumps(spec))
            hidden = dict.fromkeys(("PYTHONPATH", "VIRTUAL_ENV"), "")
            notebook = Notebook(hidden, str(environment.work), folder.parent)
            return opened.enter_context(notebook)

        yield start
