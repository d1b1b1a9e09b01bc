"""Signs requests, each when it is sent, and reads from the settings in whose name. A ConfigError names the setting, and
never tells a key.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.core.politeness.bot_auth.bot_key import WELL_KNOWN_PATH, BotKey, read_key_file, signature_fields
from llmcrawler.core.urls import normalise, origin_of, relative_url
from llmcrawler.errors import ConfigError

LIFETIME_SECONDS: Final = 60  # the shorter, the less a signature that is overheard is worth; clocks differ by seconds
_LABEL: Final = "sig1"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RequestSigner:
    """Signs as `agent`, the url that publishes the key. Method, host and path are covered: a signature is good for one
    page. `as_string`: Signature-Agent is a string, as in drafts before 2026, and not a dictionary.
    """

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
    """Return who signs; None where there is neither a key nor an agent. `key` is a path, `environment_key`, which
    counts where that is empty, a path or the PEM itself.
    """
    if _PEM in key:
        raise ConfigError(
            "BOT_AUTH_KEY: a setting can be the path of a key alone; put the key itself into the environment variable"
            " BOT_AUTH_KEY, where no log shows it"
        )
    where = key or environment_key
    if where and not agent:
        raise ConfigError(
            "BOT_AUTH_KEY: without BOT_AUTH_AGENT nobody could check the signatures: set it to where the public key is"
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
