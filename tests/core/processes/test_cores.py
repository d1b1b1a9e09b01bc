from __future__ import annotations

from pathlib import Path

import pytest

from llmcrawler.core.processes.cores import available_memory_bytes, usable_cores

GIB = 1024**3
CGROUP = "sys/fs/cgroup"


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    4194304 kB\n"}, 4 * GIB),
        (
            {
                "proc/meminfo": "MemAvailable: 4194304 kB\n",
                f"{CGROUP}/memory.max": f"{2 * GIB}\n",
                f"{CGROUP}/memory.current": f"{GIB + 500}\n",
                f"{CGROUP}/memory.stat": "anon 7\ninactive_file 500\n",
            },
            GIB,
        ),
        (
            {
                "proc/meminfo": "MemAvailable: 4194304 kB\n",
                f"{CGROUP}/memory.max": "max\n",
                f"{CGROUP}/memory.current": "5\n",
            },
            4 * GIB,
        ),
    ],
    ids=["unknown", "host", "container", "container without a limit"],
)
def test_available_memory_is_the_least_that_holds(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    assert available_memory_bytes(lay(tmp_path, files)) == expected


@pytest.mark.parametrize(("quota", "expected"), [("50000 100000", 1), ("100000 100000", 1), ("garbage", None)])
def test_cores_respect_a_container_quota(tmp_path: Path, quota: str, expected: int | None) -> None:
    cores = usable_cores(lay(tmp_path, {f"{CGROUP}/cpu.max": quota}))
    assert cores == (expected or usable_cores(tmp_path / "elsewhere"))
