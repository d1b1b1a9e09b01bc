"""Stands in for the process of a crawl: writes two page lines and a log, and ends as the path of the url says.

https://a.test/exit/4     ends with 4
https://a.test/wait       ends with 3 when stdin ends
"""

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

from llmcrawler.items import Page, PageError

PRICES = ("£10.00", None)


def main() -> None:
    arguments = json.loads(sys.stdin.readline())
    feed = Path(arguments[-1].removesuffix(":jsonlines"))
    (url,) = (one.removeprefix("url=") for one in arguments if one.startswith("url="))
    pages = [
        Page(
            url=f"{url}?{number}", page_type="product", lang="en", title=json.dumps(arguments), record={"price": price}
        )
        for number, price in enumerate(PRICES)
    ]
    failed = Page(url=f"{url}?2", error=PageError("fetch", "dns", "no such host"))
    lines = [*(page.as_line() for page in (*pages, failed)), {"kind": "template", "template": "t1"}]
    feed.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    log("llmcrawler.extensions.progress_reports", "INFO", "2 pages")
    log("llmcrawler.core.llm.client", "WARNING", "the model is slow")
    log("scrapy.middleware", "WARNING", "Disabled something")
    _, what, *number = urlsplit(url).path.split("/")
    if what == "wait":
        sys.stdin.read()
    status = int(number[0]) if number else 3
    if status == 2:
        sys.stderr.write("usage: llmcrawler explore\n\nllmcrawler explore: error: DEPTH='x' is not a number\n")
    else:
        log("llmcrawler.commands.crawl", "WARNING", f"Exit status {status}: so it is", exit_status=status)
    sys.exit(status)


def log(logger: str, level: str, message: str, **fields: int) -> None:
    sys.stderr.write(json.dumps({**fields, "logger": logger, "level": level, "message": message}) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
