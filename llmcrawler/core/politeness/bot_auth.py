"""Web Bot Auth: requests are signed, so that a site can tell this crawler from whoever uses its name.

The form is that of draft-ietf-webbotauth-httpsig-protocol-01 on HTTP Message Signatures (RFC 9421), with Ed25519 keys.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from llmcrawler.core.urls import normalise, origin_of, relative_url
from llmcrawler.errors import ConfigError


class BotKey:
    """An Ed25519 key. Nothing but `pem` tells its private part."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def generate(cls) -> BotKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, text: bytes) -> BotKey:
        """Raises ValueError for what is no such key, or has a password. The error does not tell the text."""
        with suppress(ValueError, TypeError, UnsupportedAlgorithm):
            private = load_pem_private_key(text, None)
            if isinstance(private, Ed25519PrivateKey):
                return cls(private)
        raise ValueError("it is not an Ed25519 private key in PEM without a password")

    @property
    def pem(self) -> bytes:
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @cached_property
    def thumbprint(self) -> str:
        """SHA-256 of the public key's required members (RFC 7638; RFC 8037, appendix A.3): the `keyid`."""
        members = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": self._x}, separators=(",", ":"))
        return _base64url(sha256(members.encode()).digest())

    @property
    def public_jwk(self) -> Mapping[str, str]:
        return {"kty": "OKP", "crv": "Ed25519", "kid": self.thumbprint, "x": self._x, "use": "sig"}

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)

    @property
    def _x(self) -> str:
        return _base64url(self._private.public_key().public_bytes_raw())


def read_key_file(path: Path) -> BotKey:
    """Raises ConfigError, which names the file and the cure; OSError where it cannot be read."""
    mode, text = stat.S_IMODE(path.stat().st_mode), path.read_bytes()
    if mode & 0o077 and os.name == "posix":
        raise ConfigError(f"{path}: other users can read or write it (mode {mode:o}): chmod 600 {path}")
    try:
        return BotKey.from_pem(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}: scrapy keys new FILE makes one") from None


def write_key_file(path: Path, key: BotKey) -> None:
    """Write a file that only its owner can read. Raises FileExistsError where there is one already."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 (it has no mode)
        file.write(key.pem)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def signature_fields(
    key: BotKey, label: str, covered: Mapping[str, str], *, created: int, expires: int, **others: str
) -> dict[str, str]:
    """Return Signature-Input and Signature of `covered` values by component identifiers; `others` are parameters."""
    texts = "".join(f';{name}="{text}"' for name, text in {"keyid": key.thumbprint, **others}.items())
    inputs = f"({' '.join(covered)});created={created};expires={expires}{texts}"
    base = "\n".join(f"{name}: {value}" for name, value in {**covered, '"@signature-params"': inputs}.items())
    signature = base64.b64encode(key.sign(base.encode("ascii"))).decode("ascii")
    return {"Signature-Input": f"{label}={inputs}", "Signature": f"{label}=:{signature}:"}


DIRECTORY_NAME: Final = "http-message-signatures-directory"
WELL_KNOWN_PATH: Final = f"/.well-known/{DIRECTORY_NAME}"
_DAY_SECONDS: Final = 86_400


def directory_of(keys: Iterable[BotKey]) -> bytes:
    """Return the keys' public parts as a JSON Web Key Set (RFC 7517), a line."""
    return json.dumps({"keys": [key.public_jwk for key in keys]}, separators=(",", ":")).encode() + b"\n"


def directory_headers(keys: Sequence[BotKey], authority: str, *, created: int, days: int) -> dict[str, str]:
    """Return the headers of the directory, signed by each key for `authority`, as Cloudflare asks for."""
    digest = f"sha-256=:{base64.b64encode(sha256(directory_of(keys)).digest()).decode()}:"
    covered = {'"@authority";req': authority, '"content-digest"': digest}
    signed = [
        signature_fields(
            key, f"sig{at}", covered, created=created, expires=created + days * _DAY_SECONDS, tag=DIRECTORY_NAME
        )
        for at, key in enumerate(keys, 1)
    ]
    return {
        "Content-Type": f"application/{DIRECTORY_NAME}+json",
        "Cache-Control": f"max-age={_DAY_SECONDS}",
        "Content-Digest": digest,
        **{name: ", ".join(fields[name] for fields in signed) for name in ("Signature-Input", "Signature")},
    }


