"""A job as an earlier release has left it when it was killed: twelve pages of tests/servers/many_pages.py, four of them
done and six on their way. The dump was made of its file, of version 2.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.storage.job_schema import APPLICATION_ID

COUNT = 12
STORED = frozenset({"/", "/list/0/", "/item/0/", "/item/1/"})
URL = "http://127.0.0.1:44069/"

_DUMP = Path(__file__).with_name("job_of_version_2.sql")


def make_old_job(folder: Path, url: str = URL) -> Path:
    """Make the folder of the job, of the site at `url`, and return it."""
    (folder / "job").mkdir(parents=True)
    with closing(sqlite3.connect(folder / "job" / JOB_FILE, isolation_level=None)) as connection:
        connection.executescript(_DUMP.read_text(encoding="utf-8").replace(URL, url))
        # Lines are packed; bodies have no url in them.
        for number, line in connection.execute("SELECT url, line FROM pages").fetchall():
            packed = zlib.compress(zlib.decompress(line).replace(URL.encode(), url.encode()), 1)
            connection.execute("UPDATE pages SET line = ? WHERE url = ?", (packed, number))
        host = url.removeprefix("http://").rstrip("/")
        connection.execute("UPDATE hosts SET name = ?", (host,))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
    return folder / "job"
