"""File names for urls, good on every file system."""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b
from urllib.parse import unquote

_SLUG_BYTES = 80  # file systems allow 255; paths as a whole have limits too


def file_name(url: str) -> str:
    """The url's words and a hash of all of it: /Shop/lamp?id=1 becomes shop-lamp-id-1-0123456789ab.md.

    The hash tells urls apart that differ only in case, in the query or in what was cut; and with it no name is one that
    Windows reserves (con.md, nul.md) or that the folder's index has.
    """
    digest = blake2b(url.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    slug = _slug(url)
    return f"{slug}-{digest}.md" if slug else f"{digest}.md"


def _slug(url: str) -> str:
    _scheme, _mark, rest = url.partition("://")
    host, _slash, path = (rest or url).partition("/")
    words = unicodedata.normalize("NFC", unquote(path.strip("/") or host).lower())
    # Letters of every script with the marks that belong to them, and digits.
    kept = "".join(char if unicodedata.category(char)[0] in "LMN" else "-" for char in words)
    # The end of a long path says most.
    cut = re.sub("-+", "-", kept).encode("utf-8", "ignore")[-_SLUG_BYTES:].decode("utf-8", "ignore")
    return cut.strip("-")
