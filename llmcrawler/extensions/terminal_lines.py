"""Logs what a person is to see on the terminal, wherever the log goes."""

from __future__ import annotations

import logging
import os
import sys


def say(logger: logging.Logger, text: str) -> None:
    """Log a text; where the log goes to a file, or has no such lines, write it on the terminal too if there is one."""
    logger.info("%s", text)
    if sys.stderr.isatty() and not any(_shows(handler) for handler in logging.root.handlers):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


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
