"""Who may import whom: rooms stand on floors, and nothing goes in a circle.

Imports are read from the source, those in functions and under ``if TYPE_CHECKING:`` included.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "rankbook"

# each room, and the rooms that it may use; all of them stand on core. Of a room with rooms in it,
# what lies in none of these stands above them, or holds nothing but a docstring
FLOORS: dict[str, set[str]] = {
    "core": set(),
    "comm": set(),
    "data": set(),
    "models.experts": {"comm"},
    "models": {"data", "models.experts"},
    "parallel.replicas": set(),
    "parallel.pipeline": {"models", "parallel.replicas"},
    "parallel.context": {"comm"},
    "parallel.mesh": {
        "comm",
        "models",
        "models.experts",
        "parallel.context",
        "parallel.pipeline",
        "parallel.replicas",
    },
    "parallel.joining": set(),
    "parallel.sync": {"comm"},
    "parallel.trials": {"models", "parallel.mesh", "parallel.pipeline", "parallel.replicas"},
    "parallel": set(),
    "training.checkpoint": set(),
    "training.elastic": {"data"},
    "training": {"data", "models", "parallel.mesh", "parallel.pipeline", "parallel.replicas"},
    "predict.cost_model": {"comm", "parallel.pipeline"},
    "predict.memory": {"models", "parallel.mesh"},
    "predict.plan": {
        "comm",
        "models",
        "parallel.mesh",
        "parallel.pipeline",
        "predict.cost_model",
        "predict.memory",
    },
    "predict": set(),
    "speed": {"comm", "data", "models", "predict.memory"},
    "prove": set(),
    "autopsy": set(),
    "symptoms": set(),
    "doctor": {"comm", "data", "parallel.mesh", "predict.cost_model"},
    "live": {"autopsy", "symptoms"},
    "programs": {
        "autopsy",
        "comm",
        "data",
        "models",
        "parallel.joining",
        "parallel.mesh",
        "parallel.pipeline",
        "parallel.sync",
        "parallel.trials",
        "symptoms",
        "training",
        "training.checkpoint",
        "training.elastic",
    },
    "testbed": {"live", "programs", "training.checkpoint", "training.elastic"},
    "magics": {"live", "testbed"},
}
GIVEN_ON = {"rankbook", "rankbook.__main__"}  # the package itself and its command give all on


def module_name(path: Path) -> str:
    """``rankbook.live.ranks`` for its ``__init__.py``, and so on."""
    parts = ("rankbook", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(path: Path, lazy: bool = True) -> set[str]:
    """The modules of the package that a file imports; without `lazy`, not what it only promises.

    A lazy package promises names under ``if TYPE_CHECKING:``: it gives them on, when asked.
    """
    tree = ast.parse(path.read_text("utf-8"))
    if not lazy:
        tree.body = [part for part in tree.body if not _promises(part)]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in whole}
    return {name for name in found if name in MODULES}


def _promises(part: ast.stmt) -> bool:
    return isinstance(part, ast.If) and getattr(part.test, "id", "") == "TYPE_CHECKING"


def room(module: str) -> str:
    """The innermost room of FLOORS that a module lies in; its first folder, where that has none."""
    _, *folders = module.split(".")
    inner = (".".join(folders[:depth]) for depth in range(len(folders), 0, -1))
    return next((name for name in inner if name in FLOORS), folders[0])


INSIDE = {name: path for name, path in MODULES.items() if name not in GIVEN_ON}


def test_every_room_has_its_floor():
    assert {room(name) for name in INSIDE} == set(FLOORS)


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_a_room_uses_only_what_it_stands_on(name):
    may = FLOORS[name] | {"core", name}
    wrong = [
        f"{module} imports {other}"
        for module, path in INSIDE.items()
        if room(module) == name
        for other in sorted(imported(path) - GIVEN_ON)
        if room(other) not in may
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_inside_imports_the_whole_package():
    wrong = [name for name, path in INSIDE.items() if imported(path) & GIVEN_ON]
    # what a program hands over is the one name that the package itself gives
    assert not wrong, wrong


def circles(uses: dict[str, set[str]]) -> list[list[str]]:
    """The groups that reach each other, of more than one."""
    reach = {name: set(others) for name, others in uses.items()}
    changed = True
    while changed:
        changed = False
        for others in reach.values():
            more = set().union(*(reach[other] for other in others)) - others if others else set()
            others |= more
            changed |= bool(more)
    rings = {frozenset(o for o in reach[n] if n in reach[o]) for n in reach if n in reach[n]}
    return sorted(sorted(ring) for ring in rings)


def test_no_circle_of_files():
    uses = {name: imported(path, lazy=False) - {name} for name, path in INSIDE.items()}
    assert not circles({name: others & INSIDE.keys() for name, others in uses.items()})


def test_no_circle_of_rooms():
    uses = {name: set() for name in FLOORS}
    for module, path in INSIDE.items():
        uses[room(module)] |= {room(o) for o in imported(path) - GIVEN_ON} - {room(module)}
    assert not circles(uses)


def test_a_circle_would_be_found():
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert circles(ring) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_programs_load_nothing_of_the_notebooks():
    """Not by way of another library of the house either, as far as the source tells."""
    uses = {name: imported(path) - GIVEN_ON for name, path in INSIDE.items()}
    todo = [name for name in INSIDE if room(name) == "programs"]
    seen = set(todo)
    while todo:
        todo += (new := uses[todo.pop()] - seen)
        seen |= new
    assert not {name for name in seen if room(name) in {"live", "magics", "testbed"}}


@pytest.mark.parametrize(("package", "forbidden"), [("plots", "rankbook"), ("originals", "plots")])
def test_what_only_pages_use_stands_apart(package, forbidden):
    """Drawing knows `core` alone; the originals' programs draw nothing."""
    wrong = re.compile(rf"^\s*(?:from|import) {forbidden}\b(?!\.core\b)", re.MULTILINE)
    paths = (PACKAGE.parent / package).rglob("*.py")
    assert not [path.name for path in paths if wrong.search(path.read_text("utf-8"))]


def test_the_library_does_without_what_only_pages_use():
    alone = re.compile(r"^\s*(?:from|import) (?:plots|originals)\b", re.MULTILINE)
    assert not [name for name, path in MODULES.items() if alone.search(path.read_text("utf-8"))]
