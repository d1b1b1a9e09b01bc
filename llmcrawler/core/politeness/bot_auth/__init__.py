"""Web Bot Auth: requests are signed, so that a site can tell this crawler from whoever uses its name.

The form is that of draft-ietf-webbotauth-httpsig-protocol-01 on HTTP Message Signatures (RFC 9421), with Ed25519 keys.
"""

from llmcrawler.core.politeness.bot_auth.bot_key import (
    DIRECTORY_NAME,
    WELL_KNOWN_PATH,
    BotKey,
    directory_headers,
    directory_of,
    read_key_file,
    write_key_file,
)
from llmcrawler.core.politeness.bot_auth.request_signer import RequestSigner, authority_of, check_agent, resolve_signer
