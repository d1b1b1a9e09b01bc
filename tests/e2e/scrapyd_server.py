"""A real Scrapyd in a process of its own, as in its image: in a folder without the project, which comes as an egg."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.request import urlopen

from tests.deploy.dockerfile import healthcheck_of
from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, environment, free_port
from tests.e2e.documents import block

DOCUMENTED_URL = "http://localhost:6800/"
_PARTS_OF_PROJECT = ("llmcrawler", "pyproject.toml", "README.md", "LICENSE")
_ENDED = re.compile(r"Process (?:finished|died: exitstatus=(\d+)):? .*job='(\w+)'")


class Scrapyd:
    def __init__(self, folder: Path, port: int, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}/"
        self._process = process
        self._statuses: dict[str, int] = {}

    def deploy(self, work: Path) -> str:
        """What `scrapyd-deploy` prints when it is called in a copy of the project."""
        work.mkdir()
        for name in _PARTS_OF_PROJECT:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, work / name)
        target = (ROOT / "scrapy.cfg").read_text().replace(DOCUMENTED_URL, self.url)
        (work / "scrapy.cfg").write_text(target)
        return self._run(block("scrapyd.md", "deploy"), work)

    def check_health(self) -> None:
        """Ask as Docker does. Raises subprocess.CalledProcessError where it is not well."""
        python, *rest = healthcheck_of("scrapyd")
        assert python == "python"
        here = [part.replace("http://127.0.0.1:6800/", self.url) for part in rest]
        assert here != rest
        subprocess.run([sys.executable, *here], check=True)

    def schedule(self, url: str, jobdir: Path, *settings: str) -> str:
        """The id of the job that the command of the docs makes, for another site and with some more settings."""
        command = block("scrapyd.md", "schedule").replace("https://shop.example", url)
        command = command.replace("/var/lib/llmcrawler/shop", str(jobdir)).rstrip()
        return str(json.loads(self._run(command + "".join(f" -d setting={one}" for one in settings)))["jobid"])

    def listed(self, state: str) -> list[str]:
        return [job["id"] for job in json.loads(self._run(block("scrapyd.md", "list")))[state]]

    def status_of(self, job: str) -> int:
        """Its exit status, when it has ended; Scrapyd's log says when."""
        assert self._process.stdout is not None
        while job not in self._statuses:
            line = self._process.stdout.readline()
            assert line, f"Scrapyd ended, or {job} has not in {TIMEOUT_SECONDS} s"
            if ended := _ENDED.search(line):
                self._statuses[ended[2]] = int(ended[1] or 0)
        return self._statuses[job]

    def items_of(self, job: str) -> list[dict[str, Any]]:
        with urlopen(f"{self.url}items/llmcrawler/explore/{job}.jl") as answer:
            return [json.loads(line) for line in answer]

    def log_of(self, job: str) -> str:
        with urlopen(f"{self.url}logs/llmcrawler/explore/{job}.log") as answer:
            return str(answer.read().decode())

    def _run(self, command: str, folder: Path | None = None) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        here = command.replace(DOCUMENTED_URL, self.url)
        given = {**environment(), "PATH": path}
        return subprocess.run(
            ["sh", "-c", here], cwd=folder, env=given, stdout=subprocess.PIPE, text=True, check=True
        ).stdout


@contextmanager
def scrapyd(folder: Path) -> Iterator[Scrapyd]:
    folder.mkdir()
    port = free_port()
    settings = {"http_port": port, "poll_interval": 0.1, "max_proc": 2}
    lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
    configuration = (ROOT / "deploy" / "scrapyd.conf").read_text().replace("0.0.0.0", "127.0.0.1")
    assert set(block("scrapyd.md", "scrapyd.conf").splitlines()) <= set(configuration.splitlines())
    (folder / "scrapyd.conf").write_text(configuration + lines)
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapyd"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watchdog = Timer(TIMEOUT_SECONDS, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        while "Scrapyd" not in (line := process.stdout.readline()) or "started" not in line:
            assert line, "Scrapyd did not start"
        yield Scrapyd(folder, port, process)
    finally:
        watchdog.cancel()
        process.terminate()
        process.communicate()
