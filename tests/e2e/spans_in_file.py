"""For TRACES: OpenTelemetry's in-memory exporter, whose spans a test reads when the crawl's process has ended."""

import os
from pathlib import Path

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class SpansInFile(InMemorySpanExporter):
    def shutdown(self) -> None:
        spans = [span.to_json(indent=None) for span in self.get_finished_spans()]
        Path(os.environ["SPANS_FILE"]).write_text("\n".join(spans), encoding="utf-8")
        super().shutdown()
