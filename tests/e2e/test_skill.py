"""The skill for agents names commands, options, settings and fields that are there."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml

from llmcrawler.commands import console
from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.crawl.setting_checks import known_settings
from llmcrawler.items import Page
from tests.e2e.crawling import ROOT
from tests.e2e.documents import DOCS, blocks_of, relative_links_of

SKILL = ROOT / "skills/llmcrawler/SKILL.md"
TEXT = SKILL.read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)[1:]
    for block in blocks_of(SKILL)
    for line in block.text.splitlines()
    if line.startswith("llmcrawler ")
]


def test_its_front_matter_is_as_agents_read_it():
    _empty, head, text = TEXT.split("---\n", 2)
    front = yaml.safe_load(head)
    assert front["name"] == SKILL.parent.name
    assert 100 < len(front["description"]) <= 1024
    assert len(front["compatibility"]) <= 500
    assert len(text.splitlines()) < 500
    assert "../skills/llmcrawler/SKILL.md" in {path for path, _heading in relative_links_of(DOCS / "README.md")}


def test_it_has_five_commands():
    assert [command[0] for command in COMMANDS] == ["plan", "explore", "map", "extract", "status"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_its_commands_can_be_typed(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "urls.txt").write_text("https://shop.example/lamps\n")
    name, *rest = command
    parser = console._parser(name, console._settings())
    if name == "status":
        assert parser.parse_known_args(rest)[1] == ["crawl"]
        return
    options = console._parse(parser, name, rest)
    arguments = dict(one.split("=", 1) for one in options.spargs)
    if "url" in options:
        arguments["url"] = ",".join(options.url)
    assert console._options_of(name).of(arguments).urls


def test_its_settings_and_fields_are_there():
    named = set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", TEXT))
    assert len(named) > 4
    assert named <= set(known_settings())
    assert set(re.findall(r"-s (\w+)=", TEXT)) <= set(known_settings())
    (fields,) = re.findall(r"`page` lines: (.*?)\n  Every", TEXT, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", fields)) <= set(Page.__dataclass_fields__)
    assert [int(row) for row in re.findall(r"^\| (\d) \|", TEXT, re.MULTILINE)] == list(map(int, ExitStatus))
