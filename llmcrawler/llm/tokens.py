"""Estimates the tokens of a text, near enough to fill batches and to keep to a budget."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text`: one for four bytes of UTF-8, rounded up.

    OpenAI gives four characters of English a token ("What are tokens and how to count them", OpenAI help centre).
    Their byte-pair encodings work on bytes, so bytes keep the rule near for other scripts too, where a character
    costs more: Cyrillic half a token, Chinese three quarters.
    """
    size_bytes = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size_bytes // BYTES_PER_TOKEN)


def truncate_to_tokens(text: str, budget_tokens: int) -> str:
    """Return the start of `text` that fits the budget, cut between words unless the last word is most of it."""
    if estimate_tokens(text) <= budget_tokens:
        return text
    size_bytes = max(0, budget_tokens) * BYTES_PER_TOKEN
    # The first `size_bytes` characters hold at least that many bytes: the rest of a very long text is never encoded.
    kept = text[:size_bytes].encode("utf-8", "surrogatepass")[:size_bytes].decode("utf-8", "ignore")
    words_end = max(kept.rfind(" "), kept.rfind("\n"))
    return kept[:words_end].rstrip() if words_end > len(kept) // 2 else kept
