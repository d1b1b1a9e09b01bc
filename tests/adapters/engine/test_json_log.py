import json
import logging
import sys

from scrapy import Spider

from llmcrawler.engine.log_setup import JsonFormatter


def line_of(message, *args, **extra):
    record = logging.getLogger("a.b").makeRecord("a.b", logging.ERROR, "f.py", 1, message, args, None, extra=extra)
    return record, JsonFormatter()


def test_an_exception_stands_in_its_line_and_values_are_fields():
    record, formatter = line_of("Page %(url)s: %(outcome)s", {"url": "https://a.example/", "outcome": "lampe\nrouge"})
    try:
        raise ValueError("no such lamp")
    except ValueError:
        record.exc_info = sys.exc_info()
    text = formatter.format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert (line["url"], line["outcome"]) == ("https://a.example/", "lampe\nrouge")
    assert line["message"] == "Page https://a.example/: lampe\nrouge"
    assert "ValueError: no such lamp" in line["exception"]


def test_objects_are_no_fields_and_what_a_line_always_has_stays():
    record, formatter = line_of("ready", spider=Spider("explore"), crawler=object(), pages=3, level="mine")
    line = json.loads(formatter.format(record))
    assert (line["spider"], line["pages"], line["level"]) == ("explore", 3, "ERROR")
    assert "crawler" not in line
