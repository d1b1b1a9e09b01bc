"""Whatever bytes come in, what reads them raises nothing and ends: the corpus, and a little of what
benchmarks/fuzz.py does for an hour."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzzing.corpus import bodies
from tests.fuzzing.runner import Runner
from tests.fuzzing.targets import TARGETS
from tests.nightly import rest_by_night

pytestmark = pytest.mark.server


EXAMPLES = 25


@pytest.fixture(scope="module")
def runner():
    with Runner() as one:
        yield one


@pytest.mark.parametrize(
    ("target", "number"), rest_by_night([(name, number) for name in TARGETS for number in range(len(bodies(name)))], 3)
)
def test_what_has_hurt_once_hurts_no_more(runner, target, number):
    assert runner.run(target, bodies(target)[number]).fault == ""


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of the input that failed
@pytest.mark.parametrize("target", rest_by_night(TARGETS))
def test_no_bytes_raise_or_hang(runner, target):
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(body=TARGETS[target].inputs)
    def check(body: bytes) -> None:
        outcome = runner.run(target, body)
        assert outcome.fault == "", body[:300]

    check()


def test_a_target_that_raises_is_told(runner):
    assert "KeyError" in runner.run("no such target", b"").fault
