"""The API of S3 on loopback: moto's server, with one bucket. It keeps all in memory.

with S3Server() as server: ... server.place("campaign"), with server.environment in that of who goes there
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final, Self
from urllib.request import Request, urlopen

BUCKET: Final = "bucket"
# Nothing of the machine's own: keys, settings, or where a cloud would say who it is.
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "of-tests",
    "AWS_SECRET_ACCESS_KEY": "of-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}


class S3Server:
    """In a process of its own: pyarrow may wait for an answer while no other thread of its process can run."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def place(self, path: str, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{path}?endpoint_override=http://127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def __enter__(self) -> Self:
        parts = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            parts, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.communicate()


def main() -> None:
    """Serve until the standard input ends."""
    from moto.server import ThreadedMotoServer  # not where tests only look whether it is there

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _host, port = server.get_host_and_port()
    urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")).close()
    print(port, flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main()
