"""`scrapy shell`, with the log and the checks of this project's other commands."""

from scrapy.commands.shell import Command as ShellCommand

from llmcrawler.commands import WithLog


class Command(WithLog, ShellCommand):
    usage = "[options] [url|file]"
    summary = "Look at a page interactively"
    details = "Fetch a page, or read it from a file, and look at it in an interactive console."
