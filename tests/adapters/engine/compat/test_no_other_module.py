"""No module but those in PLACES touches what Scrapy, Twisted and scrapy-playwright keep to themselves."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import llmcrawler

# Private names of others that are no part of their machinery: the type of lxml's elements, Python's own.
_BY_COMPAT = {"_abc_impl"}  # set for a subclass by abc
_FOREIGN = {"scrapy", "twisted", "scrapy_playwright", "aiohttp", "playwright", "httpx2"}
PLACES = ("engine/compat.py", "engine/http_downloads.py", "engine/browser/launching.py")
_ALLOWED = {"_Element", "_replace", "_exit", "_current_frames", "_asdict", "_fields"}


def names_defined(tree) -> set[str]:
    """The names of a module's functions, classes, variables, attributes and slots."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Store):
            names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def private_names_used(tree) -> list[tuple[int, str, bool]]:
    """Line and name, and whether it is an attribute of `self` or `cls`."""
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            used.append((node.lineno, node.attr, is_own))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            parts = {*node.module.split("."), *(alias.name for alias in node.names)}
            if node.module.partition(".")[0] not in {"__future__", "llmcrawler"}:
                used += [(node.lineno, part, False) for part in parts if part.startswith("_")]
    return used


@pytest.mark.slow
def test_no_other_module_uses_a_private_name_of_somebody_elses():
    root = Path(llmcrawler.__file__).parent
    defined, used = {}, {}
    for path in sorted(root.rglob("*.py")):
        if path not in {root / place for place in PLACES}:
            tree = ast.parse(path.read_text(encoding="utf-8"))  # all of them kept would be looked through as garbage
            defined[path], used[path] = names_defined(tree), private_names_used(tree)
    anywhere = set().union(*defined.values())
    found = [
        f"{path.relative_to(root)}:{line}: {name}"
        for path, names in used.items()
        for line, name, is_own in names
        if name not in _ALLOWED and name not in (anywhere if is_own else defined[path])
    ]
    assert found == []


def test_no_other_module_overrides_a_private_name_of_somebody_elses():
    found = []
    for module_info in pkgutil.walk_packages(llmcrawler.__path__, "llmcrawler."):
        if module_info.name in {f"llmcrawler.{place[:-3]}".replace("/", ".") for place in PLACES}:
            continue
        module = importlib.import_module(module_info.name)
        for cls in vars(module).values():
            if not isinstance(cls, type) or cls.__module__ != module.__name__:
                continue
            foreign = [base for base in cls.__mro__ if base.__module__.partition(".")[0] in _FOREIGN]
            private = {name for base in foreign for name in vars(base) if name[0] == "_" and name[:2] != "__"}
            names = sorted(private & vars(cls).keys() - _BY_COMPAT)
            found += [f"{cls.__module__}.{cls.__name__}.{name}" for name in names]
    assert found == []
