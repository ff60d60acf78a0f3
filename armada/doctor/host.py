"""Check one host, from the connection to the disk. `judge` is pure, so each of its findings is tested."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from armada.doctor.findings import Finding, Report, fail, ok, warn
from armada.errors import (
    ArmadaError,
    AuthenticationFailed,
    HostKeyChanged,
    HostUnreachable,
    NothingThere,
    UnexpectedAnswer,
)
from armada.foundation.sanitize import sanitize_line
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.config.hosts import Host
    from armada.doctor.measure import Measured
    from armada.paths import HomePaths
    from armada.protocol.facts import Facts
    from armada.protocol.host import Examination
    from armada.protocol.scheduler import ClusterQueue

CLOCK_S = 120.0
LOW_BYTES = 5_000_000_000
LOW_INODES = 50_000
OLDEST_RSYNC = (3, 1)
FEW_SESSIONS = 4
CANNOT_LAUNCH = 3
_WHERE = "hosts.yaml"
_DOUBTS_SHOWN = 20


def unasked(host: Host, why: str) -> Report:
    """Return the report about a host that is left alone: all that is known is why."""
    return Report(host.name, (ok("agent", f"not asked: {why}"),), ssh=host.ssh)


def examine(host: Host, home: HomePaths, say: Callable[[str], None], wiped: str | None = None) -> Report:
    """Log in, check everything, and measure the connection. A host's behaviour never raises an error.

    Args:
        host: The host.
        home: Home's folders.
        say: Receives what is done at the moment.
        wiped: A sentence, if this home deleted everything there. Then nothing is created on a host that has no files
            of armada, and only the connection is checked.
    """
    from armada.doctor.measure import measure
    from armada.monitor.queue import look_at_queue
    from armada.protocol.facts import AskFacts
    from armada.protocol.host import Examine
    from armada.rpc.session import HostSession

    findings: list[Finding] = []
    measured: Measured | None = None
    with HostSession(host, home, patience_s=0, looks=wiped is not None) as session:
        try:
            say("logging in")
            facts = session.call(AskFacts(), timeout_s=180.0)
            say("looking")
            seen = session.call(Examine(), timeout_s=60.0)
            queue = look_at_queue(session) if host.batch is not None else None
            say("measuring")
            measured = measure(session, home)
            findings += judge(host, facts, seen, measured, queue=queue, noise=session.noise)
            code = CANNOT_LAUNCH if any(finding.outcome == "fail" for finding in findings) else 0
        except NothingThere:
            findings.append(ok("connection", "it answers"))
            findings.append(ok("agent", f"nothing of armada's is there: {wiped}"))
            code = 0
        except UnexpectedAnswer as error:
            findings.append(fail("agent", error.message, error.hint))
            code = CANNOT_LAUNCH
        except ArmadaError as error:
            findings.append(_refusal(host, error))
            code = error.exit_code
        except (KeyError, TypeError, ValueError) as error:
            # Something else than our agent answers, or the agent may not work there: still check the other hosts.
            findings.append(
                fail("agent", f"its answer is not a valid agent's answer ({type(error).__name__}: {error})")
            )
            code = CANNOT_LAUNCH
        noise, banner = session.noise, session.banner
    return Report(host.name, tuple(findings), code, noise, banner, measured, host.ssh)


def _refusal(host: Host, error: ArmadaError) -> Finding:
    """Return the finding for an error that prevents the examination."""
    subject = "agent"
    if isinstance(error, HostKeyChanged):
        subject = "host key"
    elif isinstance(error, AuthenticationFailed):
        subject = "login"
    elif isinstance(error, HostUnreachable):
        subject = "connection"
    look = None if host.ssh is None else f"ssh -v {shlex.quote(host.ssh.rpartition(':')[0] or host.ssh)}"
    return fail(subject, error.message, sanitize_line(error.hint) if error.hint else look)


def judge(
    host: Host,
    facts: Facts,
    seen: Examination,
    measured: Measured,
    *,
    queue: ClusterQueue | None = None,
    noise: str = "",
) -> list[Finding]:
    """Convert a host's answers to findings. The answers are untrusted until they are sanitized.

    Args:
        host: The host's configuration.
        facts: The answer to `host.facts`.
        seen: The answer to `host.examine`.
        measured: The measurements of the link.
        queue: The answer of its batch system, if it has one.
        noise: The output of its start-up files.
    """
    who = f"{sanitize_line(facts.user, 60)} at {sanitize_line(facts.hostname, 100)}"
    findings = [ok("connection", f"{who}; {_link(measured)}"), _key(host)]
    findings += [
        _clock(measured),
        ok("agent", f"runs on Python {sanitize_line(facts.python, 40)} ({facts.machine})"),
    ]
    findings += [_shell(seen, noise), *_variables(seen), _setup(host, facts)]
    findings += [
        _root(host, seen),
        *_owners(facts),
        _disk(seen),
        _inodes(seen),
        *_quota(seen),
        _locks(seen),
        *_mounts(seen),
    ]
    findings += [_umask(seen), _rsync(host, facts), _sessions(seen), _logout(host, seen), _leftovers(seen)]
    if host.batch is not None:
        findings.append(_batch(host, queue))
    return findings


def _link(measured: Measured) -> str:
    low, high = measured.spread_s
    text = f"round trip {_ms(measured.round_trip_s)} (median of 7, {_ms(low)} to {_ms(high)})"
    if measured.down_bytes_per_s is not None and measured.up_bytes_per_s is not None:
        text += f", {amount(measured.down_bytes_per_s)}/s from it, {amount(measured.up_bytes_per_s)}/s to it"
        text += " (held back by bwlimit)" if measured.limited else " (one connection)"
    return text


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"


def _key(host: Host) -> Finding:
    return ok("host key", "this machine: none is needed" if host.local else "is the pinned one")


def _clock(measured: Measured) -> Finding:
    off_s = measured.clock_off_s
    if abs(off_s) > CLOCK_S:
        direction = "ahead" if off_s > 0 else "behind"
        return warn(
            "clock", f"{span(abs(off_s))} {direction} of home's", "sudo timedatectl set-ntp true  # on the host"
        )
    return ok("clock", f"agrees with home's to {max(abs(off_s), measured.spread_s[0] / 2):.3f} s")


def _shell(seen: Examination, noise: str) -> Finding:
    shell = sanitize_line(seen.shell or "unknown", 100)
    if noise:
        return warn(
            "shell",
            f"{shell}; its start-up files print {len(noise.encode())} bytes where programs expect none (shown below): rsync and "
            "scp fail there, armada works",
            "put this at the top of its ~/.bashrc: case $- in *i*) ;; *) return ;; esac",
        )
    return ok("shell", f"{shell}, silent")


def _variables(seen: Examination) -> list[Finding]:
    variables = seen.variables
    found = []
    if left_out := variables.get("ARMADA_LEFT_OUT"):
        found.append(
            warn(
                "libraries",
                f"LD_LIBRARY_PATH={sanitize_line(left_out, 200)} keeps the host's own python3 from working; armada leaves it out",
                "take LD_LIBRARY_PATH out of the start-up files there, or set it in `setup:` of hosts.yaml for what needs it",
            )
        )
    found += [
        warn(
            "libraries",
            f"{name}={sanitize_line(variables[name], 200)} is set at login for every run and overrides an environment's libraries",
            f"take {name} out of the start-up files there",
        )
        for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")
        if variables.get(name)
    ]
    if prefix := variables.get("CONDA_PREFIX"):
        name = sanitize_line(variables.get("CONDA_DEFAULT_ENV") or "an environment", 60)
        found.append(
            warn(
                "conda",
                f"{name} is active at login ({sanitize_line(prefix, 200)}); environments are built without it, commands see it",
                "conda config --set auto_activate_base false  # on the host",
            )
        )
    found += [
        ok("variables", f"{name}={sanitize_line(variables[name], 200)} is left out of builds and runs")
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        if variables.get(name)
    ]
    return found or [ok("variables", "no LD_LIBRARY_PATH, LD_PRELOAD, conda or PYTHONPATH at login")]


def _setup(host: Host, facts: Facts) -> Finding:
    if facts.setup:
        return fail("setup", facts.setup, f"fix `setup:` of {host.name} in {host.origin or _WHERE}")
    return ok(
        "setup",
        f"{counted(len(host.setup), 'line')} of shell, none failed" if host.setup else "no lines are configured",
    )


def _root(host: Host, seen: Examination) -> Finding:
    root = seen.root
    where = f"{sanitize_line(root.path, 200)} on {sanitize_line(root.kind or 'an unknown file system', 40)}"
    move = f"set `root:` of {host.name} in {host.origin or _WHERE} to a folder on a local disk"
    if root.problem:
        return fail("root", f"{where}: {root.problem}", move)
    if root.is_shared and host.batch is None:
        return warn(
            "root",
            f"{where}, which other machines share: slower, and it is harder to tell whether a run is alive",
            move,
        )
    if not root.is_shared and host.batch is not None:
        look = f"ls -d {shlex.quote(str(root.path))}"
        how = {
            "slurm": f"srun {look}  # on the host",
            "htcondor": f"condor_submit -interactive  # on the host; then, on the worker that you get: {look}",
        }
        return warn("root", f"{where}: check that its workers see that folder too", how[host.scheduler])
    return ok("root", f"{where}: writable, and programs run there")


def _owners(facts: Facts) -> list[Finding]:
    """Report who else may write to folders above the root. Folders that armada refuses end the examination earlier."""
    away = "use a `root:` in your own folder, or ask that folder's owner to run the command above"
    found = [warn("owners", doubt, away) for doubt in facts.doubts[:_DOUBTS_SHOWN]]
    return found or [ok("owners", "no other user can write in the root or replace it")]


def _disk(seen: Examination) -> Finding:
    root = seen.root
    free, total = root.free_bytes, root.total_bytes
    if free is None or total is None:
        return warn("disk", "the free space is unknown")
    text = f"{amount(free)} of {amount(total)} free"
    if free < LOW_BYTES:
        return warn(
            "disk",
            f"{text}: an environment alone needs more",
            _on(seen, "du -xh --max-depth=2 {root} | sort -h | tail"),
        )
    return ok("disk", text)


def _inodes(seen: Examination) -> Finding:
    root = seen.root
    free, total = root.free_inodes, root.total_inodes
    if free is None or not total:
        return ok("inodes", "this file system does not count inodes")
    if free < LOW_INODES:
        return warn(
            "inodes",
            f"{free:,} of {total:,} free: an environment has 40,000 files",
            _on(seen, "du --inodes -d 2 {root}"),
        )
    return ok("inodes", f"{free:,} of {total:,} free")


def _quota(seen: Examination) -> list[Finding]:
    if not seen.quota:
        return []
    text = str(seen.quota)
    lines = [sanitize_line(line, 200) for line in text.splitlines() if line.strip()]
    # quota(1) marks a value above its soft limit with a star.
    if any("*" in line for line in lines):
        return [warn("quota", f"over: {lines[-1]}", "quota -s  # on the host; then delete, or ask for more")]
    return [ok("quota", lines[-1] if lines else "none")]


def _locks(seen: Examination) -> Finding:
    has_locks = seen.root.has_locks
    if has_locks is False:
        return warn(
            "locks",
            "the root's file system has no locks: armada works without them, but two builds at once may repeat each other's work",
            "set `root:` to a folder on another file system, or mount this one with locks (nfs: local_lock=flock)",
        )
    return ok("locks", "work on the root" if has_locks else "not tested")


def _mounts(seen: Examination) -> list[Finding]:
    found = []
    home, tmp = seen.home, seen.tmp
    if not home.is_writable or "ro" in home.options:
        found.append(
            warn(
                "home folder",
                f"{sanitize_line(home.path, 200)} is not writable: caches of other programs fail there",
                "give runs HF_HOME and XDG_CACHE_HOME in `env:`, and the host a `root:` elsewhere",
            )
        )
    if "noexec" in tmp.options:
        found.append(
            ok("tmp", "is mounted noexec; armada runs nothing from it (for your own programs: env: {TMPDIR: …})")
        )
    if not tmp.is_writable:
        found.append(warn("tmp", "cannot be written", "env: {TMPDIR: …} in experiments"))
    return found


def _umask(seen: Examination) -> Finding:
    return ok("umask", f"{sanitize_line(seen.umask, 8)} at login; armada's own files are private in any case")


def _rsync(host: Host, facts: Facts) -> Finding:
    if host.local:
        return ok("rsync", "not needed: files are copied")
    version = facts.tools.rsync
    if not version:
        return warn(
            "rsync",
            "not installed: files are sent as a tar stream, which sends changed files whole",
            "sudo apt-get install rsync  # on the host",
        )
    numbers = tuple(int(part) for part in str(version).split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST_RSYNC:
        return warn(
            "rsync",
            f"{sanitize_line(version, 20)} is older than 3.1: files are sent as a tar stream",
            "sudo apt-get install rsync  # on the host",
        )
    return ok("rsync", sanitize_line(version, 40))


def _sessions(seen: Examination) -> Finding:
    sessions, startups = seen.max_sessions, sanitize_line(seen.max_startups or "10:30:100", 20)
    if isinstance(sessions, int) and sessions < FEW_SESSIONS:
        return warn(
            "sshd",
            f"MaxSessions {sessions}: several commands at once wait for each other",
            "MaxSessions 10 in /etc/ssh/sshd_config",
        )
    return ok("sshd", f"MaxSessions {sessions or '10 (the default, or not readable)'}, MaxStartups {startups}")


def _logout(host: Host, seen: Examination) -> Finding:
    if seen.ends_processes_at_logout and host.batch is None:
        return fail(
            "logout",
            "systemd ends your processes there at logout (KillUserProcesses=yes): runs would die with the connection",
            "loginctl enable-linger  # on the host",
        )
    return ok("logout", "runs outlive the connection; tmux and linger are not needed")


def _leftovers(seen: Examination) -> Finding:
    left = seen.leftovers
    if not left.count:
        return ok("leftovers", "no temporary files older than a day")
    names = ", ".join(sanitize_line(name, 80) for name in left.names[:3])
    find = (
        "find {root} -maxdepth 2 \\( -name '.new-*' -o -name '.part-*' -o -name '.trash-*' -o -name '*.tmp' -o -name '*.part' \\) "
        "-mtime +0 -exec rm -rf {{}} +"
    )
    said = f"{left.count} temporary files older than a day, {amount(left.size_bytes)}: {names}"
    return warn("leftovers", said, _on(seen, find))


def _batch(host: Host, queue: ClusterQueue | None) -> Finding:
    problem = queue.error if queue is not None else None
    if queue is None or problem:
        return fail(
            "batch system",
            f"{host.scheduler} does not answer: {sanitize_line(problem or 'it said nothing', 300)}",
            f"check `scheduler:` and `setup:` in {host.origin or _WHERE}",
        )
    return ok("batch system", f"{host.scheduler} answers")


def _on(seen: Examination, command: str) -> str:
    return command.format(root=shlex.quote(sanitize_line(seen.root.path, 400))) + "  # on the host"
