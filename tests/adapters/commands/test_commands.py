"""What `scrapy` loads to list this project's commands, and what each says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from inspect import isclass
from pathlib import Path

import pytest
from scrapy.cmdline import ScrapyArgumentParser
from scrapy.commands import ScrapyCommand
from scrapy.utils.misc import walk_modules_iter
from scrapy.utils.project import get_project_settings

from llmcrawler.core.reporting.exit_status import ExitStatus

LISTED = """
import json, sys
import scrapy.cmdline
from scrapy.utils.misc import walk_modules_iter
from scrapy.utils.project import get_project_settings

before = {*sys.modules}
list(walk_modules_iter(get_project_settings()["COMMANDS_MODULE"]))
print(json.dumps(sorted({*sys.modules} - before)))
"""

HANGING = """
import threading
from llmcrawler.commands.crawl import _end_soon
from llmcrawler.core.reporting.exit_status import ExitStatus

threading.Thread(target=threading.Event().wait).start()
_end_soon(ExitStatus.INTERRUPTED)
"""


def commands() -> list[type[ScrapyCommand]]:
    """As Scrapy finds them."""
    return [
        one
        for module in walk_modules_iter("llmcrawler.commands")
        for one in vars(module).values()
        if isclass(one) and issubclass(one, ScrapyCommand) and one.__module__ == module.__name__
    ]


@pytest.mark.server
def test_to_list_the_commands_loads_nothing_that_they_work_with() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", LISTED], cwd=root, capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    ours = [name for name in loaded if name.partition(".")[0] == "llmcrawler"]
    allowed = ("llmcrawler.commands", "llmcrawler.errors", "llmcrawler.settings")
    assert [name for name in ours if name != "llmcrawler" and not name.startswith(allowed)] == []
    assert not {"numpy", "openai", "redis", "rich", "aiohttp", "jinja2"} & {name.partition(".")[0] for name in loaded}


@pytest.mark.parametrize(
    ("module", "given", "progress"),
    [
        ("crawl", ["explore"], "auto"),
        ("parse", ["https://shop.example/"], "off"),
        ("shell", [], "off"),
        ("parse", ["https://shop.example/", "-s", "PROGRESS=log"], "log"),
    ],
)
def test_only_a_crawl_shows_progress_unless_it_is_asked_for(module: str, given: list[str], progress: str) -> None:
    command = import_module(f"llmcrawler.commands.{module}").Command()
    command.settings = get_project_settings()
    command.settings.set("LOG_LEVEL", "DEBUG")  # the loggers stay as they are
    parser = ScrapyArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    opts, args = parser.parse_known_args(given)
    command.process_options(args, opts)
    assert command.settings["PROGRESS"] == progress


@pytest.mark.server
def test_a_thread_that_hangs_does_not_hold_up_the_end_of_a_stopped_crawl() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], cwd=Path(__file__).parents[3], timeout=300, check=False)
    assert done.returncode == ExitStatus.INTERRUPTED


@pytest.mark.parametrize("command", commands(), ids=lambda one: one.__module__)
def test_every_command_says_what_it_takes_and_does(command: type[ScrapyCommand]) -> None:
    texts = [command().syntax(), command().short_desc(), command().long_desc()]
    assert all(texts)
    assert "<" in texts[0] or "[url" in texts[0], "it names its arguments"
    assert not texts[1].endswith("."), "a line of the list of commands"
    assert len(texts[2]) > len(texts[1])
