"""Who may import whom: rooms stand on floors, and nothing goes in a circle.

Imports are read from the source, those in functions and under ``if TYPE_CHECKING:`` included.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "rankbook"

# each room, and the rooms that it may use; all of them stand on core
FLOORS: dict[str, set[str]] = {
    "core": set(),
    "comm": set(),
    "autopsy": set(),
    "symptoms": set(),
    "data": set(),
    "live": {"autopsy", "symptoms"},
    "checkpoint": set(),
    "experts": {"comm"},
    "models": {"data", "experts"},
    "parallel": {"comm", "experts", "models"},
    "context": {"comm", "parallel"},
    "sync": {"comm", "cost_model", "parallel"},
    "mesh": {"comm", "context", "experts", "models", "parallel"},
    "prove": set(),
    "memory": {"mesh", "models", "parallel"},
    "doctor": {"comm", "cost_model", "data", "mesh", "symptoms"},
    "cost_model": {"comm", "mesh", "models", "parallel"},
    "plan": {"comm", "cost_model", "memory", "mesh", "models", "parallel"},
    "elastic": {"checkpoint", "data"},
    "training": {"checkpoint", "data", "mesh", "models", "parallel"},
    "speed": {"comm", "data", "memory", "models"},
    "programs": {
        "autopsy",
        "checkpoint",
        "data",
        "elastic",
        "experts",
        "mesh",
        "models",
        "parallel",
        "speed",
        "symptoms",
        "sync",
        "training",
    },
    "testbed": {"checkpoint", "data", "elastic", "live", "programs"},
    "magics": {"live", "symptoms", "testbed"},
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
    return module.split(".")[1]


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