LIFETIME_SECONDS: Final = 60  # the shorter, the less a signature that is overheard is worth; clocks differ by seconds
_LABEL: Final = "sig1"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RequestSigner:
    """Signs as `agent`, the url of the key; `as_string`: Signature-Agent is a string, as in drafts before 2026."""

    key: BotKey
    agent: str
    as_string: bool = False
    clock: Callable[[], float] = time.time
    nonce: Callable[[], str] = lambda: secrets.token_urlsafe(16)

    def headers(self, method: str, url: str) -> dict[str, str]:
        """Return the headers that a request needs beside its own."""
        agent = f'"{self.agent}"'
        covered = {
            '"@method"': method,
            '"@authority"': authority_of(url),
            '"@path"': urlsplit(url).path or "/",
            '"signature-agent"' if self.as_string else f'"signature-agent";key="{_LABEL}"': agent,
        }
        created = int(self.clock())
        fields = signature_fields(
            self.key,
            _LABEL,
            covered,
            created=created,
            expires=created + LIFETIME_SECONDS,
            alg="ed25519",
            nonce=self.nonce(),
            tag="web-bot-auth",
        )
        return {"Signature-Agent": agent if self.as_string else f"{_LABEL}={agent}", **fields}


def authority_of(url: str) -> str:
    """Return host and port as `@authority` has them (RFC 9421, 2.2.3): lower case, and no port that is the scheme's."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port in (None, _PORTS.get(parts.scheme)) else f"{host}:{parts.port}"


_PEM: Final = "-----BEGIN"


def resolve_signer(key: str, environment_key: str, agent: str, *, as_string: bool = False) -> RequestSigner | None:
    """Return who signs, if anybody. `key` is a path; else `environment_key`, a path or the PEM itself, counts."""
    if _PEM in key:
        raise ConfigError(
            "BOT_AUTH_KEY: the setting must be the path of a key; put the key itself into the environment variable"
            " BOT_AUTH_KEY, where no log shows it"
        )
    where = key or environment_key
    if where and not agent:
        raise ConfigError(
            "BOT_AUTH_KEY: without BOT_AUTH_AGENT nobody can check the signatures: set it to where the public key is"
            f" published, as https://bot.example{WELL_KNOWN_PATH}"
        )
    if not where:
        if agent:
            raise ConfigError(f"BOT_AUTH_AGENT={agent}: there is no BOT_AUTH_KEY: scrapy keys new FILE makes one")
        return None
    return RequestSigner(_read(where), check_agent(agent), as_string)


def check_agent(agent: str) -> str:
    """Return the url of an agent as it is sent: ASCII, and an origin without a slash. Raises ConfigError for none."""
    url = normalise(agent) or ""
    if not url.startswith("https://"):
        raise ConfigError(f"BOT_AUTH_AGENT={agent}: it is an https url, as https://bot.example{WELL_KNOWN_PATH}")
    return origin_of(url) if relative_url(url) == "/" else url


def _read(where: str) -> BotKey:
    try:
        if _PEM in where:
            return BotKey.from_pem(where.replace("\\n", "\n").encode())
        return read_key_file(Path(where).expanduser())
    except OSError as error:  # what is no path may be a key in another form, so it is not shown
        reason = f"its file cannot be read: {error.strerror}: scrapy keys new FILE makes one"
    except (ConfigError, ValueError, RuntimeError) as error:  # RuntimeError: ~ of nobody
        reason = str(error)
    raise ConfigError(f"BOT_AUTH_KEY: {reason}")
