"""A folder of crawls that clients have asked for: what they may ask for, the queue, the processes, and resuming.

JOBS/ID/job.json   the job: what was asked for, and how far it is; beside it its log, its files, and `crawl`, its JOBDIR
JOBS/ID/stop       somebody wants it to end
JOBS/templates.json  what all jobs have learned

Everything is in these files, so several servers may share a folder: each takes jobs and tells of them, and the one that
has the folder's lock runs them. When that one ends, however it ends, another one goes on from the JOBDIRs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from reprlib import repr as shown
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from filelock import FileLock, Timeout
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from llmcrawler.api.python_crawl import QUIET_SETTINGS, CrawlLog, argument_text, close_crawl_process, crawl_process
from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.core.storage.job_file import is_locked, read_runs, read_value
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.shared_file import replace_file
from llmcrawler.core.urls.private_addresses import NameLookup, is_host_of, is_private_address, is_private_host
from llmcrawler.errors import ConfigError, JobRefused, JobsFull, NoSuchJob

ARGUMENTS: Final = (
    *("url", "urls", "depth", "allow", "deny", "goal", "max_records", "fields", "schema", "render"),
    *("match", "subdomains", "max_urls"),
)
_TEXT_CHARS: Final = 2_000  # of an argument
_PATTERN_CHARS: Final = 500  # of a regular expression: compiling it takes some milliseconds at most
_MAX_URLS: Final = 30_000  # of a map
_MAX_BYTES: Final = 2**20  # of all arguments
_MAX_CHARS: Final = 100_000  # of all but urls: read into memory, where the jobs are kept, JSON may take 30 times that
_TRIES: Final = 3  # starts of a crawl that somebody else ends, as the kernel does when memory is short
_TICK_SECONDS: Final = 0.2
_LEFT_SECONDS: Final = 3_600.0
_PLANNED_PAGES: Final = 20  # that a plan fetches
_STOP_SECONDS: Final = 60.0  # for the pages that are under way and what was learned; then the crawl is killed
_LOOKED_UP: Final = 20  # names of starts, before the crawl judges each address that it connects to
_ID: Final = re.compile(r"[0-9a-f]{24}")
_JOB, _LOG, _STOP = "job.json", "log", "stop"
_OWN_SETTINGS: Final = {**QUIET_SETTINGS, "FEEDS": "{}", "METRICS_PORT": "0", "METRICS_TEXTFILE": "", "REDIS_URL": ""}

T = TypeVar("T")
Spider = Literal["explore", "extract", "map", "plan"]
Moment = Annotated[float, Field(allow_inf_nan=False)]  # seconds since 1970

_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)  # making one takes milliseconds
logger = logging.getLogger(__name__)


def read_as(kind: type[T], given: Any) -> T:
    """Return what a client sent, or what a file holds, as a value of a type. Raises JobRefused, which names the part
    that is wrong.
    """
    try:
        value: T = _adapter(kind).validate_python(given)
    except ValidationError as error:
        fault = error.errors()[0]
        raise JobRefused(f"{'.'.join(map(str, fault['loc']))}={shown(fault['input'])}: {fault['msg']}") from error
    return value


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    is_fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    if not is_fine or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("it is no http or https URL (in ASCII, without a user)")
    return url


@dataclass(frozen=True, slots=True)
class JobBudget:
    """What one job may take: tokens and dollars of the model (0 of either: without a model), seconds of crawling."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    max_pages: Annotated[int, Field(strict=True, ge=1)]
    max_tokens: Annotated[int, Field(strict=True, ge=0)]
    max_cost_usd: Annotated[float, Field(strict=True, ge=0)]
    max_seconds: Annotated[float, Field(strict=True, ge=1)]


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the end of a job is told (webhooks.py), and what that is signed with; None: the server's token."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    url: Annotated[str, Field(max_length=2_000), AfterValidator(_check_url)]
    secret: Annotated[str, Field(min_length=16, max_length=2_000)] | None = None


