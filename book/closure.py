"""Which modules a chapter's code reaches in the library: read from the sources, nothing is run.

Followed are imports wherever they stand, in functions, too; names that a lazy package promises, to
their own modules only; modules that strings name (``-m rankbook.programs.elastic``); scripts beside
a module that it names. What is put together at run time counts as all that it may lead to.
"""

import ast
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from library import ALL, OPAQUE, Library, bindings

IMPORTERS = {"import_module", "__import__", "run_module"}
WRITTEN = ast.Constant | ast.Name | ast.Attribute | ast.Subscript
# an argument's source
SHOWS = {"listing", "loop_diff", "module_diff", "getsource", "getsourcelines", "getdoc"}

RECORDED, ANY = "recorded: ", "*"


class Use(NamedTuple):
    """What a piece of code uses: targets; those whose source it shows; its strings.

    shown is None where what is shown cannot be told. Among the strings is RECORDED with the name
    of each recorded result that is asked for.
    """

    targets: set[str]
    shown: set[str] | None
    strings: set[str]


def closure(library: Library, targets: Iterable[str]) -> dict[str, Use]:
    """All modules that `targets` lead to, and theirs in turn, each with what it uses."""
    done: dict[str, Use] = {}
    whole: set[str] = set()
    waiting = [found for target in targets for found in resolve(library, target)]
    while waiting:
        module, with_functions = waiting.pop()
        if module in whole or (module in done and not with_functions):
            continue
        done[module] = use_of_module(library, module, with_functions)
        whole |= {module} if with_functions else set()
        waiting += [f for target in done[module].targets for f in resolve(library, target)]
    return done


@cache
def resolve(library: Library, target: str) -> list[tuple[str, bool]]:
    """(module, whether its functions count) for all modules that a target leads to.

    Of a package that is only passed through the functions don't count: nobody here calls them.
    """
    found: list[tuple[str, bool]] = []
    base, _, last = target.rpartition(".")
    if last == ALL:
        found += [(name, True) for name in library.below(base)]
    elif last == OPAQUE and base in library.paths:
        found.append((base, True))
        for other in library.source(base).imported.values():
            found += resolve(library, other)
    modules, name = library.way(target)
    for module in modules:
        called = module == modules[-1] and name not in ("", OPAQUE, ALL) and name[:2] != "__"
        found.append((module, called or not library.is_package(module)))
        parents = module.split(".")[:-1]
        found += [(".".join(parents[:n]), False) for n in range(1, len(parents) + 1)]
    return found


@cache
def use_of_module(library: Library, module: str, with_functions: bool = True) -> Use:
    """What a module of the library uses, the scripts beside it that it names among it."""
    nodes = library.source(module).tree.body
    if not with_functions:
        nodes = [node for node in nodes if not isinstance(node, ast.FunctionDef)]
    use = use_of(nodes, library, module)
    folder, package = library.paths[module].parent, library.package_of(module)
    scripts = [name for name in use.strings if name.endswith(".py") and "/" not in name]
    beside = {f"{package}.{name[:-3]}" for name in scripts if (folder / name).is_file()}
    return use._replace(targets=use.targets | beside)


def use_of(nodes: list[ast.stmt], library: Library, module: str = "") -> Use:
    """What the code of `nodes` uses. module: in which it stands, where it stands in one."""
    every = [node for top in nodes for node in ast.walk(top)]
    bound = bindings(every, library, module)
    used = named(every, bound)
    targets = {*bound.values(), *used, *(f"{t}.{OPAQUE}" for t in used & library.paths.keys())}
    strings: set[str] = set()
    shown: list[set[str]] = []
    for node in every:
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(node.value)
            targets |= library.mentions(node.value)
        elif isinstance(node, ast.List | ast.Tuple):
            targets |= started(node.elts)
        elif isinstance(node, ast.Call):
            targets |= started(node.args) | put_together(node, library, module)
            strings |= result_named(node)
            if name_called(node) in SHOWS:
                shown += [named(ast.walk(argument), bound) for argument in node.args]
    everything = set().union(*shown) if all(shown) else None
    return Use({target for target in targets if library.has(target)}, everything, strings)


def named(nodes: Iterable[ast.AST], bound: dict[str, str]) -> set[str]:
    """The targets of ``a`` and ``a.b.c`` among `nodes`, where ``a`` is one of the `bound` names."""
    found, inside = set(), set()
    for node in nodes:  # from the outside in: a chain comes before its parts
        if id(node) in inside:
            continue
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
            inside.add(id(node))
        if isinstance(node, ast.Name) and node.id in bound:
            found.add(".".join([bound[node.id], *names]))
    return found


def started(parts: list[ast.expr]) -> set[str]:
    """The targets of the words ``-m``, ``rankbook`` of a command."""
    words = [part.value if isinstance(part, ast.Constant) else None for part in parts]
    return {f"{b}.__main__" for a, b in pairwise(words) if a == "-m" and isinstance(b, str)}


def name_called(node: ast.Call) -> str:
    """The last name of ``a.b.c(...)``."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def result_named(node: ast.Call) -> set[str]:
    """What ``plots.recorded("join")`` asks for; ANY where that is computed. Not a method's own."""
    receiver = getattr(getattr(node.func, "value", None), "id", "")
    if name_called(node) != "recorded" or receiver == "self":
        return set()
    name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ANY
    return {f"{RECORDED}{name}"}


def put_together(node: ast.Call, library: Library, module: str) -> set[str]:
    """What the import of a computed name may lead to.

    A name that was given was written down elsewhere: it counts there, as a string. So does the
    beginning of ``f"rankbook.doctor.{room}"``.
    """
    if name_called(node) not in IMPORTERS or not node.args or isinstance(node.args[0], WRITTEN):
        return set()
    text = ast.unparse(node)
    if library.names.search(text):
        return set()
    if "__name__" in text or "__package__" in text:
        return {f"{library.package_of(module)}.{ALL}"}
    return {f"{top}.{ALL}" for top in library.tops}
