"""When a page needs a browser, and what the browser does with it."""

from .choice import ALWAYS, AUTO, MODES, NEVER, RenderChoice
from .contexts import ContextTurns
from .links import LINKS_HEADER, found_links, links_header
from .signs import Signs, may_have_signs, read_page_and_signs, read_signs

__all__ = [
    "ALWAYS",
    "AUTO",
    "LINKS_HEADER",
    "MODES",
    "NEVER",
    "RENDER",
    "RENDERED",
    "ContextTurns",
    "RenderChoice",
    "Signs",
    "found_links",
    "links_header",
    "may_have_signs",
    "read_page_and_signs",
    "read_signs",
]

RENDER = "render"  # in a request's meta: it goes to the browser
RENDERED = "rendered"  # in a response's flags: it came from there
