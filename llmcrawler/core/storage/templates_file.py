"""Reads and writes the file of learned templates: a part for people, then the state that the next crawl goes on with.

{"format": "llmcrawler-templates", "version": 1,
 "sites": {"example.com": [{"template": "t1", "page_type": "product", "selectors": ...}, ...]},
 "state": {"example.com": "base64 of zlib of JSON"},
 "corrections": {"example.com": {"t1": {"by": "person", "page_type": "product", ...}}}}

Crawls replace what they have learned of their sites; what a person has corrected is kept as it stands in the file.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from llmcrawler.core.storage.job_file import recovery_of
from llmcrawler.core.storage.shared_file import replace_file, temporary_of
from llmcrawler.errors import ConfigError

FORMAT = "llmcrawler-templates"
VERSION = 1  # to be raised with the fingerprint of pages too: other features make every stored page a stranger

_LOCK_SECONDS = 10.0
_MAX_STATE_BYTES = 2**28  # unpacked; a site of 20,000 pages takes some 2 MB


@dataclass(frozen=True, slots=True)
class SiteState:
    """The templates of one site that a crawl has learned, as plain JSON: `templates` for people, `state` for crawls.
    `corrections` are those it began with; they count only where the site is new in the file, as under another port."""

    templates: list[dict[str, Any]]
    state: dict[str, Any]
    corrections: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSite:
    """The templates of one site as they stand in the file, with the state packed; `corrections` by template."""

    templates: list[dict[str, Any]]
    packed: str
    corrections: Mapping[str, Any] = field(default_factory=dict)

    def now(self, template: str) -> str:
        """Return the template that another one was merged into, or that one itself."""
        found = (one["template"] for one in self.templates if template in (one.get("aliases") or ()))
        return next(found, template)

    def state(self) -> dict[str, Any]:
        """Unpack the state. Raises ValueError where it is damaged."""
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(base64.b64decode(self.packed, validate=True), _MAX_STATE_BYTES)
            value = json.loads(text) if unpacker.eof else None
        except (binascii.Error, zlib.error, RecursionError) as error:
            raise ValueError(str(error)) from error
        if not isinstance(value, dict):
            raise ValueError("it is cut off")
        return value


class TemplatesFile:
    """A file that several crawls may use at the same time: each replaces its own sites."""

    def __init__(self, path: Path, setting: str = "TEMPLATES_FILE") -> None:
        self.path = path
        self._setting = setting

    def load(self) -> dict[str, StoredSite]:
        """Return the sites of the file; none where it does not exist yet. Raises ConfigError for any other file."""
        text = self._read()
        if not text.strip():
            return {}
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.refusal(f"is damaged or not a file of learned templates ({error})") from error
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise self.refusal("is not a file of learned templates")
        if value.get("version") != VERSION:
            found = f"has format {value.get('version')!r}"
            raise self.refusal(f"{found}, and this release of llmcrawler reads format {VERSION}")
        people, machine, corrections = value.get("sites"), value.get("state"), value.get("corrections", {})
        if not isinstance(people, dict) or not isinstance(machine, dict) or people.keys() != machine.keys():
            raise self.refusal("is damaged (sites and state do not match)")
        for name, templates in people.items():
            entries = templates if isinstance(templates, list) else [None]
            named = all(isinstance(one, dict) and isinstance(one.get("template"), str) for one in entries)
            is_corrected = isinstance(corrections, dict) and isinstance(corrections.get(name, {}), dict)
            if not named or not isinstance(machine[name], str) or not is_corrected:
                raise self.refusal(f"is damaged (in the site {name})")
        return {name: StoredSite(people[name], machine[name], corrections.get(name, {})) for name in people}

    def check_writable(self) -> None:
        """Raise ConfigError where `save` could not write, so that a crawl does not fail with that at its end."""
        target = self.path.resolve()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                if target.exists() and not os.access(target, os.W_OK):
                    raise PermissionError("the file is not writable")
                temporary_of(self.path).write_bytes(b"")
                temporary_of(self.path).unlink()
        except (OSError, Timeout) as error:
            raise self.refusal(
                f"cannot be written ({_reason(error)})", "name a file in a folder that you can write to"
            ) from error

    def save(self, sites: Mapping[str, SiteState]) -> None:
        """Replace these sites in the file, as a whole or not at all. Raises OSError where the disk does not let it,
        ConfigError where the file has become something else meanwhile.
        """
        packed = {name: StoredSite(one.templates, _pack(one.state), one.corrections) for name, one in sites.items()}
        with self._locked():
            stored = self.load()
            for name, site in packed.items():
                corrections = stored[name].corrections if name in stored else site.corrections
                stored[name] = replace(site, corrections=corrections)
            self._write(stored)

    def correct(self, site: str, change: Callable[[StoredSite], Mapping[str, Any]]) -> None:
        """Replace the corrections of a site by what `change` makes of it. Raises as `save`, and ConfigError where the
        file has no such site.
        """
        with self._locked():
            stored = self.load()
            if site not in stored:
                raise ConfigError(f"site: {self.path} has no templates of {site}; it has {', '.join(stored) or 'none'}")
            stored[site] = replace(stored[site], corrections=change(stored[site]))
            self._write(stored)

    def _write(self, sites: Mapping[str, StoredSite]) -> None:
        stored = dict(sorted(sites.items()))
        corrections = {name: site.corrections for name, site in stored.items() if site.corrections}
        value = {
            "format": FORMAT,
            "version": VERSION,
            "sites": {name: site.templates for name, site in stored.items()},
            "state": {name: site.packed for name, site in stored.items()},
            **({"corrections": corrections} if corrections else {}),
        }
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
        data = f"{text}\n".encode("utf-8", "backslashreplace")
        if not self.path.exists() or self.path.read_bytes() != data:
            # It may overwrite what a killed crawl has left beside it, as the lock is held.
            replace_file(self.path, data)

    def refusal(self, what: str, cure: str = "") -> ConfigError:
        other = recovery_of(self.path.parent) if self._setting == "JOBDIR" else "name another file"
        cure = cure or f"it is left as it is: {other}, or remove it to learn anew"
        return ConfigError(f"{self._setting}={self.path}: {what}; {cure}")

    def _read(self) -> str:
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise self.refusal("is a folder or a device", "name a file")
            return self.path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise self.refusal("is not a file of learned templates (it is no text)") from error
        except OSError as error:
            raise self.refusal(f"cannot be read ({_reason(error)})", "name a file that you can read") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        target = self.path.resolve()
        lock = FileLock(target.with_name(f".{target.name}.lock"), timeout=_LOCK_SECONDS)
        try:
            lock.acquire()
        except NotImplementedError as error:
            raise OSError("its file system has no locks") from error
        try:
            yield
        finally:
            lock.release()


def _pack(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def _reason(error: OSError | Timeout) -> str:
    return "another crawl has locked it" if isinstance(error, Timeout) else error.strerror or str(error)
