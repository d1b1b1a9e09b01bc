"""Opens archives on this machine and elsewhere."""

from __future__ import annotations

from functools import lru_cache
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, cast

from llmcrawler.errors import ConfigError


def open_archive(file: str) -> BinaryIO:
    """Open a file for reading anywhere in it, by its path or by a url that pyarrow knows: s3://, gs://, hdfs://.
    Raises OSError.
    """
    if "://" not in file:
        return Path(file).open("rb")
    scheme, _, rest = file.partition("://")
    place, _, path = rest.partition("/")
    try:
        system, root = _file_system(scheme, place)
        return cast(BinaryIO, system.open_input_file(f"{root}/{path}"))
    except (ValueError, NotImplementedError) as error:  # pyarrow's own for a url that it does not know
        raise OSError(str(error)) from error


def archive_files(given: str) -> list[str]:
    """Return the files that an argument names: paths and urls with commas between them, and patterns as *.warc.gz.
    Raises ConfigError where one of them cannot be read.
    """
    files: list[str] = []
    for name in filter(None, map(str.strip, given.split(","))):
        is_pattern = "://" not in name and has_magic(name) and not Path(name).exists()
        found = sorted(glob(name)) if is_pattern else [name]  # noqa: PTH207 - Path.glob takes no absolute pattern
        if not found:
            raise ConfigError(f"{name}: no such files")
        files += found
    for file in files:
        try:
            open_archive(file).close()
        except OSError as error:
            raise ConfigError(f"{file}: it cannot be read: {error.strerror or error}") from error
        except ImportError as error:
            raise ConfigError(f"{file}: archives elsewhere are read with pyarrow: pip install pyarrow") from error
    return files


@lru_cache(maxsize=16)
def _file_system(scheme: str, place: str) -> tuple[Any, str]:
    from pyarrow import fs  # noqa: PLC0415 - only those who read archives elsewhere have it

    system, root = fs.FileSystem.from_uri(f"{scheme}://{place}/")
    return system, root.rstrip("/")
