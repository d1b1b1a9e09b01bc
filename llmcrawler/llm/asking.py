"""What everything that asks a model builds on."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol


class AskLLM(Protocol):
    """LLMClient.ask: the parsed JSON, or LLMUnavailable, LLMFailed or BadAnswer."""

    def __call__(  # noqa: PLR0913 - LLMClient.ask's interface
        self,
        task: str,
        system: str,
        document: dict[str, Any],
        schema: dict[str, Any],
        *,
        salvage: bool = False,
        max_answer_tokens: int | None = None,
        examples: Sequence[tuple[str, str]] = (),
    ) -> Awaitable[Any]: ...
