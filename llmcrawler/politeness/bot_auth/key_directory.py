"""The file of public keys that a signer publishes, and the headers that go with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from llmcrawler.politeness.bot_auth.bot_key import BotKey, signature_fields

DIRECTORY_NAME: Final = "http-message-signatures-directory"
WELL_KNOWN_PATH: Final = f"/.well-known/{DIRECTORY_NAME}"
_DAY_SECONDS: Final = 86_400


def directory_of(keys: Iterable[BotKey]) -> bytes:
    """Return the keys' public parts as a JSON Web Key Set (RFC 7517), a line."""
    return json.dumps({"keys": [key.public_jwk for key in keys]}, separators=(",", ":")).encode() + b"\n"


def directory_headers(keys: Sequence[BotKey], authority: str, *, created: int, days: int) -> dict[str, str]:
    """Return the headers of the answer that has the directory. By their signatures, one of each key, the holder of the
    keys says that `authority` publishes this file, for so many days; Cloudflare asks for them.
    """
    digest = f"sha-256=:{base64.b64encode(sha256(directory_of(keys)).digest()).decode()}:"
    covered = {'"@authority";req': authority, '"content-digest"': digest}
    signed = [
        signature_fields(
            key,
            f"sig{at}",
            covered,
            created=created,
            expires=created + days * _DAY_SECONDS,
            tag=DIRECTORY_NAME,
        )
        for at, key in enumerate(keys, 1)
    ]
    return {
        "Content-Type": f"application/{DIRECTORY_NAME}+json",
        "Cache-Control": f"max-age={_DAY_SECONDS}",
        "Content-Digest": digest,
        **{name: ", ".join(fields[name] for fields in signed) for name in ("Signature-Input", "Signature")},
    }
