"""Reads whose name requests are signed with. A ConfigError names the setting, and never tells a key."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from llmcrawler.errors import ConfigError
from llmcrawler.politeness.bot_auth.bot_key import BotKey, read_key_file
from llmcrawler.politeness.bot_auth.key_directory import WELL_KNOWN_PATH
from llmcrawler.politeness.bot_auth.request_signer import RequestSigner
from llmcrawler.urls import normalise, origin_of, relative_url

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
