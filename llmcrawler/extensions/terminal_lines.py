"""Logs what a person is to see on the terminal, wherever the log goes."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

from llmcrawler.core.reporting.text import fold

_MARK: Final = "\0message"


def say(logger: logging.Logger, text: str) -> None:
    """Log a text; where the log goes to a file, or has no such lines, write it on the terminal too if there is one. On
    a terminal a long line is folded between words.
    """
    shown = [handler for handler in logging.root.handlers if _shows(handler)]
    logger.info("%s", _folded(text, _cells_before(logger, shown[0])) if shown else text)
    if sys.stderr.isatty() and not shown:
        sys.stderr.write(f"{_folded(text, 0)}\n")
        sys.stderr.flush()


def _folded(text: str, cells_before: int | None) -> str:
    columns = terminal_columns()
    if columns is None or cells_before is None or "\n" in text:
        return text
    # A word in the place of what stands before the text, which a narrow terminal has folded itself.
    before = "." * (cells_before % columns)
    return "\n".join(fold([before, *text.split()], columns)).removeprefix(before).removeprefix(" ")


def _cells_before(logger: logging.Logger, handler: logging.Handler) -> int | None:
    """Return the length of what a handler writes before a message, without its space; None where it writes the message
    as part of something else.
    """
    line = handler.format(logger.makeRecord(logger.name, logging.INFO, "", 0, _MARK, (), None))
    return len(line.removesuffix(_MARK).rstrip()) if line.endswith(_MARK) else None


def terminal_columns() -> int | None:
    """Return the width of the terminal; None without one."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else None
    except (OSError, ValueError):
        return None


def _shows(handler: logging.Handler) -> bool:
    """A FileHandler is a StreamHandler too, and writes to no terminal."""
    return (
        isinstance(handler, logging.StreamHandler)
        and not isinstance(handler, logging.FileHandler)
        and handler.level <= logging.INFO
        and handler.stream.isatty()
    )
