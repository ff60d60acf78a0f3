"""Check home: programs, store, disk, daemon, files and their permissions."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import sqlite3
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

from armada import __version__
from armada.doctor.findings import Finding, Report, fail, ok, warn
from armada.errors import ArmadaError, ConfigError
from armada.foundation.extras import install_command
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.paths import HomePaths

LOW_BYTES = 5_000_000_000
OLDEST_RSYNC = (3, 1)
OLDEST_SSH = (7, 3)  # the first with ProxyJump and Include
_OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_REBUILDS = "armada recover"
"""It needs a damaged store where it is: what only home knew is carried over from it."""
BAD_FILE = 2
CANNOT_WORK = 3


def examine_home(home: HomePaths, project: Path) -> tuple[Report, dict[str, Host]]:
    """Check this machine.

    Args:
        home: Home's folders.
        project: The folder that may contain armada.yaml.

    Returns:
        The report, and the hosts whose configuration is valid.
    """
    findings = [
        _python(),
        _program("ssh", ["ssh", "-V"], OLDEST_SSH),
        _program("rsync", ["rsync", "--version"], OLDEST_RSYNC),
    ]
    configuration, hosts = _configuration(home, project)
    findings += [
        *configuration,
        *_unwritable(home),
        _store(home),
        _disk(home),
        _daemon(home),
        *_permissions(home, hosts),
    ]
    code = 0
    if any(finding.outcome == "fail" for finding in findings):
        code = BAD_FILE if any(f.outcome == "fail" and f.subject == "configuration" for f in findings) else CANNOT_WORK
    return Report("home", tuple(findings), code), hosts


def _python() -> Finding:
    return ok("python", f"{platform.python_version()} ({sys.executable}), armada {__version__}")


def _program(name: str, argv: list[str], oldest: tuple[int, int]) -> Finding:
    remedy = f"sudo apt-get install {'openssh-client' if name == 'ssh' else name}"
    path = shutil.which(name)
    judge_missing = fail if name == "ssh" else warn
    if path is None:
        effect = "no host can be reached" if name == "ssh" else "files are sent as tar streams"
        return judge_missing(name, f"is not installed: {effect}", remedy)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        return judge_missing(name, f"{path} does not run: {error}", remedy)
    version = re.search(r"(?:OpenSSH_|version v?)(\d+)\.(\d+)\S*", done.stdout + done.stderr)
    if version is None:
        return judge_missing(name, f"{path} prints a version that armada does not recognise", remedy)
    if (int(version[1]), int(version[2])) < oldest:
        return judge_missing(name, f"{version[0]} is older than {oldest[0]}.{oldest[1]}", remedy)
    return ok(name, f"{version[0]} ({path})")


def _configuration(home: HomePaths, project: Path) -> tuple[list[Finding], dict[str, Host]]:
    """Read every file that the user wrote, as commands read it."""
    from armada.config.hosts import PROJECT_FILE, find_shadowed, load_hosts
    from armada.config.profiles import list_profiles, load_profile

    findings: list[Finding] = []
    hosts: dict[str, Host] = {}
    try:
        hosts = load_hosts(home, project)
        read = [str(file) for file in (home.hosts_file, project / PROJECT_FILE) if file.exists()]
        findings.append(
            ok("configuration", f"{counted(len(hosts), 'host')} from {', '.join(read) or 'no file: only `local`'}")
        )
        for twice in find_shadowed(home, project):
            words = sanitize_line(twice.words, 600)
            remedy = f"give {twice.name} another name in one of the two files"
            findings.append(warn("configuration", words, remedy) if twice.elsewhere else ok("configuration", words))
    except ConfigError as error:
        findings.append(fail("configuration", str(error), error.hint))
    findings.append(_notifications(home))
    for name in list_profiles(home):
        try:
            load_profile(name, home)
        except ArmadaError as error:
            findings.append(fail("configuration", str(error), error.hint))
    return findings, hosts


def _notifications(home: HomePaths) -> Finding:
    from armada.notifications.settings import load_settings

    try:
        settings = load_settings(home)
    except ConfigError as error:
        return fail("configuration", str(error), error.hint)
    if settings is None:
        return ok("configuration", "notifications are not set up")
    if settings.urls and importlib.util.find_spec("apprise") is None:
        what = f"{home.notifications_file} names services, but apprise is not installed: they get no notifications"
        return warn("configuration", what, install_command("notify"))
    return ok("configuration", "notifications can be sent")


def _unwritable(home: HomePaths) -> list[Finding]:
    """Say that home cannot be written; nothing where it can."""
    from armada.store.read_only import is_read_only

    if not is_read_only(home.store):
        return []
    what = f"{home.state} is not writable (a read-only file system, or another user's folder): no host was asked"
    return [fail("home", what, "set ARMADA_HOME to another folder, or make this one writable")]


def _store(home: HomePaths) -> Finding:
    from armada.records.left_folders import left_folders
    from armada.store.database import Database
    from armada.store.integrity import quick_check
    from armada.store.read_only import is_read_only, open_copy

    left = left_folders(home)
    if not home.store.exists():
        if left is not None:
            return fail("store", left, _REBUILDS)
        return ok("store", f"{home.store} does not exist yet; the first command creates it")
    try:
        read_only = is_read_only(home.store)
        with open_copy(home.store) if read_only else Database(home.store, patience_s=5.0) as database:
            said, count = quick_check(database)
    except sqlite3.OperationalError as error:  # for example, its disk gives an error
        return fail("store", f"{home.store}: {error}", "armada store check")
    except (ArmadaError, sqlite3.DatabaseError) as error:
        return fail("store", f"{home.store}: {error}", getattr(error, "hint", None) or _REBUILDS)
    if said != "ok":
        return fail("store", f"{home.store} is damaged: {said}", _REBUILDS)
    if not count and left is not None:
        return warn("store", left, _REBUILDS)
    return ok("store", f"{home.store} is intact, {count:,} runs, {amount(home.store.stat().st_size)}")


def _disk(home: HomePaths) -> Finding:
    from armada.store.room import say_full

    try:
        status = os.statvfs(home.state)
    except OSError as error:
        return fail("disk", f"{home.state}: {error.strerror}")
    free = status.f_bavail * status.f_frsize
    text = f"{amount(free)} of {amount(status.f_blocks * status.f_frsize)} free at {home.state}"
    if status.f_files and status.f_favail < 1000:
        return fail(
            "disk",
            f"{text}, but only {status.f_favail} inodes: no file can be made",
            f"df -i {shlex.quote(str(home.state))}",
        )
    if say_full(home.store) is not None:
        remedy = "free space on it: armada sync ls shows what checkpoints take"
        return fail("disk", f"{text}: it is full, so nothing can be recorded", remedy)
    if free < LOW_BYTES:
        return warn("disk", f"{text}: checkpoints will not fit", "armada sync retention --dry-run")
    return ok("disk", text)


def _daemon(home: HomePaths) -> Finding:
    from armada.daemon.status import judge_twice

    judged = judge_twice(home)
    condition, status = judged.condition, judged.status
    if condition == "fresh" and status is not None:
        return ok("daemon", f"runs as process {status.pid}, {len(status.hosts)} hosts")
    if condition == "stale":
        age = span(judged.age_s) if judged.age_s is not None else "a while"
        return fail("daemon", f"is alive, but has done nothing for {age}", "armada daemon stop && armada daemon start")
    if condition in ("dead", "ended"):
        return warn("daemon", "is not running; nothing comes home automatically", "armada daemon start")
    return ok("daemon", "is not running yet; the first launch starts it")


def _permissions(home: HomePaths, hosts: Mapping[str, Host]) -> list[Finding]:
    """Check that only the owner can access files with secrets, and that only the owner can change files that establish trust."""
    private = [home.config, home.state, home.ssh, home.store, home.known_hosts, home.notifications_file]
    private += [host.identity for host in hosts.values() if host.identity is not None]
    found = []
    for path in dict.fromkeys(private):
        try:
            status = path.stat()
        except FileNotFoundError:
            if path.parent not in (home.config, home.state, home.ssh) and path not in (
                home.config,
                home.state,
                home.ssh,
            ):
                found.append(fail("permissions", f"the key {path} is not there", f"`identity:` in {home.hosts_file}"))
            continue
        except OSError as error:
            found.append(fail("permissions", f"{path}: {error.strerror}"))
            continue
        words = shlex.quote(str(path))
        if status.st_uid != os.getuid():
            found.append(warn("permissions", f"{path} belongs to another user", f"sudo chown {os.getuid()} {words}"))
        elif status.st_mode & _OPEN_TO_OTHERS and path.name != "known_hosts":
            found.append(
                warn(
                    "permissions", f"{path} can be read by others ({status.st_mode & 0o777:03o})", f"chmod go= {words}"
                )
            )
    return found or [ok("permissions", "only you can read the files that contain secrets")]
