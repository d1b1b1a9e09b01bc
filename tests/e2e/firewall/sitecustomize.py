"""Stands for a firewall in each Python process that has this folder in PYTHONPATH: all but loopback is refused,
and leaves a line in the file that FIREWALL_LOG names.

Python's own sockets and look-ups are seen. uvloop and the browser have sockets of their own.
"""

import errno
import ipaddress
import os
import sys
from typing import Any

_ADDRESSES = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_LOOK_UPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}


def _is_here(host: Any) -> bool:
    text = host.decode() if isinstance(host, bytes) else str(host)
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _ADDRESSES:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # else it is a file's path, or known already
    elif event in _LOOK_UPS:
        host = arguments[0]
    else:
        return
    if host is None or _is_here(host):
        return
    with open(os.environ["FIREWALL_LOG"], "a") as log:  # noqa: PTH123 (pathlib costs each process its import)
        log.write(f"{event} {host}\n")
    raise OSError(errno.ENETUNREACH, f"the test's firewall refuses {host}")


sys.addaudithook(_refuse)
