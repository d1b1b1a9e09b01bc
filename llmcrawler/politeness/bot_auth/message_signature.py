"""The signature of one HTTP message (RFC 9421, sections 2.5 and 4)."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from llmcrawler.politeness.bot_auth.bot_key import BotKey


def signature_fields(
    key: BotKey, label: str, covered: Mapping[str, str], *, created: int, expires: int, **others: str
) -> dict[str, str]:
    """Return Signature-Input and Signature. `covered` has the values of components by their identifiers, such as
    `"@method"` with its quotes; `others` are further parameters. All is ASCII that needs no escape.
    """
    texts = "".join(f';{name}="{text}"' for name, text in {"keyid": key.thumbprint, **others}.items())
    inputs = f"({' '.join(covered)});created={created};expires={expires}{texts}"
    base = "\n".join(f"{name}: {value}" for name, value in {**covered, '"@signature-params"': inputs}.items())
    signature = base64.b64encode(key.sign(base.encode("ascii"))).decode("ascii")
    return {"Signature-Input": f"{label}={inputs}", "Signature": f"{label}=:{signature}:"}
