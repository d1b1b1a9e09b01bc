"""Keeps Scrapy's `spider.state` such that a kill or a full disk leaves nothing that the next run fails on."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

from scrapy import Spider
from scrapy.extensions.spiderstate import SpiderState

from llmcrawler.core.storage import replace_file

logger = logging.getLogger(__name__)


class WholeSpiderState(SpiderState):
    """Replaces the file of the state as a whole or not at all; a state that holds nothing has no file."""

    def spider_opened(self, spider: Spider) -> None:
        try:
            super().spider_opened(spider)
        except Exception as error:  # noqa: BLE001 (a pickle that is damaged may raise anything)
            logger.warning("%s is damaged, and spider.state starts empty: %r", self.statefn, error)
            spider.state = {}  # type: ignore[attr-defined]

    def spider_closed(self, spider: Spider) -> None:
        target = Path(self.statefn)
        state = getattr(spider, "state", {})
        if not state:
            target.unlink(missing_ok=True)
            return
        replace_file(target, pickle.dumps(state, protocol=4))
