"""Settings of metrics and traces, checked before the first request. The libraries are extras."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.configuration import OFF
from llmcrawler.errors import ConfigError, require
from llmcrawler.items import StageRun

_EXPORTERS: Final = {
    "console": "opentelemetry.sdk.trace.export.ConsoleSpanExporter",
    "otlp": "opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter",
}


@dataclass(frozen=True, slots=True)
class MetricsPlace:
    """The endpoint and the file that metrics go to. `port` 0: no endpoint; `textfile` None: no file; the name of a file
    has `%(worker)s` where workers share the crawl.
    """

    port: int
    host: str
    textfile: Path | None

    def of(self, worker: str) -> Self:
        """Return the place of a worker's metrics."""
        file = self.textfile
        return self if file is None else replace(self, textfile=file.with_name(file.name.replace("%(worker)s", worker)))


def check_monitoring(settings: BaseSettings) -> None:
    """Raise ConfigError for a wrong setting, a library that is missing, or a port that is in use."""
    place = metrics_place(settings)
    if place is not None:
        require("prometheus_client", "prometheus", "METRICS_PORT or METRICS_TEXTFILE")
        if place.port:
            _check_free(place)
        if place.textfile is not None and settings.get("REDIS_URL") and "%(worker)s" not in place.textfile.name:
            raise ConfigError(
                f"METRICS_TEXTFILE={place.textfile}: with REDIS_URL each worker writes a file of its own: name it with "
                "%(worker)s, as in shop-%(worker)s.prom"
            )
        if place.textfile is not None and not place.textfile.parent.is_dir():
            raise ConfigError(f"METRICS_TEXTFILE={place.textfile}: there is no folder {place.textfile.parent}")
    span_exporter(settings)


def metrics_place(settings: BaseSettings) -> MetricsPlace | None:
    """Return where metrics go; None where nobody wants them."""
    given, file = settings.get("METRICS_PORT") or 0, str(settings.get("METRICS_TEXTFILE") or "")
    try:
        port = int(given)
    except (TypeError, ValueError):
        port = -1
    if not 0 <= port <= 65535:
        raise ConfigError(f"METRICS_PORT={given!r} is no port")
    if not port and not file:
        return None
    return MetricsPlace(port, str(settings.get("METRICS_HOST") or ""), Path(file).expanduser() if file else None)


def span_exporter(settings: BaseSettings) -> Callable[[], Any] | None:
    """Return what makes an OpenTelemetry SpanExporter; None where there are to be no traces."""
    wanted = str(settings.get("TRACES") or "")
    if wanted.lower() in OFF:
        return None
    require("opentelemetry.sdk.trace", "opentelemetry", "TRACES")
    if wanted == "otlp":
        require("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry", "TRACES=otlp")
    try:
        made: Callable[[], Any] = load_object(_EXPORTERS.get(wanted, wanted))
    except (ImportError, NameError, ValueError) as error:
        names = ", ".join(sorted(_EXPORTERS))
        raise ConfigError(f"TRACES={wanted!r}: it is {names}, or the path of a SpanExporter: {error}") from error
    return made


def crawl_name(settings: BaseSettings, options: ExploreOptions) -> str:
    """Return the label of the crawl's figures, the same every night and at every worker: CRAWL_ID where there is
    REDIS_URL, the name of the JOBDIR, else the first host.
    """
    if settings.get("REDIS_URL"):
        return str(settings.get("CRAWL_ID"))
    job = settings.get("JOBDIR")
    if job:
        return Path(job).absolute().name
    return urlsplit(options.urls[0]).netloc if options.urls else ""


def runs_since(stages: Mapping[str, StageRun], started: float) -> dict[str, StageRun]:
    """Return the stages that ran since `started`: a page of a resumed crawl has those of earlier runs too."""
    return {name: run for name, run in stages.items() if run.status != "skipped" and run.started >= started}


def _check_free(place: MetricsPlace) -> None:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((place.host, place.port))
    except OSError as error:
        raise ConfigError(
            f"METRICS_PORT={place.port} cannot be had on METRICS_HOST={place.host}: {error.strerror or error}; name "
            "another, or use METRICS_TEXTFILE, which several crawls at a time can do"
        ) from error
