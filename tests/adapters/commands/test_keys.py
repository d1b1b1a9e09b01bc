"""`scrapy keys`: what it writes, prints and refuses."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from scrapy.exceptions import UsageError

from llmcrawler.commands.keys import Command
from tests.adapters.commands.run_here import run_here
from tests.servers.verifying_site import keys_of, verifier_of

AGENT = "https://bot.example/.well-known/http-message-signatures-directory"
FILE_NAME = "http-message-signatures-directory"


def run(*given: object) -> None:
    command = Command()
    run_here(command, *given)
    assert command.exitcode == 0


def test_a_key_is_made_shown_and_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bot.pem"
    run("new", file)
    made = capsys.readouterr().out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    published = (tmp_path / FILE_NAME).read_text()
    (keyid,) = keys_of(published)
    assert f"keyid: {keyid}\n" in made
    run("show", file)
    assert capsys.readouterr().out == published
    run("headers", file, "-s", f"BOT_AUTH_AGENT={AGENT}")
    printed = capsys.readouterr().out
    headers = dict(line.split(": ", 1) for line in printed.splitlines())
    asked = SimpleNamespace(method="GET", url=AGENT, headers={})
    answer = SimpleNamespace(status_code=200, headers=headers, request=asked)
    assert verifier_of(published).verify(answer, expect_tag=FILE_NAME)
    seed = base64.b64decode("".join(file.read_text().splitlines()[1:-1]))[-32:]
    for secret in (base64.b64encode(seed), base64.urlsafe_b64encode(seed)):
        assert secret.decode().strip("=") not in made + published + printed


def test_a_second_key_is_published_beside_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.pem", tmp_path / "new.pem"
    run("new", old)
    before = (tmp_path / FILE_NAME).read_bytes()
    capsys.readouterr()
    run("new", new)
    assert f"publish old and new with: scrapy keys show OLD.pem {new}\n" in capsys.readouterr().out
    assert (tmp_path / FILE_NAME).read_bytes() == before
    run("show", old, new)
    both = keys_of(capsys.readouterr().out)
    assert [*both][:1] == [*keys_of(before)]
    assert len(both) == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "say what to do with which key"),
        (["make", "bot.pem"], "say what to do with which key"),
        (["new"], "say what to do with which key"),
        (["new", "a.pem", "b.pem"], "say what to do with which key"),
        (["new", "{folder}/bot.pem"], "it exists already and is left unchanged"),
        (["new", "{folder}/no/such/bot.pem"], "cannot be written: No such file or directory"),
        (["show", "{folder}/none.pem"], r"none\.pem: it cannot be read: No such file or directory"),
        (["show", "{folder}/open.pem"], "other users can read"),
        (["show", "{folder}/text.pem"], "not an Ed25519 private key"),
        (["headers", "{folder}/bot.pem"], "say where it is"),
        (["headers", "{folder}/bot.pem", "-s", "BOT_AUTH_AGENT=http://bot.example"], "it is an https url"),
        (["headers", "{folder}/bot.pem", "--days", "0", "-s", f"BOT_AUTH_AGENT={AGENT}"], "--days is at least 1"),
    ],
)
def test_wrong_usage_is_told_and_changes_nothing(tmp_path: Path, given: list[str], says: str) -> None:
    run("new", tmp_path / "bot.pem")
    (tmp_path / "open.pem").write_bytes((tmp_path / "bot.pem").read_bytes())
    (tmp_path / "open.pem").chmod(0o644)
    (tmp_path / "text.pem").touch(0o600)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match=says):
        run(*(one.format(folder=tmp_path) for one in given))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
