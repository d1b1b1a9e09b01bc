"""A name service of our own in each Python process that has this folder in PYTHONPATH: *.public.example is out there,
*.inside.example is here.
"""

import socket
from typing import Any

_known = socket.getaddrinfo


def _address(host: Any) -> Any:
    host = host.decode() if isinstance(host, bytes) else host
    if host.endswith("public.example"):
        return "93.184.216.34"
    return "127.0.0.1" if host.endswith("inside.example") else host


def _looked_up(host: Any, *given: Any, **named: Any) -> Any:
    return _known(_address(host), *given, **named)


setattr(socket, "getaddrinfo", _looked_up)  # noqa: B010 (it is typed as the function that it replaces)
setattr(socket, "gethostbyname", _address)  # noqa: B010