DEFAULT_BUDGET: Final = JobBudget(100, 100_000, 0.05, 900.0)
MOST_BUDGET: Final = JobBudget(1_000, 500_000, 0.50, 3_600.0)


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What the operator allows. `hosts`: only these and their subdomains are crawled; () allows all. `allow_private`:
    hosts of this machine and its network too. `settings` are those of all crawls, by name.
    """

    default: JobBudget = DEFAULT_BUDGET
    most: JobBudget = MOST_BUDGET
    max_running: int = 2
    max_queued: int = 50
    max_ended: int = 200  # the newest are kept
    hosts: tuple[str, ...] = ()
    allow_private: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerJob:
    """A crawl that a client has asked for. `state` is queued, running, finished, failed or stopped; moments are seconds
    since 1970. `cause` says in words why it ended as it did; `origin` is mcp, api, firecrawl or page.
    """

    id: str
    folder: Path
    spider: Spider
    arguments: dict[str, Any]
    budget: JobBudget
    origin: str
    created: Moment
    state: Literal["queued", "running", "finished", "failed", "stopped"] = "queued"
    started: Moment | None = None
    ended: Moment | None = None
    exit_status: int | None = None
    cause: str = ""
    tries: int = 0  # ends that nobody had asked for
    webhook: Webhook | None = None

    @property
    def jobdir(self) -> Path:
        return self.folder / "crawl"

    @property
    def has_ended(self) -> bool:
        return self.state not in ("queued", "running")

    @property
    def is_short(self) -> bool:
        """Tell whether it fetches some pages at most: it does not wait until long crawls have ended."""
        return self.spider == "plan" or self.budget.max_pages == 1

    @property
    def starts(self) -> list[str]:
        """The urls that it starts from."""
        return _starts(self.arguments)

    def as_dict(self) -> dict[str, Any]:
        """Return what a client may see of it, as plain JSON: not its folder, nor the secret of its webhook."""
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("folder", "tries")}
        return {**told, "budget": asdict(self.budget), "webhook": self.webhook and {"url": self.webhook.url}}


class Jobs:
    """The jobs of a folder. All of its methods are for one event loop."""

    def __init__(self, folder: Path, limits: JobLimits, names: NameLookup | None = None) -> None:
        self.folder = folder.absolute()
        self.limits = limits
        self.names = names or NameLookup()
        self._known: dict[str, tuple[tuple[int, int], ServerJob]] = {}
        self._lock = FileLock(self.folder / ".lock")
        self._leading: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._is_closing = False

    @property
    def templates_file(self) -> Path:
        """The file of what all jobs have learned (TEMPLATES_FILE)."""
        return self.folder / "templates.json"

    @property
    def runs_jobs(self) -> bool:
        """Tell whether this server runs the jobs; else another one that has the folder does."""
        return self._lock.is_locked

    async def open(self) -> None:
        """Begin to run jobs; those that a server has left are resumed. Raises ConfigError for an unusable folder."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take_lock()
            for left in (*self.folder.glob(".new-*"), *self.folder.glob(".deleted-*")):
                if time.time() - left.stat().st_mtime > _LEFT_SECONDS:  # by a server that was killed
                    shutil.rmtree(left, ignore_errors=True)
        except OSError as error:
            raise ConfigError(f"the jobs folder {self.folder} cannot be used: {error.strerror or error}") from error
        self._leading = asyncio.create_task(self._lead())

    async def close(self) -> None:
        """Stop all crawls in an orderly way. The next server resumes them."""
        self._is_closing = True
        if self._leading is not None:
            self._leading.cancel()
            await asyncio.gather(self._leading, return_exceptions=True)
        await asyncio.gather(*self._running.values())
        self.names.close()
        self._lock.release()

    async def submit(
        self,
        spider: Spider,
        arguments: dict[str, Any],
        budget: Mapping[str, Any] | None = None,
        *,
        origin: str,
        webhook: Webhook | None = None,
    ) -> ServerJob:
        """Queue a crawl. `arguments` are those of ARGUMENTS that the spider has, as JSON has them: `url` a text or a
        list, `urls` a list, `schema` an object. `budget` has fields of JobBudget; what it lacks is the operator's.

        Raises JobRefused for all that may not be asked for, and JobsFull.
        """
        allowed = self.budget_of(budget or {})
        _check_arguments(arguments)
        hook_host = urlsplit(webhook.url).hostname if webhook is not None else None
        if hook_host is not None and not self.limits.allow_private and is_private_host(hook_host):
            raise JobRefused(f"webhook: {hook_host} is a private host")
        if len(_starts(arguments)) > allowed.max_pages:
            raise JobRefused(f"urls: {len(_starts(arguments))} are more than max_pages={allowed.max_pages}")
        if sum(job.state == "queued" for job in self.all()) >= self.limits.max_queued:
            raise JobsFull(f"{self.limits.max_queued} jobs are waiting: come again when some have ended")
        number = secrets.token_hex(12)
        folder = self.folder / f".new-{number}"
        job = ServerJob(number, folder, spider, arguments, allowed, origin, time.time(), webhook=webhook)
        try:
            folder.mkdir(mode=0o700)
            options = await asyncio.to_thread(_read_options, job)
            await self._check_hosts(urlsplit(url).hostname or "" for url in options.urls)
            _store(job)
            folder.rename(self.folder / number)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return self.get(number)

    def budget_of(self, asked: Mapping[str, Any]) -> JobBudget:
        """Return the budget of a job. Raises JobRefused for more than the operator allows."""
        most = asdict(self.limits.most)
        default = {name: min(value, most[name]) for name, value in asdict(self.limits.default).items()}
        given = {name: value for name, value in asked.items() if value is not None}
        if unknown := given.keys() - most:
            raise JobRefused(f"budget: no {min(unknown)!r}: there are {', '.join(most)}")
        budget = read_as(JobBudget, default | given)
        for name, value in given.items():
            if value > most[name]:
                raise JobRefused(f"{name}={value} is more than a job may have here: at most {most[name]:g}")
        return budget

    async def _check_hosts(self, hosts: Iterable[str]) -> None:
        """Raise JobRefused for a host that no job may ask. The crawl judges each address once more when it connects."""
        hosts = [*dict.fromkeys(hosts)]
        for host in hosts:
            if self.limits.hosts and not is_host_of(host, self.limits.hosts):
                raise JobRefused(f"{host} may not be crawled here: only {', '.join(self.limits.hosts)}")
            if not self.limits.allow_private and is_private_host(host):
                raise JobRefused(f"{host} is a private host, and may not be crawled here")
        if not self.limits.allow_private:
            looked_up = hosts[:_LOOKED_UP]
            found = await asyncio.gather(*map(self.names.addresses, looked_up))
            for host, addresses in zip(looked_up, found, strict=True):
                if any(map(is_private_address, addresses)):
                    raise JobRefused(f"{host} has a private address, and may not be crawled here")

    def get(self, job_id: str) -> ServerJob:
        """Return a job as it is now. Raises NoSuchJob."""
        job = self._read(job_id) if _ID.fullmatch(job_id) else None
        if job is None:
            raise NoSuchJob(f"there is no job {job_id[:40]!r}")
        return job

    def all(self) -> list[ServerJob]:
        """Return the jobs, the newest first."""
        with os.scandir(self.folder) as entries:
            found = [self._read(entry.name) for entry in entries if _ID.fullmatch(entry.name)]
        jobs = [job for job in found if job is not None]
        self._known = {job.id: self._known[job.id] for job in jobs}
        return sorted(jobs, key=lambda job: (job.created, job.id), reverse=True)

    async def stop(self, job_id: str, seconds: float = math.inf) -> ServerJob:
        """End a job, and wait that long for it: its pages that are under way are finished, and its lines are kept."""
        job = self.get(job_id)
        if not job.has_ended:
            with suppress(FileNotFoundError):  # it is being deleted
                (job.folder / _STOP).touch(mode=0o600)
        return await self.wait(job_id, seconds)

    async def delete(self, job_id: str) -> None:
        """End a job, and delete all that was kept of it."""
        job = await self.stop(job_id)
        await asyncio.to_thread(self._remove, job)

    async def wait(self, job_id: str, seconds: float) -> ServerJob:
        """Return the job when it has ended, or as it is after some seconds. Raises NoSuchJob, also meanwhile."""
        deadline = time.monotonic() + seconds
        while True:  # another server may run it, so there is nothing but its file to wait for
            job = self.get(job_id)
            if job.has_ended or time.monotonic() >= deadline:
                return job
            await asyncio.sleep(_TICK_SECONDS)

    def _read(self, job_id: str) -> ServerJob | None:
        path = self.folder / job_id / _JOB
        try:
            place = path.stat()
            stamp = place.st_ino, place.st_mtime_ns
            known = self._known.get(job_id)
            if known is None or known[0] != stamp:
                known = self._known[job_id] = stamp, _load(path, place.st_mtime)
        except OSError:  # it is deleted, or is not there
            self._known.pop(job_id, None)
            return None
        return known[1]

    def _change(self, job: ServerJob, **changes: Any) -> ServerJob:
        changed = replace(job, **changes)
        _store(changed)
        return changed

    def _remove(self, job: ServerJob) -> None:
        gone = self.folder / f".deleted-{job.id}"
        with suppress(OSError):  # another server was faster
            job.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _take_lock(self) -> None:
        with suppress(Timeout):
            self._lock.acquire(timeout=0)
            for job in self.all():
                if job.state == "running":  # its server has ended
                    self._change(job, state="queued")

    async def _lead(self) -> None:
        """Run jobs as long as this server has the lock, and take it as soon as it is free."""
        while not self._is_closing:
            try:
                if not self.runs_jobs:
                    self._take_lock()
                if self.runs_jobs:
                    await self._begin_and_tidy()
            except Exception:
                logger.exception("The jobs in %s cannot be run now", self.folder)
            await asyncio.sleep(_TICK_SECONDS if self.runs_jobs else 5 * _TICK_SECONDS)

    async def _begin_and_tidy(self) -> None:
        jobs = self.all()
        for job in reversed(jobs):  # the oldest first
            if job.has_ended or job.id in self._running:
                continue  # "running" is also one whose end could not be written
            if (job.folder / _STOP).exists():
                self._change(job, state="stopped", ended=time.time(), cause="stopped")
                continue
            running = sum(one.id in self._running and one.is_short == job.is_short for one in jobs)
            if running < self.limits.max_running and not is_locked(job.jobdir):
                task = self._running[job.id] = asyncio.create_task(self._run(job))
                task.add_done_callback(lambda _task, number=job.id: self._running.pop(number))  # type: ignore[misc]
        for job in [job for job in jobs if job.has_ended][self.limits.max_ended :]:
            await asyncio.to_thread(self._remove, job)

    async def _run(self, job: ServerJob) -> None:
        """Crawl until the job ends, somebody wants it to end, or this server does."""
        try:
            seconds = job.budget.max_seconds - await asyncio.to_thread(_seconds_of, job.jobdir)
            job = self._change(job, state="running", started=job.started or time.time())
            (job.folder / _LOG).touch(mode=0o600)
            process = crawl_process(self._argv(job, max(1.0, seconds)), job.folder / _LOG, umask=0o077)
            deadline = time.monotonic() + max(1.0, seconds) + _STOP_SECONDS  # for a crawl that hangs
            is_told = False
            while process.poll() is None:
                if not is_told and (self._is_closing or (job.folder / _STOP).exists()):
                    close_crawl_process(process)
                    is_told, deadline = True, time.monotonic() + _STOP_SECONDS
                if time.monotonic() > deadline:
                    process.kill()
                await asyncio.sleep(_TICK_SECONDS)
            close_crawl_process(process)
            self._note_end(job, process.returncode, await asyncio.to_thread(_cause_of, job))
        except Exception as error:
            logger.exception("Job %s", job.id)
            try:
                self._change(job, state="failed", ended=time.time(), cause=f"the crawl could not be run: {error}")
            except OSError:  # the disk is full, and the job is begun again
                await asyncio.sleep(5 * _TICK_SECONDS)

    def _note_end(self, job: ServerJob, status: int, cause: str) -> None:
        ended: dict[str, Any] = {"ended": time.time(), "exit_status": status, "cause": cause}
        is_cut = status == ExitStatus.INTERRUPTED or status < 0
        if (job.folder / _STOP).exists():
            self._change(job, state="stopped", **ended)
        elif status in (ExitStatus.FINISHED, ExitStatus.BUDGET, ExitStatus.ERRORS_SHARE):
            self._change(job, state="finished", **ended)
        elif self._is_closing or status == ExitStatus.BUSY:
            self._change(job, state="queued")
        elif is_cut and job.tries + 1 < _TRIES:
            self._change(job, state="queued", tries=job.tries + 1)
        else:
            self._change(job, state="failed", **ended)

    def _argv(self, job: ServerJob, seconds: float) -> list[str]:
        has_model = job.budget.max_tokens > 0 and job.budget.max_cost_usd > 0
        settings = {
            **self.limits.settings,
            **_OWN_SETTINGS,
            "ONLY_HOSTS": ",".join(self.limits.hosts or (() if self.limits.allow_private else ("*",))),
            "JOBDIR": str(job.jobdir),
            "TEMPLATES_FILE": str(self.templates_file),
            "CLOSESPIDER_TIMEOUT": f"{seconds:.0f}",
            "LLM_MAX_TOKENS": str(job.budget.max_tokens),
            "LLM_MAX_COST_USD": str(job.budget.max_cost_usd),
            **({} if has_model else {"LLM_PROVIDER": "none", "LLM_MAX_COST_USD": "0"}),
        }
        arguments = _write_arguments(job)
        start: list[str] = []
        if job.spider == "plan":
            url = arguments.pop("url")
            start = [f"--sample={_PLANNED_PAGES}", url if "://" in url else f"https://{url}"]
        options = [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
        options += [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
        return [job.spider, *start, *options]


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise JobRefused for what no client may ask for, before anything reads it."""
    for name, value in arguments.items():
        if name not in ARGUMENTS:
            there_are = f"a job takes {', '.join(ARGUMENTS)}; what it may take is its budget"
            raise JobRefused(f"no argument {str(name)[:80]!r}: {there_are}")
        if name == "schema" and not isinstance(value, dict):
            raise JobRefused("schema: give a JSON Schema as an object")
        if name != "schema":
            _check_value(name, value)
    try:
        size = len(json.dumps(arguments))
        others = len(json.dumps({**arguments, "urls": ""}))
    except (ValueError, RecursionError) as error:
        raise JobRefused(f"the arguments are no JSON: {error}") from error
    if size > _MAX_BYTES:
        raise JobRefused(f"the arguments have {size:,} characters: at most {_MAX_BYTES:,}")
    if others > _MAX_CHARS:
        raise JobRefused(f"the arguments have {others:,} characters without urls: at most {_MAX_CHARS:,}")
    if not _starts(arguments):
        raise JobRefused("no start URL: give a url, or urls, a list")


def _check_value(name: str, value: Any) -> None:
    is_single = name not in ("url", "urls", "goal", "fields")
    parts = value if isinstance(value, list) and not is_single else [value]
    if not all(isinstance(part, (str, int)) for part in parts):
        raise JobRefused(f"{name}: give a text{'' if is_single else ' or a list of texts'}")
    most = _PATTERN_CHARS if name in ("allow", "deny", "match") else _TEXT_CHARS
    if any(len(str(part)) > most for part in parts):
        raise JobRefused(f"{name}: a text of it has more than {most:,} characters")
    if not all(str(part).isprintable() for part in parts):
        raise JobRefused(f"{name}: it has characters that cannot be shown")


def _starts(arguments: Mapping[str, Any]) -> list[str]:
    given = [arguments.get("url") or [], arguments.get("urls") or []]
    return [str(url) for one in given for url in (one if isinstance(one, list) else [one])]


def _write_arguments(job: ServerJob) -> dict[str, str]:
    """Return the spider's arguments. What it takes as files is written beside the job."""
    given = {
        name: argument_text(value) for name, value in job.arguments.items() if name not in ("url", "urls", "schema")
    }
    if len(job.starts) == 1 and job.spider != "extract" and "," not in job.starts[0]:
        given["url"] = job.starts[0]
    else:
        given["urls"] = _write(job.folder / "urls.jsonl", "".join(f"{json.dumps(url)}\n" for url in job.starts))
    if "schema" in job.arguments:
        given["schema"] = _write(job.folder / "schema.json", json.dumps(job.arguments["schema"]))
    if job.spider != "extract":
        given["max_pages"] = str(job.budget.max_pages)
    return given


def _read_options(job: ServerJob) -> Any:
    """Read the arguments as the spider does, and return its options. Raises JobRefused."""
    from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions  # it loads Scrapy

    kinds: dict[str, type[ExploreOptions]] = {"extract": ExtractOptions, "map": MapOptions}
    try:
        options = kinds.get(job.spider, ExploreOptions).of(_write_arguments(job))
    except (ConfigError, RecursionError) as error:
        raise JobRefused(str(error).replace(f"{job.folder}/", "")) from error
    if job.spider == "plan" and (len(job.starts) > 1 or "," in job.starts[0]):
        raise JobRefused("url: a plan is of one url, without commas")
    if isinstance(options, MapOptions) and options.max_urls > _MAX_URLS:
        raise JobRefused(f"max_urls={options.max_urls} is too large: at most {_MAX_URLS}")
    return options


def _write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return str(path)


def _store(job: ServerJob) -> None:
    kept = {name: value for name, value in asdict(job).items() if name != "folder"}
    replace_file(job.folder / _JOB, json.dumps(kept).encode())
    (job.folder / _JOB).chmod(0o600)


def _load(path: Path, changed: float) -> ServerJob:
    """Return the job of a file; of a damaged one a failed job that says so. Raises OSError."""
    data = path.read_bytes()
    folder = path.parent
    try:
        job = read_as(ServerJob, {**json.loads(data), "id": folder.name, "folder": folder})
        _check_arguments(job.arguments)
    except (ValueError, TypeError, RecursionError, JobRefused) as error:
        cause = f"{_JOB} is damaged ({error}): delete the job, or mend the file"
        none = JobBudget(0, 0, 0.0, 0.0)
        return ServerJob(folder.name, folder, "explore", {}, none, "", changed, "failed", ended=changed, cause=cause)
    return job


def _seconds_of(jobdir: Path) -> float:
    """Return the seconds that the earlier runs of a crawl have taken."""
    try:
        with open_snapshot(jobdir) as connection:
            return sum(max(0.0, run.ended - run.started) for run in read_runs(connection))
    except ConfigError:  # it has had none, or is damaged, which the crawl says
        return 0.0


def _cause_of(job: ServerJob) -> str:
    """Return why a crawl has ended as it did, in one line."""
    with suppress(ConfigError), open_snapshot(job.jobdir) as connection:
        if read_value(connection, "reason") == "closespider_timeout":
            return f"ended after max_seconds={job.budget.max_seconds:g}"
    log = CrawlLog(job.folder / _LOG)
    try:
        for _text in log.progress():
            pass
        return log.cause[:500]
    finally:
        log.close()
