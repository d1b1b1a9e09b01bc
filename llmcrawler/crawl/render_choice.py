"""Decides which pages go to the browser: per template, by what a few of its pages gained there."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.core.content.render_features import RenderFeatures
from llmcrawler.core.urls import route_of, url_pattern

NEVER: Final = "never"
AUTO: Final = "auto"
ALWAYS: Final = "always"

_TRIALS: Final = 3  # of a template's pages that may gain, before it is left alone
_SURE: Final = 2  # of its pages gained, and none needed nothing: the next ones go straight to the browser
_SECOND_LOOK: Final = 10  # of a template whose trials gained nothing, every tenth page is tried again
_MUCH_LONGER: Final = 1.5
_MORE_WORDS: Final = 10
_MAX_TEMPLATES: Final = 5_000


@dataclass(slots=True)
class _Trials:
    tried: int = 0
    gained: int = 0
    fine_as_they_are: int = 0
    passed_over: int = 0

    @property
    def pay(self) -> bool:
        return 2 * self.gained >= self.tried > 0


class RenderChoice:
    """Decides by templates: a host and the shape of a url, as nothing else is known before a page is fetched. Where one
    shape holds both kinds of pages, each is looked at. Memory is bounded: the template not used for longest goes first.
    """

    def __init__(self, mode: str, *, presses_more: bool = False) -> None:
        self.mode = mode
        self.unpressed = 0  # pages that have a button for more of their list, and were not rendered
        self._presses_more = presses_more
        self._templates: OrderedDict[tuple[str, str], _Trials] = OrderedDict()

    def goes_straight(self, url: str) -> bool:
        if self.mode != AUTO:
            return self.mode == ALWAYS
        if route_of(url):
            return True
        trials = self._templates.get(_template_of(url))
        return trials is not None and trials.gained >= _SURE and not trials.fine_as_they_are and trials.pay

    def wants(self, url: str, features: RenderFeatures) -> bool:
        """Tell whether a page that came over plain HTTP is to be fetched again by the browser."""
        if self.mode != AUTO:
            return False
        wants = self._tries(self._trials_of(url), features)
        self.unpressed += features.has_more and not wants
        return wants

    def _tries(self, trials: _Trials, features: RenderFeatures) -> bool:
        if not (features.may_be_more or (self._presses_more and features.has_more)):
            trials.fine_as_they_are += 1
            return False
        if trials.tried < _TRIALS or trials.pay:
            return True
        trials.passed_over += 1
        return trials.passed_over % _SECOND_LOOK == 0

    def note(self, url: str, raw: RenderFeatures, rendered: RenderFeatures) -> bool:
        """Note the page's trial. Tell whether it has gained in the browser."""
        gained = has_gained(raw, rendered)
        trials = self._trials_of(url)
        trials.tried += 1
        trials.gained += gained
        return gained

    def _trials_of(self, url: str) -> _Trials:
        key = _template_of(url)
        trials = self._templates.setdefault(key, _Trials())
        self._templates.move_to_end(key)
        if len(self._templates) > _MAX_TEMPLATES:
            self._templates.popitem(last=False)
        return trials


def has_gained(raw: RenderFeatures, rendered: RenderFeatures) -> bool:
    """Tell whether there is much more to read beside the menus; of a shell, anything to read or to follow; of a page
    that links to nothing, a link."""
    if rendered.links and not raw.links:
        return True
    if raw.is_shell and not rendered.is_blank and (rendered.words > raw.words or rendered.links > raw.links):
        return True
    return rendered.own_words >= raw.own_words * _MUCH_LONGER + _MORE_WORDS


def _template_of(url: str) -> tuple[str, str]:
    return urlsplit(url).netloc, url_pattern(url)
