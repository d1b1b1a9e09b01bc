"""A site's crawl as an asset of Dagster, made anew each night: `dagster dev -f deploy/dagster_assets.py`.

The environment names the site (CRAWL_URL), a folder that outlives the run (CRAWL_FOLDER) and more options of
`llmcrawler explore` (CRAWL_OPTIONS). The JOBDIR in that folder knows where an earlier run ended, by a kill as well: the
next one goes on from there, and after a whole crawl finds out what has changed.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import dagster as dg

LLMCRAWLER = [sys.executable, "-c", "from llmcrawler.commands.console import main; main()"]
WHOLE = {0: "finished", 5: "finished, the budget for the model was reached"}
GOES_ON = {3: "stopped before its end", 4: "the site did not answer", 7: "another crawl runs in the JOBDIR"}
FOR_PEOPLE = {1: "an error of the crawler", 2: "wrong usage", 6: "too many pages with errors"}


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=3, delay=15 * 60), pool="crawls")
def site_pages(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """The pages of the site with their records, as JSON Lines."""
    folder = Path(os.environ["CRAWL_FOLDER"]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    feed, job, log = folder / "pages.jsonl", folder / "job", folder / "log.txt"
    given = [os.environ["CRAWL_URL"], *shlex.split(os.environ.get("CRAWL_OPTIONS", ""))]
    status = run(
        [*LLMCRAWLER, "explore", *given, "--refresh", "-s", f"JOBDIR={job}", "-s", f"LOG_FILE={log}", "-O", feed]
    )
    context.log.info("exit status %s, the log is %s", status, log)
    if status not in WHOLE:
        why = GOES_ON.get(status) or FOR_PEOPLE.get(status, "killed")
        raise dg.Failure(f"{why} (exit status {status}): see {log}", allow_retries=status not in FOR_PEOPLE)
    counts = json.loads(subprocess.check_output([*LLMCRAWLER, "status", "--json", job]))  # noqa: S603
    return dg.MaterializeResult(
        metadata={
            "outcome": WHOLE[status],
            "exit_status": status,
            "pages": counts["urls"]["done"],
            "failed": counts["urls"]["dead"],
            "page_types": counts["page_types"],
            "feed": dg.MetadataValue.path(feed),
        }
    )


def run(command: list[str | Path]) -> int:
    """Return the exit status. Where Dagster ends the run, the crawl keeps what it has before it ends."""
    with subprocess.Popen(command) as process:  # noqa: S603
        try:
            return process.wait()
        finally:
            process.terminate()


nightly = dg.ScheduleDefinition("nightly", target=[site_pages], cron_schedule="15 2 * * *")
defs = dg.Definitions(assets=[site_pages], schedules=[nightly])
