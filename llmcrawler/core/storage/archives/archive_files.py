"""Opens archives on this machine and elsewhere."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast


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


@lru_cache(maxsize=16)
def _file_system(scheme: str, place: str) -> tuple[Any, str]:
    from pyarrow import fs  # noqa: PLC0415 - only those who read archives elsewhere have it

    system, root = fs.FileSystem.from_uri(f"{scheme}://{place}/")
    return system, root.rstrip("/")
