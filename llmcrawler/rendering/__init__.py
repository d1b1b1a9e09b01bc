"""When a page needs a browser, and what the browser does with it."""

from llmcrawler.rendering.choice import ALWAYS, AUTO, MODES, NEVER, RenderChoice
from llmcrawler.rendering.contexts import ContextTurns
from llmcrawler.rendering.scripts import LINKS_HEADER, links_header
from llmcrawler.rendering.signs import THIN_WORDS, Signs, may_have_signs, read_page_and_signs, read_signs
from llmcrawler.rendering.traffic import Ask, TrafficRules

__all__ = [
    "ALWAYS",
    "AUTO",
    "LINKS_HEADER",
    "MODES",
    "NEVER",
    "RENDER",
    "RENDERED",
    "THIN_WORDS",
    "Ask",
    "ContextTurns",
    "RenderChoice",
    "Signs",
    "TrafficRules",
    "links_header",
    "may_have_signs",
    "read_page_and_signs",
    "read_signs",
]

RENDER = "render"  # in a request's meta: it goes to the browser
RENDERED = "rendered"  # in a response's flags: it came from there
