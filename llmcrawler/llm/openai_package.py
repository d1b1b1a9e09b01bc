"""Imports the openai package without those of its type definitions that a chat completion never looks at.

Importing openai runs the packages `openai.types` and `openai.types.responses`, each of which imports some hundred
generated modules: more than half of the half second that the import takes. They are run when one of their names is
looked up, as importlib.util.LazyLoader would do, which runs a package already when one of its modules is imported.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

_RUN_ON_DEMAND: Final = ("openai.types", "openai.types.responses")


class _OnDemand(ModuleType):
    """A package that was found and is not run yet: its modules can be imported, its names are there once looked up."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def import_openai() -> ModuleType:
    """Return the package. What it does not import now it imports as soon as somebody looks for it."""
    found = None if "openai" in sys.modules else find_spec("openai")
    put_off: dict[str, ModuleType] = {}
    for name in _RUN_ON_DEMAND if found is not None else ():
        within, _, own = name.rpartition(".")
        parent = put_off.get(within)
        places = found.submodule_search_locations if parent is None else parent.__path__  # type: ignore[union-attr]
        spec = PathFinder.find_spec(name, places)
        if spec is not None:
            put_off[name] = sys.modules[name] = module_from_spec(spec)
            put_off[name].__class__ = _OnDemand
            if parent is not None:
                setattr(parent, own, put_off[name])  # as the import of a module does, which there will be none of
    return importlib.import_module("openai")
