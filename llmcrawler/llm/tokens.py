"""How many tokens a text costs, near enough to fill batches and to keep to a budget."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, rounded up: one for four bytes of UTF-8.

    OpenAI gives four characters of English a token ("What are tokens and how to count them", OpenAI help centre).
    Their byte-pair encodings work on bytes, so bytes keep the rule near for other scripts too, where a character
    costs more: Cyrillic half a token, Chinese three quarters.
    """
    size_bytes = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size_bytes // BYTES_PER_TOKEN)


def truncate_to_tokens(text: str, budget_tokens: int) -> str:
    """The start of `text` that fits the budget, cut between words where the last word is not most of the text."""
    if estimate_tokens(text) <= budget_tokens:
        return text
    size_bytes = max(0, budget_tokens) * BYTES_PER_TOKEN
    # The first `size_bytes` characters hold at least that many bytes: the rest of a very long text is never encoded.
    kept = text[:size_bytes].encode("utf-8", "surrogatepass")[:size_bytes].decode("utf-8", "ignore")
    words_end = max(kept.rfind(" "), kept.rfind("\n"))
    return kept[:words_end].rstrip() if words_end > len(kept) // 2 else kept
