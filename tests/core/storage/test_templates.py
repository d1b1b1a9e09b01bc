"""The file of learned templates on a real disk: whole or not at all, shared by crawls, never trampled on."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from llmcrawler.core.storage import SiteState, TemplatesFile
from llmcrawler.errors import ConfigError

ENTRY = {"template": "t1", "page_type": "product", "url_pattern": "/p/*/", "page_count": 3, "examples": ["/p/1/"]}
STATE = {"grouping": {"pages": 3, "names": ["html>body", "ein>ö", "lone>\udc80"]}, "verdicts": {"answers": []}}


def site(number: int = 1) -> SiteState:
    return SiteState([{**ENTRY, "page_count": number}], {**STATE, "number": number})


@pytest.fixture
def file(tmp_path: Path) -> TemplatesFile:
    return TemplatesFile(tmp_path / "learned.json")


def test_what_was_saved_can_be_loaded(file: TemplatesFile) -> None:
    file.save({"a.test": site(1), "b.test:8000": site(2)})
    loaded = {name: SiteState(stored.templates, stored.state()) for name, stored in file.load().items()}
    assert loaded == {"a.test": site(1), "b.test:8000": site(2)}


def test_no_file_and_an_empty_file_hold_nothing(file: TemplatesFile) -> None:
    assert file.load() == {}
    file.path.write_text("\n")
    assert file.load() == {}


def test_the_part_for_people_stands_first_and_reads_as_json(file: TemplatesFile) -> None:
    file.save({"a.test": SiteState([{**ENTRY, "url_pattern": "/größe/*"}], STATE)})
    text = file.path.read_text(encoding="utf-8")
    assert list(json.loads(text)) == ["format", "version", "sites", "state"]
    assert "/größe/*" in text
    assert text.index('"page_type": "product"') < text.index('"state"')


def test_the_same_state_gives_the_same_bytes_and_does_not_touch_the_file(file: TemplatesFile) -> None:
    file.save({"b.test": site(), "a.test": site()})
    before = file.path.stat()
    file.save({"a.test": site(), "b.test": site()})
    assert file.path.stat().st_mtime_ns == before.st_mtime_ns
    assert file.path.stat().st_ino == before.st_ino


def test_sites_of_other_crawls_are_kept(file: TemplatesFile) -> None:
    file.save({"a.test": site(1)})
    TemplatesFile(file.path).save({"b.test": site(2)})
    file.save({"a.test": site(3)})
    assert {name: stored.state()["number"] for name, stored in file.load().items()} == {"a.test": 3, "b.test": 2}


def test_crawls_that_save_at_the_same_time_lose_nothing(file: TemplatesFile) -> None:
    threads = [
        threading.Thread(target=lambda n=n: TemplatesFile(file.path).save({f"s{n}.test": site(n)})) for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.load().keys() == {f"s{n}.test" for n in range(12)}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"{", "damaged"),
        (b"[1, 2]", "not a file of learned templates"),
        (b'{"name": "package.json of somebody"}', "not a file of learned templates"),
        (b"\x00\xff\xfe", "not a file of learned templates"),
        (b"[" * 100_000, "damaged"),
        (b'{"format": "llmcrawler-templates", "version": 2, "sites": {}, "state": {}}', "has format 2, and"),
        (b'{"format": "llmcrawler-templates", "version": null}', "has format None, and"),
        (b'{"format": "llmcrawler-templates", "version": 1, "sites": {}}', "damaged"),
        (b'{"format": "llmcrawler-templates", "version": 1, "sites": {"a": []}, "state": {}}', "damaged"),
        (b'{"format": "llmcrawler-templates", "version": 1, "sites": {"a": [1]}, "state": {"a": ""}}', "site a"),
        (b'{"format": "llmcrawler-templates", "version": 1, "sites": {"a": []}, "state": {"a": 1}}', "site a"),
    ],
)
def test_what_is_not_ours_is_refused_and_left_as_it_is(file: TemplatesFile, content: bytes, named: str) -> None:
    file.path.write_bytes(content)
    for attempt in (file.load, lambda: file.save({"a.test": site()})):
        with pytest.raises(ConfigError) as refusal:
            attempt()
        assert f"TEMPLATES_FILE={file.path}" in str(refusal.value)
        assert named in str(refusal.value)
        assert "another file" in str(refusal.value)
    assert file.path.read_bytes() == content


@pytest.mark.parametrize(
    "spoil", [lambda text: text[:-9], lambda text: "AAAA" + text, lambda text: "", lambda text: "?"]
)
def test_a_damaged_state_is_a_value_error(file: TemplatesFile, spoil) -> None:
    file.save({"a.test": site()})
    value = json.loads(file.path.read_text())
    value["state"]["a.test"] = spoil(value["state"]["a.test"])
    file.path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=r"\w"):
        file.load()["a.test"].state()


@pytest.mark.parametrize("path", [os.curdir, os.devnull])
def test_a_folder_or_a_device_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="is a folder or a device"):
        TemplatesFile(Path(path)).load()


def test_a_folder_that_cannot_be_made_is_told_before_there_is_anything_to_save(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written .* a folder that you can write to"):
        TemplatesFile(tmp_path / "file" / "learned.json").check_writable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_is_told_before_there_is_anything_to_save(file: TemplatesFile) -> None:
    file.path.parent.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="cannot be written"):
            file.check_writable()
    finally:
        file.path.parent.chmod(0o700)


def test_a_check_makes_folders_and_leaves_no_file(tmp_path: Path) -> None:
    file = TemplatesFile(tmp_path / "new" / "folder" / "learned.json")
    file.check_writable()
    assert [one.name for one in file.path.parent.iterdir() if not one.name.endswith(".lock")] == []


def test_a_full_disk_leaves_the_old_file(file: TemplatesFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.save({"a.test": site(1)})
    before = file.path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.save({"a.test": site(2)})
    assert file.path.read_bytes() == before
    assert [one.name for one in file.path.parent.iterdir() if one.name.endswith(".tmp")] == []


@pytest.mark.server
def test_a_crawl_that_is_killed_while_it_saves_leaves_a_whole_file(file: TemplatesFile) -> None:
    file.save({"a.test": site(1)})
    program = (
        "import os, sys; from pathlib import Path; from llmcrawler.core.storage import SiteState, TemplatesFile\n"
        "os.fsync = lambda descriptor: (print('HALFWAY', flush=True), sys.stdin.read())\n"
        f"TemplatesFile(Path({str(file.path)!r})).save({{'a.test': SiteState([], {{'number': 2}})}})"
    )
    writer = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdin is not None
    assert writer.stdout.readline() == b"HALFWAY\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdin.close()
    writer.stdout.close()
    assert file.load()["a.test"].state()["number"] == 1
    file.save({"a.test": site(3)})
    assert file.load()["a.test"].state()["number"] == 3
    assert [one.name for one in file.path.parent.iterdir() if one.name.endswith(".tmp")] == []


def test_a_link_stays_a_link_and_the_mode_stays_the_mode(tmp_path: Path) -> None:
    real = TemplatesFile(tmp_path / "real.json")
    real.save({"a.test": site(1)})
    real.path.chmod(0o640)
    (tmp_path / "link.json").symlink_to(real.path)
    TemplatesFile(tmp_path / "link.json").save({"a.test": site(2)})
    assert (tmp_path / "link.json").is_symlink()
    assert real.load()["a.test"].state()["number"] == 2
    assert real.path.stat().st_mode & 0o777 == 0o640
