import pytest

from llmcrawler.core.urls import in_turns


@pytest.mark.parametrize(
    ("lengths", "turns"),
    [
        ([], []),
        ([60] * 150, [150]),
        ([20] * 450, [200, 200, 50]),
        ([2000] * 13, [6, 6, 1]),
        ([100_000, 10], [1, 1]),
    ],
)
def test_links_come_in_turns_of_bounded_work(lengths, turns):
    links = ["x" * length for length in lengths]
    parts = list(in_turns(links, len))
    assert [len(part) for part in parts] == turns
    assert [link for part in parts for link in part] == links
