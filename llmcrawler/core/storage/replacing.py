"""Replaces files as a whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def temporary_of(path: Path) -> Path:
    """Return the path for new content: beside the file, so that one rename puts it in place."""
    target = path.resolve()  # a link stays a link
    return target.with_name(f".{target.name}.tmp")


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content and keep its mode. Raises OSError and leaves it as it was where the disk does not take
    all. Not for two calls at once, which would use one temporary file.
    """
    target, temporary = path.resolve(), temporary_of(path)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def delete_database(path: Path) -> None:
    """Delete an SQLite file and its log, if they are there, so that another one can take its place."""
    # First the database: a log without one is nothing to SQLite, one of another is damage.
    for one in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        one.unlink(missing_ok=True)
