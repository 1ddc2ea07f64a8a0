"""The library's modules by name, as their sources say: trees, and where a name comes from."""

import ast
import re
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

ALL = "**"  # the last part of a target: the package and all that is below
OPAQUE = "*"  # the last part of a target: every name that the package gives on


class Source(NamedTuple):
    """A module's text, its code without docstrings and comments, the targets it imports."""

    text: str
    tree: ast.Module
    code: str  # of the tree
    imported: dict[str, str]


class Library:
    """The packages and modules below the folder `src`.

    A target is a dotted name that leads to modules: ``rankbook.parallel.pipeline.Pipeline``.
    """

    def __init__(self, src: Path):
        self.paths: dict[str, Path] = {}
        for path in sorted(src.rglob("*.py")):
            parts = path.relative_to(src).with_suffix("").parts
            self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        self.source = cache(self._source)

    def _source(self, module: str) -> Source:
        """What the file of `module` holds; read once."""
        text = self.paths[module].read_text("utf-8")
        tree = ast.parse(text)
        typed = [node for block in tree.body if is_for_types(block) for node in block.body]
        imported = bindings([*tree.body, *typed], self, module)
        tree = Stripped().visit(tree)
        return Source(text, tree, ast.dump(tree), imported)

    @cached_property
    def tops(self) -> list[str]:
        """The packages and modules that are in none."""
        return [name for name in self.paths if "." not in name]

    @cached_property
    def names(self) -> re.Pattern:
        """Finds the dotted names of modules in a text; ``rankbook.doctor.`` may begin one."""
        tops = "|".join(self.tops) or "(?!)"
        return re.compile(rf"(?<![\w/.-])(?:{tops})\b(?![/-])(?:\.\w+)*(?:\.$)?")

    @cached_property
    def with_text(self) -> set[str]:
        """Modules whose docstrings may be read: those in a folder where ``__doc__`` is said."""
        texts = {path: path.read_text("utf-8") for path in self.paths.values()}
        folders = {path.parent for path, text in texts.items() if "__doc__" in text}
        return {name for name, path in self.paths.items() if path.parent in folders}

    def has(self, target: str) -> bool:
        """Does the target lead into the library?"""
        return target.partition(".")[0] in self.paths

    def is_package(self, module: str) -> bool:
        return module in self.paths and self.paths[module].name == "__init__.py"

    def package_of(self, module: str) -> str:
        """The package whose folder the module's file is in."""
        return module if self.is_package(module) else module.rpartition(".")[0]

    def below(self, package: str) -> set[str]:
        """`package` and every module in it."""
        return {name for name in self.paths if f"{name}.".startswith(f"{package}.")}

    def way(self, target: str) -> tuple[list[str], str]:
        """The modules that a target leads through to its home, and the name it has there.

        ``rankbook.parallel.pipeline.Pipeline`` leads through the package to the class's module.
        """
        modules: list[str] = []
        while True:
            parts = target.split(".")
            prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
            module = next((prefix for prefix in prefixes if prefix in self.paths), None)
            if module is None or module in modules:
                return modules, ""
            modules.append(module)
            name, _, rest = target.removeprefix(module).lstrip(".").partition(".")
            elsewhere = self.source(module).imported.get(name)
            if elsewhere is None:
                return modules, name
            target = f"{elsewhere}.{rest}" if rest else elsewhere

    def mentions(self, text: str) -> set[str]:
        """The targets that a text names: modules, as ``-m`` takes them, and imports."""
        found = {f"{name}.__main__" for name in re.findall(r"-m ([\w.]+)", text)}
        for name in self.names.findall(text):
            if name.endswith("."):
                found.add(name + ALL)
            elif "." in name:
                found |= {f"{name}.{OPAQUE}", f"{name}.__main__"}
        for module, names in re.findall(r"\bfrom ([\w.]+) import \(?([\w\s,]+)", text):
            for name in re.findall(r"\w+", names):
                found |= {f"{module}.{name}", f"{module}.{name}.{OPAQUE}"}
        return {target for target in found if self.has(target)}


class Stripped(ast.NodeTransformer):
    """Without docstrings, other texts that stand alone, and ``if TYPE_CHECKING:``."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Drop a string that is a statement."""
        alone = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if alone else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Keep only the other branch of ``if TYPE_CHECKING:``."""
        self.generic_visit(node)
        return node.orelse if is_for_types(node) else node


def is_for_types(node: ast.AST) -> bool:
    """Is the statement ``if TYPE_CHECKING:``, whose body never runs?"""
    test = node.test if isinstance(node, ast.If) else None
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def bindings(nodes: list, library: Library, module: str = "") -> dict[str, str]:
    """The target of each name that the imports among `nodes` bind, the library's only.

    module: in which they stand, for relative imports.
    """
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom):
            package = library.package_of(module).split(".")
            parents = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*parents, *filter(None, [node.module])])
            for alias in node.names:
                found[alias.asname or alias.name] = f"{source}.{alias.name}"
    return {name: target for name, target in found.items() if library.has(target)}
