"""`scrapy keys new FILE`: the key that requests are signed with, and what is published of it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage

if TYPE_CHECKING:
    from llmcrawler.core.politeness.bot_auth import BotKey


class Command(Offline, ScrapyCommand):
    """Exit status: 0, or 2 where a file cannot be read or written, is there already, or is no key."""

    usage = "[options] new|show|headers <key.pem> ..."
    summary = "Make the key that requests are signed with, and what is published of it"
    details = (
        "new KEY.pem: make a private key that only you can read, and beside it the directory to publish, a file with"
        " its public part; no file is overwritten. show KEY.pem ...: print the directory of one or more keys. headers"
        " KEY.pem ...: print the headers that it is to be served with, signed for BOT_AUTH_AGENT. See docs/bot-auth.md."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--days", type=int, default=90, metavar="N", help="validity of the signed headers (90)")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.core.politeness.bot_auth import directory_of, read_key_file

        action, files = args[0] if args else "", [Path(name).expanduser() for name in args[1:]]
        if action not in ("new", "show", "headers") or not files or (action == "new" and len(files) > 1):
            raise wrong_usage("say what to do with which key: scrapy keys new|show|headers KEY.pem")
        if action == "new":
            sys.stdout.write(_make(files[0]))
            return
        try:
            with config_errors_as_usage():
                keys = [read_key_file(file) for file in files]
                sys.stdout.write(directory_of(keys).decode() if action == "show" else self._headers(keys, opts.days))
        except OSError as error:
            raise wrong_usage(f"{error.filename}: it cannot be read: {error.strerror}") from error

    def _headers(self, keys: list[BotKey], days: int) -> str:
        from llmcrawler.core.politeness.bot_auth import WELL_KNOWN_PATH, authority_of, check_agent, directory_headers
        from llmcrawler.crawl.configuration import BotAuthSettings

        assert self.settings is not None
        agent = BotAuthSettings.of(self.settings).bot_auth_agent
        if not agent or days < 1:
            example = f"-s BOT_AUTH_AGENT=https://bot.example{WELL_KNOWN_PATH}"
            raise wrong_usage(f"say where it is, as {example}; --days is at least 1")
        authority = authority_of(check_agent(agent))
        fields = directory_headers(keys, authority, created=int(time.time()), days=days)
        return "".join(f"{name}: {value}\n" for name, value in fields.items())


def _make(file: Path) -> str:
    from llmcrawler.core.politeness import bot_auth

    key, directory = bot_auth.BotKey.generate(), file.with_name(bot_auth.DIRECTORY_NAME)
    try:
        bot_auth.write_key_file(file, key)
        with directory.open("xb") as out:
            out.write(bot_auth.directory_of([key]))
        published = f"{directory}: publish it at https://YOUR.HOST{bot_auth.WELL_KNOWN_PATH}, which is BOT_AUTH_AGENT"
    except FileExistsError as error:
        if error.filename != str(directory):
            raise wrong_usage(f"{file}: it exists already and is left unchanged") from error
        published = f"{directory} has other keys: publish old and new with: scrapy keys show OLD.pem {file}"
    except OSError as error:
        raise wrong_usage(f"{error.filename}: it cannot be written: {error.strerror}") from error
    return f"{file}: the private key, for BOT_AUTH_KEY; keep it secret\n{published}\nkeyid: {key.thumbprint}\n"
