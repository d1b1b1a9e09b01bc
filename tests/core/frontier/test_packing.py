"""A task as text, and back."""

import pytest

from llmcrawler.core.frontier import UrlTask
from llmcrawler.fleet.redis_frontier import pack, unpack


@pytest.mark.parametrize(
    "task",
    [
        UrlTask("https://a.example/", "a.example"),
        UrlTask("http://a.example:81/x?y=1", "a.example:81", 3, "http://a.example:81/", 7, "group"),
        UrlTask("https://a.example/ü", "a.example", 0, "https://b.example/from", -1),
        UrlTask("https://a.example", "a.example", 1),
        UrlTask("https://a.example.evil/x", "a.example", 1, "https://a.example"),
    ],
)
def test_a_packed_task_is_the_same_again(task):
    assert unpack(pack(task), task.host, task.group, task.priority) == task
