"""Count what a reader of the code has to find their way through: files, lines, and imports across packages.

`python tools/count_code.py` prints one line per package and a total; `--imports` lists the imports that reach past a
package's `__init__` into one of its files.
"""

from __future__ import annotations

import argparse
import ast
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src"
ROOT = "rolltrace"
SMALL_LINES = 60
ANSWERS = "rolltrace.query.model."
"""The types of answers are files that others import: loading all of them would cost every reader."""


class CrossImport(NamedTuple):
    """One `import` or `from ... import` of one package in another."""

    file: str
    line: int
    importer: str
    target: str
    past_init: bool


class PackageCount(NamedTuple):
    files: int
    lines: int
    small: int
    imports: int
    past_init: int


def package_of(module: str) -> str:
    """The folder below the root that a module is in; a file directly below the root is its own package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def is_module(dotted: str) -> bool:
    path = SOURCE.joinpath(*dotted.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@lru_cache
def names_of(package: str) -> frozenset[str]:
    """What a package exports: its `__all__`."""
    path = SOURCE.joinpath(*package.split("."), "__init__.py")
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def imported_modules(path: Path, module: str) -> list[tuple[int, str]]:
    """Each module that a file imports, with its line."""
    targets: set[tuple[int, str]] = set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                targets.add((node.lineno, alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            exported = names_of(base)
            for name in sorted({alias.name for alias in node.names}):
                # `from package import file` imports the file, unless the package says that it is one of its names.
                imports_file = is_module(f"{base}.{name}") and name not in exported
                targets.add((node.lineno, f"{base}.{name}" if imports_file else base))
    return sorted(targets)


def cross_imports() -> list[CrossImport]:
    imports = []
    for path in sorted((SOURCE / ROOT).rglob("*.py")):
        module = module_name(path)
        for line, target in imported_modules(path, module):
            if target != ROOT and not target.startswith(f"{ROOT}."):
                continue
            importer, imported = package_of(module), package_of(target)
            if imported and importer != imported and (SOURCE / ROOT / imported).is_dir():
                past_init = target.count(".") > 1 and not target.startswith(ANSWERS)
                imports.append(CrossImport(str(path.relative_to(SOURCE.parent)), line, importer, target, past_init))
    return imports


def module_name(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def count() -> dict[str, PackageCount]:
    imports = cross_imports()
    counts: dict[str, PackageCount] = {}
    for path in sorted((SOURCE / ROOT).rglob("*.py")):
        package = package_of(module_name(path)) if path.parent != SOURCE / ROOT else "(files)"
        lines = len(path.read_text().splitlines())
        before = counts.get(package, PackageCount(0, 0, 0, 0, 0))
        counts[package] = before._replace(
            files=before.files + 1, lines=before.lines + lines, small=before.small + (lines < SMALL_LINES)
        )
    for each in imports:
        package = each.importer if each.importer in counts else "(files)"
        counts[package] = counts[package]._replace(
            imports=counts[package].imports + 1, past_init=counts[package].past_init + each.past_init
        )
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--imports", action="store_true", help="list the imports that go past a package's __init__")
    if parser.parse_args().imports:
        for each in cross_imports():
            if each.past_init:
                print(f"{each.file}:{each.line}: {each.target}")
        return
    counts = count()
    row = "{:14} {:>6} {:>7} {:>6} {:>8} {:>10}"
    print(row.format("package", "files", "lines", f"<{SMALL_LINES}", "imports", "past init"))
    for package, numbers in sorted(counts.items()):
        print(row.format(package, *numbers))
    print(row.format("total", *(sum(column) for column in zip(*counts.values()))))


if __name__ == "__main__":
    main()
