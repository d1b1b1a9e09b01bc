"""Stands in for the process of a job: notes its arguments in the log, and ends as the path of the url says.

https://1.1.1.1/exit/4     ends with 4
https://1.1.1.1/wait       ends with 3 when stdin ends
"""

import json
import sys
from urllib.parse import urlsplit


def main() -> None:
    arguments = json.loads(sys.stdin.readline())
    log(arguments=arguments)
    starts = (one.removeprefix("url=") for one in arguments if one.startswith(("url=", "https:")))
    url = next(starts, "https://1.1.1.1/exit/0")
    _, what, *number = urlsplit(url).path.split("/")
    if what == "wait":
        sys.stdin.read()
    status = int(number[0]) if number else 3
    log(logger="llmcrawler.commands.crawl", level="INFO", message=f"so it is: {status}", exit_status=status)
    sys.exit(status)


def log(**said: object) -> None:
    sys.stderr.write(json.dumps(said) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
