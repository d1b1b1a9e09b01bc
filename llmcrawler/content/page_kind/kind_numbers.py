"""Puts all numbers together that tell the kind of a page, by name."""

from __future__ import annotations

from .address_numbers import address_numbers
from .container_numbers import container_numbers
from .head_numbers import metadata_numbers, schema_numbers, tag_numbers, title_numbers
from .kind_evidence import KindEvidence
from .link_numbers import link_numbers
from .phrase_numbers import phrase_numbers
from .repeated_parts import find_repeats, repeat_numbers
from .text_numbers import block_totals, heading_numbers, main_numbers


def kind_numbers(evidence: KindEvidence) -> dict[str, float]:
    """Return the numbers by name; the same names for every page."""
    page, blocks = evidence.page, evidence.blocks
    layout = evidence.layout
    repeats = find_repeats(page, layout, blocks)
    return {
        **address_numbers(evidence.url, evidence.title),
        **title_numbers(evidence),
        **metadata_numbers(evidence),
        **schema_numbers(evidence.structured_data),
        **tag_numbers(evidence),
        **block_totals(blocks),
        **main_numbers(blocks),
        **heading_numbers(blocks, evidence.title),
        **container_numbers(page, layout, blocks),
        **repeat_numbers(repeats, blocks),
        **link_numbers(evidence.url, evidence.links, blocks),
        **phrase_numbers(blocks),
    }
