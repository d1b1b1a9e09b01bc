from pathlib import Path

from llmcrawler.core.frontier import FocusedCrawl, LinkScorer, SqliteFrontier, UrlTask
from llmcrawler.core.frontier.focused_crawl import restore_link_scorer
from llmcrawler.core.storage import Outcome, open_job_file
from llmcrawler.core.storage.database import Database
from llmcrawler.items import Link

HOST = "http://a.example"


async def test_a_crawl_that_goes_on_knows_what_the_earlier_runs_have_learned(tmp_path: Path):
    path = tmp_path / "crawl.sqlite"
    first = FocusedCrawl(LinkScorer(["product"]), max_records=None, clock=lambda: 0.0)
    database = Database(open_job_file(path), path)
    frontier = SqliteFrontier(database, lease_seconds=60, max_leases=3, clock=lambda: 0.0)
    await frontier.open()

    async def add(paths: list[str], referer: str) -> list[UrlTask]:
        tasks = [
            UrlTask(HOST + path, "a.example", 1, referer, 0, first.scorer.group_of(HOST + path, Link("")))
            for path in paths
        ]
        await frontier.set_priorities(first.scorer.changed_priorities())
        await frontier.add(tasks)
        return tasks

    lists = [f"/lists/?page={n}" for n in range(4)]
    await add([*lists, *(f"/dull/{n}.html" for n in range(4)), "/unseen/thing/"], f"{HOST}/")
    for lease in await frontier.lease(8, {}, 10):
        first.note_lease(lease.task)
        is_list = "lists" in lease.url
        found = await add([f"/item/lamp-{lease.url[-1]}-{n}" for n in range(6)], lease.url) if is_list else []
        first.note_links(lease.url, found)
        page_type = "product" if is_list else "other"  # what a list counts as matters to nobody else here
        first.note_end(lease.url, page_type, has_record=True)
        line = {
            "url": lease.url,
            "page_type": page_type,
            "error": None,
            "record": {"n": 1} if "=1" in lease.url else None,
        }
        await frontier.ack(lease.url, Outcome(line, {}))
    first.scorer.changed_priorities()

    second = FocusedCrawl(
        LinkScorer(["product"]), max_records=None, clock=lambda: 0.0, record_types=frozenset({"product"})
    )
    await database.run(lambda connection: restore_link_scorer(connection, second))
    priorities = second.scorer.changed_priorities()
    await database.close()
    assert second.records == 1
    assert priorities == {group: first.scorer.priority_of(group) for group in priorities}
    assert len(set(priorities.values())) > 2


def test_groups_of_a_run_without_a_goal_are_passed_over() -> None:
    scorer = LinkScorer(frozenset({"article"}))
    scorer.restore("blog.test/tag/*/")
    assert scorer.changed_priorities() == LinkScorer(frozenset({"article"})).changed_priorities()
