"""Values that XML 1.0 can hold, whatever names and characters a page has put into them."""

from __future__ import annotations

import re
from typing import Any, Final

# Names that editions 4 and 5 of XML 1.0 both allow, without a namespace. Those that begin with xml are reserved.
_NAME: Final = re.compile(r"(?!xml)[a-z_]", re.IGNORECASE)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff-]")
# Of characters that UTF-8 can carry. One at a time, as an expression takes a second for megabytes of them.
_NOT_IN_TEXTS: Final = [*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"]


def xml_value(value: Any) -> Any:
    """Return a clean value with the names and texts of elements; of a list each entry will be one."""
    if isinstance(value, dict):
        return {_element_name(name): xml_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [xml_value(one) for one in value]
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    for char in _NOT_IN_TEXTS if isinstance(value, str) else ():
        if char in value:
            value = value.replace(char, "\ufffd")
    return value


def _element_name(name: str) -> str:
    name = _NOT_IN_NAMES.sub("_", name)
    return name if _NAME.match(name) else f"_{name}"
