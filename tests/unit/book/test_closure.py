"""What code reaches: by imports, by names of lazy packages, by modules that strings name."""

from pathlib import Path
from textwrap import dedent

import pytest
from cells import use_of_cells
from closure import closure
from library import Library

ROOT = Path(__file__).resolve().parents[3]
LAZY = """
from typing import TYPE_CHECKING
from lib.core.lazy import attach
if TYPE_CHECKING:
    from lib.parallel.pipeline import Pipeline
    from lib.parallel.ring import all_reduce
__getattr__, __dir__ = attach(__name__, __file__)
"""
FILES = {
    "__init__.py": "def load_ipython_extension(ip):\n    from lib.magics.ranks import load",
    "core/__init__.py": "",
    "core/lazy.py": "import importlib\ndef attach(p, f): return importlib.import_module(f), p",
    "parallel/__init__.py": LAZY,
    "parallel/pipeline.py": "from lib.parallel.stages import cut\nclass Pipeline: ...",
    "parallel/stages.py": "def cut():\n    from lib.data import read",
    "parallel/ring.py": "from lib.parallel import Pipeline as Line",
    "data/__init__.py": "from lib.data.lines import read",
    "data/lines.py": "import torch",
    "live/__init__.py": "",
    "live/agent.py": 'WORKER = "worker.py"',
    "live/worker.py": "",
    "magics/__init__.py": "",
    "magics/ranks.py": "from lib.live import agent",
    "magics/cluster.py": "",
    "kinds/__init__.py": """
import importlib
def get(name): return importlib.import_module(f"{__name__}.{name}")
""",
    "kinds/one.py": "",
    "programs/__init__.py": "",
    "programs/train/__init__.py": "from .run import main",
    "programs/train/run.py": "from ..other import x",
    "programs/train/__main__.py": "from lib.data import lines",
    "programs/other.py": "",
    "rooms/__init__.py": """
import importlib
ROOMS = [importlib.import_module(f"lib.rooms.{name}") for name in "ab"]
""",
    "rooms/a.py": "",
    "anything.py": "import importlib\ndef get(a, b):\n    return importlib.import_module(a + b)",
    "started.py": "import sys\nCOMMAND = [sys.executable, '-m', 'lib', 'doctor']",
    "__main__.py": "",
}


@pytest.fixture
def library(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Library(tmp_path)


def reached(library, *sources: str) -> set[str]:
    """The modules that a chapter with these cells reaches, but for the packages above them."""
    found = closure(library, use_of_cells([dedent(s) for s in sources], library).targets)
    return {name.removeprefix("lib.") for name in found if not library.is_package(name)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch", set()),
        ("from lib.parallel import stages", {"parallel.stages", "data.lines"}),
        ("from lib.parallel.ring import all_reduce", {"parallel.ring", "parallel.pipeline"}),
        ("import lib.data.lines as lines", {"data.lines"}),
        ("def f():\n    import lib.data.lines", {"data.lines"}),
        ("from lib.parallel import Pipeline", {"parallel.pipeline", "parallel.stages"}),
        ("import lib.parallel\nlib.parallel.Pipeline()", {"parallel.pipeline"}),
        ("from lib import parallel\nparallel.all_reduce(1)", {"parallel.ring"}),
        ("from lib import parallel\nuse(parallel)", {"parallel.ring", "parallel.pipeline"}),
        ("%%ranks 0,2\nfrom lib.data import read", {"data.lines", "live.worker", "magics.ranks"}),
        ("%%writefile {here}/x.py\nfrom lib.data import read", {"data.lines"}),
        ("x = %ranks get x\nfrom lib.data import read", {"data.lines", "live.agent"}),
        ("%load_ext lib", {"magics.ranks", "live.agent", "live.worker"}),
        ("%load_ext lib.magics.cluster", {"magics.cluster"}),
        ("%%cluster --on n1\ntorchrun -m lib.programs.train || exit", {"programs.train.__main__"}),
        ("%%cluster\ncat > x <<E\nfrom lib.data import read\nE\nfor", {"data.lines"}),
        ("run('python -m lib.programs.train')", {"programs.train.run", "programs.train.__main__"}),
        ("cell = 'from lib.programs import train\\ntrain.main()'", {"programs.other"}),
        ("from lib import kinds\nkinds.get('one')", {"kinds.one"}),
        ("from lib import rooms", {"rooms.a"}),
        ("import lib.started", {"started", "__main__"}),
    ],
)
def test_reaches(library, source, expected):
    found = reached(library, source)
    assert expected <= found or (not expected and not found)


@pytest.mark.parametrize(
    ("source", "unexpected"),
    [
        ("from lib.parallel import Pipeline", {"parallel.ring", "live.agent", "magics.ranks"}),
        ("from lib import parallel\nparallel.all_reduce", {"kinds.one", "rooms.a"}),
        ("from lib.data import read", {"parallel.ring", "magics.ranks"}),
        ("%%ranks\nprint(1)", {"magics.cluster", "data.lines"}),
        ("from lib import kinds", {"rooms.a"}),
    ],
)
def test_does_not_reach(library, source, unexpected):
    assert not unexpected & reached(library, source)


def test_one_cell_uses_what_another_imported(library):
    assert "parallel.ring" in reached(library, "from lib import parallel", "parallel.all_reduce(1)")


def test_a_name_put_together_out_of_sight_may_be_any(library):
    everything = {
        name.removeprefix("lib.") for name in library.paths if not library.is_package(name)
    }
    assert reached(library, "import lib.anything") == everything
    assert reached(library, "import importlib\nimportlib.import_module('li' + 'b')") == everything


def test_what_is_shown(library):
    source = "plots.listing(Pipeline.step, ring)\ninspect.getsource(type(read()))"
    known = "from lib.parallel import Pipeline, ring\nfrom lib.data import read\n"
    assert use_of_cells([known + source], library).shown == {
        "lib.parallel.Pipeline.step",
        "lib.parallel.ring",
        "lib.data.read",
    }
    assert library.way("lib.data.read")[0][-1] == "lib.data.lines"
    assert use_of_cells(["plots.listing(who_knows)"], library).shown is None


def test_names_of_the_books_own_packages_lead_to_modules():
    library = Library(ROOT / "src")
    assert (
        library.way("rankbook.parallel.pipeline.Pipeline")[0][-1]
        == "rankbook.parallel.pipeline.pipeline"
    )
    found = closure(library, ["rankbook.parallel.pipeline.Pipeline"])
    assert (
        "rankbook.comm.all_reduce.ring" not in found and "rankbook.parallel.pipeline.plan" in found
    )


def test_functions_that_show_source_are_known():
    """Who shows source in the library is on the list of those whose arguments count as text."""
    from closure import SHOWS

    assert {"listing", "loop_diff", "module_diff"} <= SHOWS
    others = [
        name
        for name, path in Library(ROOT / "src").paths.items()
        if "getsource" in path.read_text("utf-8")
    ]
    assert sorted(others) == ["plots.code", "plots.diffs"]
