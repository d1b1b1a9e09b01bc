"""`python -m llmcrawler`: the console command."""

from llmcrawler.commands.console import main

main()
