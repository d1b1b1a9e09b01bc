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


async def test_a_site_is_given_up_when_all_is_settled_also_one_of_which_nothing_was_leased_yet(monkeypatch):
    deeds, settled = Deeds(), [1]
    session = stub(frontier=stub(sites=set(), has_of=lambda _site: len(settled) < 2), give_up=deeds.noting("give up"))
    understanding = stub(records=stub(give_back=lambda _site: None))
    worker = object.__new__(DistributedWorker)
    worker.session = session
    worker.understanding = understanding
    scheduler = stub(hand_back=deeds.noting("hand back", result=True))
    monkeypatch.setattr(DistributedWorker, "_scheduler", scheduler)
    await worker._give_up("a.example")  # a page of it is being acknowledged
    settled.append(2)
    await worker._give_up("a.example")
    assert deeds == ["hand back", "hand back", "give up"]
