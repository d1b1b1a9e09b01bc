"""The strings that were met lately."""

from llmcrawler.core.frontier.admission import RecentStrings


def test_what_was_met_lately_is_known_and_what_was_met_long_ago_is_not():
    remembered = RecentStrings(100)
    assert "a0" not in remembered
    for n in range(1000):
        assert f"a{n}" not in remembered
        remembered.add(f"a{n}")
        remembered.add(f"a{n}")  # once more makes no difference
        assert all(f"a{m}" in remembered for m in range(max(0, n - 99), n + 1))
    assert not any(f"a{n}" in remembered for n in range(799))
    assert "b" not in remembered
