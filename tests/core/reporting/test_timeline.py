"""How a crawl went over time stays small, and keeps its sums."""

from __future__ import annotations

import json

import pytest

from llmcrawler.core.reporting.timeline import Bucket, Timeline, timeline_of


@pytest.mark.parametrize(("seconds", "width"), [(9, 1.0), (10, 2.0), (19, 2.0), (3_600, 512.0)])
def test_a_long_crawl_has_wider_buckets_and_not_more_of_them(seconds, width):
    timeline = Timeline(1.0, max_buckets=10)
    for second in range(seconds + 1):
        bucket = timeline.at(second)
        bucket.pages += 1
        bucket.hold("urls known", 1.0)
    assert timeline.width_seconds == width
    assert len(timeline.buckets) <= 10
    assert timeline.total().pages == seconds + 1
    assert timeline.total().limits == {"urls known": seconds + 1}


def test_a_merged_bucket_has_the_later_queue_and_the_mean_of_the_samples():
    first, second = Bucket(samples=1, in_flight_sum=4, queued=10), Bucket(samples=3, in_flight_sum=0, queued=7)
    first.add(second)
    first.add(Bucket())  # a stretch without a sample says nothing of the queue
    assert (first.queued, first.in_flight, first.allowed) == (7, 1.0, 0.0)


def test_latencies_are_known_within_a_tenth():
    timeline = Timeline()
    for hundredths in range(1, 101):
        timeline.add_answer(0.0, hundredths / 100)
    timeline.add_answer(0.0, 99.0, refused=True)  # how long a refusal takes says nothing of pages
    (bucket,) = timeline.buckets
    assert (bucket.answers, bucket.refused) == (101, 1)
    assert bucket.latency(0.5) == pytest.approx(0.5, rel=0.1)
    assert bucket.latency(0.95) == pytest.approx(0.95, rel=0.1)
    assert bucket.mean_latency == pytest.approx(0.505)
    assert (Bucket().latency(0.5), Bucket().mean_latency, Bucket().in_flight) == (None, None, None)


def test_a_timeline_is_read_as_it_was_written():
    timeline = Timeline()
    timeline.add_answer(0.5, 0.3)
    timeline.at(2.5).hold("gap between starts", 1.0)
    timeline.at(2.5).queued = 5
    text = json.dumps(timeline.as_json())
    again = Timeline.of_json(json.loads(text))
    assert again.as_json() == timeline.as_json()
    assert again.total() == timeline.total()


def test_pages_alone_make_a_timeline_in_whatever_order_they_come():
    start, timeline = timeline_of([(103.0, 0.5, False), (100.0, 1.0, True), (103.2, None, False)])
    assert start == 99.0
    assert [bucket.pages for bucket in timeline.buckets] == [0, 1, 0, 0, 2]
    assert timeline.total().errors == 1
