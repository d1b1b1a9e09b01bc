"""What a worker does with a site that it is to give up."""

from unittest.mock import AsyncMock, Mock

from llmcrawler.extensions.distributed_worker import DistributedWorker


async def test_a_site_is_given_up_when_all_is_settled_also_one_of_which_nothing_was_leased_yet(monkeypatch):
    frontier = Mock(sites=set(), has_of=Mock(side_effect=[True, False]))
    worker = object.__new__(DistributedWorker)
    worker.session, worker.understanding = Mock(frontier=frontier, give_up=AsyncMock()), Mock()
    monkeypatch.setattr(DistributedWorker, "_scheduler", Mock(hand_back=AsyncMock(return_value=True)))
    await worker._give_up("a.example")  # a page of it is being acknowledged
    worker.session.give_up.assert_not_awaited()
    await worker._give_up("a.example")
    worker.session.give_up.assert_awaited_once_with("a.example")
