"""For scrapyd-deploy, which would write one of its own. What there is to say stands in pyproject.toml."""

from setuptools import setup

setup()
