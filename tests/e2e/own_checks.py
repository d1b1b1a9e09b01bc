"""Functions that tell whether a response is the page, as somebody's own project has them (VALIDATE_RESPONSE)."""

from scrapy.http import Response

from llmcrawler.errors import NotThePage


def validate(response: Response) -> None:
    if b"Loading" in response.body:
        raise NotThePage("an empty shell")
