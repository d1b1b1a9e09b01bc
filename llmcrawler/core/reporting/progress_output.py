"""Shows texts that replace each other: under a notebook's cell, else as lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def progress_output(asked: bool | Callable[[str], None]) -> Callable[[str], None]:
    """Return what shows a text: the function that was given, or one for the place where this process runs."""
    if callable(asked):
        return asked
    if not asked:
        return lambda _text: None
    return _Cell() if _is_in_notebook() else _print


def _is_in_notebook() -> bool:
    """Tell whether a kernel of Jupyter runs this; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class _Cell:
    """One output under the cell that runs, whose text is replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, text: str) -> None:
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
