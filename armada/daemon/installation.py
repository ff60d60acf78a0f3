"""Install the daemon as a login service: a systemd user service on Linux, a launch agent on macOS."""

from __future__ import annotations

import os
import plistlib
import shlex
import sys
from pathlib import Path

from armada.daemon import instance
from armada.daemon.journal import log_file
from armada.daemon.variables import locating
from armada.foundation.atomic_write import write_atomically
from armada.paths import HomePaths

WATCHDOG_S = 120
LABEL = "armada.daemon"


def systemd_unit(python: str, environment: dict[str, str]) -> str:
    """Return the unit's text. It prevents restarts after exit 2 or 8 (an invalid file, another daemon), which would not help."""
    variables = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in sorted(environment.items()))
    return f"""[Unit]
Description=armada: watches hosts and brings checkpoints home

[Service]
Type=notify
NotifyAccess=main
ExecStart={_quoted(python, command=True)} -m armada daemon run
{variables}WatchdogSec={WATCHDOG_S}
Restart=on-failure
RestartSec=10
RestartPreventExitStatus=2 8
WorkingDirectory=/
UMask=0077

[Install]
WantedBy=default.target
"""


def launchd_plist(python: str, environment: dict[str, str], log: Path) -> bytes:
    return plistlib.dumps(
        {
            "Label": LABEL,
            # launchd never rotates what it takes of stderr: only what the log cannot have goes there.
            "ProgramArguments": [python, "-m", "armada", "daemon", "run", "--quiet"],
            "EnvironmentVariables": environment,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "StandardErrorPath": str(log.with_name("launchd.log")),
            "WorkingDirectory": "/",
        }
    )


def install(home: HomePaths) -> tuple[Path, list[str]]:
    """Write the service file for this user.

    Returns:
        The file, and the commands that the user runs next: the service is not enabled automatically.
    """
    kept = {name: os.environ[name] for name in ("PATH",) if os.environ.get(name)} | locating(os.environ, home)
    # One that a person started, which holds its place until it is told to stop; the service would end at once.
    first = ["armada daemon stop"] if instance.is_held(home) else []
    if sys.platform == "darwin":
        place = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        domain = f"gui/{os.getuid()}"
        # launchd keeps the former file until then, takes no label twice, and starts none again that was stopped.
        former = [f"launchctl bootout {domain}/{LABEL}"] if place.exists() else []
        _write(place, launchd_plist(sys.executable, kept, log_file(home)))
        return place, [*first, *former, f"launchctl bootstrap {domain} {shlex.quote(str(place))}"]
    usual = Path.home() / ".config"
    named = Path(os.environ.get("XDG_CONFIG_HOME") or usual)
    base = named if named.is_absolute() else usual
    place = base / "systemd" / "user" / "armada.service"
    _write(place, systemd_unit(sys.executable, kept).encode())
    # systemd's own environment may lack the variable; of a file that it finds itself, it makes no link.
    linked = [f"systemctl --user link {shlex.quote(str(place))}"] if base != usual else []
    return place, [
        *first,
        *linked,
        "systemctl --user daemon-reload",
        "systemctl --user enable --now armada",
        "loginctl enable-linger      # so that it keeps running when you log out",
    ]


def _quoted(text: str, *, command: bool = False) -> str:
    """Escape a text for systemd: `%` begins a specifier, and in a command `$` begins a variable."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{plain.replace("$", "$$") if command else plain}"'


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, content, mode=0o666, durable=False)
