import logging

from llmcrawler.reporting import FetchProgress


def test_a_download_says_how_far_it_is_at_every_twentieth(caplog):
    caplog.set_level(logging.INFO)
    progress = FetchProgress("the model")
    for done in range(0, 1001, 10):
        progress(done, 1000)
    assert len(caplog.messages) == 21
    assert caplog.messages[0] == "Fetching the model [....................] 0% of 0.00 GB"
    assert caplog.messages[10] == "Fetching the model [##########..........] 50% of 0.00 GB"


def test_an_unknown_size_does_no_harm(caplog):
    FetchProgress("the model")(0, 0)
    assert len(caplog.messages) <= 1
