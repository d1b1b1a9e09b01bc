"""What a progress report is told of the downloads."""

from llmcrawler.core.politeness.throttling import HostPolicy, ThrottleRules
from llmcrawler.extensions.progress_reports import read_flow
from tests.adapters.stubs import stub


def test_hosts_that_are_busy_or_rest_are_in_the_flow_and_idle_ones_are_not():
    policies = {name: HostPolicy(ThrottleRules(), lambda: 0.0) for name in ("idle", "busy", "rests", "gone")}
    policies["rests"].refused("429", 60.0, 0.1, 1)
    policies["gone"].refused("429", 60.0, 0.1, 1)  # Scrapy drops a slot that was idle for a minute
    slots = {name: stub(transferring=[1] if name == "busy" else [], queue=[]) for name in ("idle", "busy", "rests")}
    engine = stub(downloader=stub(slots=slots, total_concurrency=8), scraper=stub(slot=None))
    flow = read_flow(stub(engine=engine, get_extension=lambda _: stub(policies=lambda: policies)))
    assert [(host.host, host.in_flight, host.rest_seconds) for host in flow.hosts] == [
        ("busy", 1, 0.0),
        ("rests", 0, 60.0),
        ("gone", 0, 60.0),
    ]
