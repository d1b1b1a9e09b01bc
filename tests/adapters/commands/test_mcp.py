"""`llmcrawler mcp install`: what it writes, what it keeps, and what it refuses."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import platformdirs
import pytest
from scrapy.exceptions import UsageError

pytest.importorskip("mcp")

from llmcrawler.commands import mcp
from llmcrawler.core.storage import shared_file
from tests.adapters.commands.run_here import run_here


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(platformdirs, "user_config_path", lambda **_: tmp_path / "settings")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    return tmp_path


def run(*given: object) -> None:
    run_here(mcp.Command(), *given)


def answer(monkeypatch, text):
    monkeypatch.setattr("builtins.input", lambda _question: text)


PLACES = [
    ("claude-desktop", "settings/Claude/claude_desktop_config.json", "mcpServers"),
    ("claude-code", ".claude.json", "mcpServers"),
    ("cursor", ".cursor/mcp.json", "mcpServers"),
    ("vscode", "settings/Code/User/mcp.json", "servers"),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
    ("gemini", ".gemini/settings.json", "mcpServers"),
]


@pytest.mark.parametrize(("name", "file", "key"), PLACES)
def test_the_entry_is_written_for_an_assistant_that_is_named(home, capsys, name, file, key):
    run("install", name, "--yes", "--jobs", home / "jobs", "--only-host", "a.test", "-s", "LLM_PROVIDER=none")
    written = json.loads((home / file).read_text())
    assert [*written] == [key]
    entry = written[key]["llmcrawler"]
    assert entry.pop("type", None) == ("stdio" if name in ("claude-code", "vscode") else None)
    assert Path(entry["command"]).is_absolute()
    options = ["mcp", f"--jobs={home}/jobs", "--running=2", "--only-host=a.test", "-s", "LLM_PROVIDER=none"]
    assert entry["args"][-6:] == options
    assert "Written. Start " in capsys.readouterr().out
    run("install", name, "--yes", "--jobs", home / "jobs", "--only-host", "a.test", "-s", "LLM_PROVIDER=none")
    assert "has this entry already" in capsys.readouterr().out


def test_all_else_in_the_file_stays_and_so_does_the_file_as_it_was(home, capsys, monkeypatch):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    old = {"command": "old", "args": [], "env": {"OPENAI_API_KEY": "secret"}}
    before = json.dumps({"z": [1.5, "é"], "mcpServers": {"other": {"url": "https://a"}, "llmcrawler": old}, "a": None})
    file.write_text(before, encoding="utf-8-sig")
    file.chmod(0o600)
    answer(monkeypatch, "y")
    run("install", "cursor")
    after = json.loads(file.read_text(encoding="utf-8"))
    assert [*after] == ["z", "mcpServers", "a"]
    assert after["z"] == [1.5, "é"]
    assert after["mcpServers"]["other"] == {"url": "https://a"}
    assert after["mcpServers"]["llmcrawler"]["env"] == {"OPENAI_API_KEY": "secret"}
    assert after["mcpServers"]["llmcrawler"]["command"] != "old"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (file.parent / "mcp.json.before-llmcrawler").read_text(encoding="utf-8-sig") == before
    shown = capsys.readouterr().out
    assert '"command": "old"' in shown
    assert "secret" not in shown


@pytest.mark.parametrize("said", ["", "n", "no", "what?"])
def test_nothing_is_changed_without_a_yes(home, capsys, monkeypatch, said):
    answer(monkeypatch, said)
    run("install", "cursor")
    assert capsys.readouterr().out.endswith("is left as it is\n")
    assert [*home.iterdir()] == []


def test_where_nobody_can_be_asked_nothing_is_changed(home, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="say --yes, or --print"):
        run("install", "cursor")
    assert [*home.iterdir()] == []


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {',
        '{"a": 1, "a": 2}',
        "// comment\n{}",
        '{"a": 1,}',
        "[]",
        '{"mcpServers": []}',
        "nothing",
        '{"a": "\\ud800"}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_plain_json_is_left_as_it_is(home, text):
    file = home / ".claude.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="it is no plain JSON, and is left as it is"):
        run("install", "claude-code", "--yes")
    assert file.read_text() == text
    assert [*home.iterdir()] == [file]


def test_a_file_that_another_program_changes_meanwhile_is_left_to_it(home, monkeypatch):
    file = home / ".claude.json"
    file.write_text("{}")

    def change(_question):
        file.write_text('{"numStartups": 2}')
        return "yes"

    monkeypatch.setattr("builtins.input", change)
    with pytest.raises(UsageError, match="it has changed meanwhile"):
        run("install", "claude-code")
    assert file.read_text() == '{"numStartups": 2}'


def test_a_file_is_there_as_a_whole_or_as_it_was(home, monkeypatch):
    file = home / ".claude.json"
    file.write_text("{}")

    def fail(_path, _data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shared_file, "replace_file", fail)
    with pytest.raises(UsageError, match="it cannot be written: No space left on device"):
        run("install", "claude-code", "--yes")
    assert file.read_text() == "{}"


def test_a_link_to_a_file_stays_one(home):
    kept = home / "dotfiles.json"
    kept.write_text("{}")
    (home / ".claude.json").symlink_to(kept)
    run("install", "claude-code", "--yes")
    assert (home / ".claude.json").is_symlink()
    assert "llmcrawler" in json.loads(kept.read_text())["mcpServers"]


def test_without_a_name_it_is_for_the_assistants_that_are_here(home, capsys):
    with pytest.raises(UsageError, match="no assistant was found here: name one of claude-desktop, claude-code"):
        run("install", "--yes")
    (home / ".gemini").mkdir()
    (home / "settings" / "Claude").mkdir(parents=True)
    run("install", "--yes")
    assert capsys.readouterr().out.count("Written") == 2
    assert (home / ".gemini" / "settings.json").exists()
    assert (home / "settings" / "Claude" / "claude_desktop_config.json").exists()
    assert not (home / ".claude.json").exists()


def test_the_entry_can_be_printed(home, capsys):
    run("install", "vscode", "--print")
    assert [*json.loads(capsys.readouterr().out)["servers"]] == ["llmcrawler"]
    assert [*home.iterdir()] == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["install", "emacs"], "no assistant 'emacs': there are claude-desktop, "),
        (["instal"], "mcp takes no 'instal', only install"),
        (["install", "cursor", "--max-pages", "0"], "--max-pages 0: it is 1 or more"),
        (["install", "cursor", "--ys"], "no option --ys: did you mean --yes"),
    ],
)
def test_slips_are_refused(home, given, told):
    with pytest.raises(UsageError, match=told):
        run(*given)
    assert [*home.iterdir()] == []


def test_an_environment_of_uvx_is_made_anew_by_the_entry(home, capsys, monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/abc")
    run("install", "--print")
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["llmcrawler"]
    assert Path(entry["command"]).name == "uvx"
    assert entry["args"][:4] == ["--from", "llmcrawler[server]", "llmcrawler", "mcp"]
