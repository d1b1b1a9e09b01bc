"""What a worker does with a site that it is to give up."""

from __future__ import annotations

from typing import Any

from llmcrawler.extensions.distributed_worker import DistributedWorker
from tests.adapters.stubs import stub


class Deeds(list[str]):
    """Notes what is called, by names."""

    def noting(self, name: str, result: Any = None) -> Any:
        async def deed(*_: object) -> Any:
            self.append(name)
            return result

        return deed


async def test_a_site_of_which_nothing_was_leased_yet_is_given_up_as_it_is(monkeypatch):
    deeds = Deeds()
    shard = stub(frontier=stub(sites=set()), give_up=deeds.noting("give up"))
    understanding = stub(records=stub(give_back=lambda _site: None))
    worker = object.__new__(DistributedWorker)
    worker.understanding = understanding
    scheduler = stub(hand_back=deeds.noting("hand back", result=True))
    monkeypatch.setattr(DistributedWorker, "_scheduler", scheduler)
    await worker._give_up(shard, "a.example")
    assert deeds == ["hand back", "give up"]
