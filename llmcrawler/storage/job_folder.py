"""A job's folder (JOBDIR): the names of its files, and its lock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from llmcrawler.errors import ConfigError, JobBusy

JOB_FILE: Final = "crawl.sqlite"
LOCK_FILE: Final = "crawl.lock"

_PATIENCE_SECONDS = 0.3  # is_locked holds the lock for a moment


def lock_folder(folder: Path, cure: str = "wait for its end, or name another") -> FileLock:
    """Lock the folder until the lock is released. Raises JobBusy where another crawl holds it."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=_PATIENCE_SECONDS)
    except Timeout:
        raise JobBusy(f"JOBDIR={folder}: another crawl is running in it; {cure}") from None
    except OSError as error:
        raise ConfigError(f"JOBDIR={folder} cannot be written: {error.strerror or error}") from error
    return lock


def is_locked(folder: Path) -> bool | None:
    """Tell whether a crawl has the folder now; None where the lock is another user's and cannot be read."""
    if not (folder / LOCK_FILE).exists():
        return False
    try:
        with FileLock(folder / LOCK_FILE, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return None
