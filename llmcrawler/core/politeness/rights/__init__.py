"""The rights that sites declare in the use of their pages: reads the signals of all standards, combines them into the
field `rights` of a line, and says what they forbid.
"""

from llmcrawler.core.politeness.rights.combined_signals import (
    MODES,
    OFF,
    RECORD,
    RESPECT,
    SIGNALS,
    VERDICTS,
    RightsPolicy,
    Signal,
    refusal_of,
    rights_of,
    signals_of,
)
from llmcrawler.core.politeness.rights.page_signals import (
    HEADERS,
    content_signals,
    header_signals,
    licence_files,
    noai_signals,
)
from llmcrawler.core.politeness.rights.site_rights import MAX_FILE_BYTES, SiteRights
from llmcrawler.core.politeness.rights.uses import ANSWERS, USES
