"""Makes lines of the pages of a Ray dataset."""

from __future__ import annotations

from os import PathLike
from typing import Any, Final

from llmcrawler.api.batch_extractor import BatchExtractor, learned_file
from llmcrawler.core.storage import TemplatesFile
from llmcrawler.core.storage.feeds.parquet_file import arrow_table, arrow_type
from llmcrawler.core.storage.feeds.tables import columns_of, fitted
from llmcrawler.core.understanding.page_extractor import LineRules
from llmcrawler.errors import require
from llmcrawler.items import Page

_COLUMNS: Final = columns_of(Page)


def ray_extract(  # noqa: PLR0913 - what a crawl has as arguments, and how Ray is to do it
    dataset: Any,
    templates: str | PathLike[str],
    *,
    fields: str = "",
    schema: str | PathLike[str] = "",
    page_types: str | PathLike[str] = "",
    batch_size: int = 256,
    concurrency: int | tuple[int, int] | None = None,
) -> Any:
    """Return the lines of a `ray.data.Dataset` of pages, as a Dataset: what `extract_batch` does, on all of a cluster.

    Columns of the dataset are those of a page there. A record, and what else is nested, is JSON text. The files are
    read where this is called. `concurrency`: actors, or the least and the most of them; None leaves one CPU to what
    reads the dataset.
    """
    rules, file = LineRules.of(fields, schema, page_types), learned_file(templates)
    file.load()  # what is wrong with it is told here, and not by an actor
    return dataset.map_batches(
        RayBatches,
        fn_constructor_args=(file.path.name, file.path.read_bytes(), rules),
        batch_format="pyarrow",
        batch_size=batch_size,
        concurrency=concurrency or (1, max(1, _cpus() - 1)),
    )


class RayBatches:
    """Makes a table of lines of a table of pages, in an actor that has read the templates once."""

    def __init__(self, name: str, templates: bytes, rules: LineRules) -> None:
        import tempfile  # noqa: PLC0415 - in the actor
        from pathlib import Path  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / name
            file.write_bytes(templates)
            self._extractor = BatchExtractor(TemplatesFile(file, "templates"), rules)
        self._schema = pa.schema([(column.name, arrow_type(column)) for column in _COLUMNS])

    def __call__(self, batch: Any) -> Any:
        lines = self._extractor.lines(batch.to_pylist())
        return arrow_table(self._schema, [[fitted(column, line[column.name]) for column in _COLUMNS] for line in lines])


def _cpus() -> int:
    require("ray", "ray", "ray_extract")
    import ray  # noqa: PLC0415 - only those who have a cluster have it

    if not ray.is_initialized():
        ray.init()
    untyped: Any = ray
    return int(untyped.cluster_resources().get("CPU", 1))
