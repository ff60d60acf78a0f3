"""The unit that `daemon install` writes, under a real systemd user manager in namespaces of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Armada

SYSTEMD = next((p for p in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd") if Path(p).exists()), None)

# Runs as the first process of its namespaces, so that everything it starts ends with it. The user manager wants a /run that
# says that this machine runs systemd.
DRIVER = r"""
import json, os, signal, subprocess, sys, time
from pathlib import Path

def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True)

def show(name):
    return run("systemctl", "--user", "show", "armada", "-p", name, "--value").stdout.strip()

def until(so):
    deadline = time.monotonic() + 180
    while not so():
        if time.monotonic() > deadline:
            print(json.dumps({"vain": run("systemctl", "--user", "status", "armada").stdout}), flush=True)
            sys.exit(1)
        time.sleep(0.1)

run("mount", "-t", "tmpfs", "tmpfs", "/run")
os.makedirs("/run/systemd/system")
os.makedirs("/run/user/0", mode=0o700)
manager = subprocess.Popen([sys.argv[1], "--user"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
deadline = time.monotonic() + 180
while run("systemctl", "--user", "is-system-running").stdout.strip() not in ("running", "degraded"):
    if manager.poll() is not None or time.monotonic() > deadline:
        print(json.dumps({"skip": "no systemd user manager can run here"}))
        sys.exit()
    time.sleep(0.1)

said = {}
armada = [sys.executable, "-m", "armada", "daemon"]
said["install"] = run(*armada, "install").returncode
short = Path(os.environ["XDG_CONFIG_HOME"], "systemd/user/armada.service.d/short.conf")
short.parent.mkdir()
short.write_text("[Service]\nWatchdogSec=15\nRestartSec=1\nTimeoutAbortSec=1\n")  # or the test would take minutes
run("systemctl", "--user", "daemon-reload")
said["start"] = run("systemctl", "--user", "enable", "--now", "armada").returncode
said["state"] = [show("ActiveState"), show("StatusText")]
said["status"] = run(*armada, "status").returncode
first = int(show("MainPID"))
os.kill(first, signal.SIGKILL)
until(lambda: show("NRestarts") == "1" and show("ActiveState") == "active")
second = int(show("MainPID"))
os.kill(second, signal.SIGSTOP)  # it lives and does nothing
until(lambda: show("NRestarts") == "2" and show("ActiveState") == "active")
said["pids"] = len({first, second, int(show("MainPID"))})
said["after"] = run(*armada, "status").returncode
other = subprocess.run([*armada, "run"], capture_output=True, text=True)
said["other"] = other.returncode
said["stop"] = run("systemctl", "--user", "stop", "armada").returncode
said["end"] = [show("ActiveState"), show("Result")]
said["gone"] = run(*armada, "status").returncode
print(json.dumps(said), flush=True)
"""


@pytest.mark.fault(
    "kill -9 and SIGSTOP of the daemon under systemd",
    "started anew at once; the frozen one after its watchdog's time",
)
@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
@pytest.mark.skipif(SYSTEMD is None or shutil.which("unshare") is None, reason="no systemd here")
@pytest.mark.takes_long("a systemd of its own starts, and waits its `RestartSec` after a kill")
def test_systemd_starts_the_unit_knows_when_it_is_ready_and_restarts_it(
    armada: Armada, record_property: Callable[[str, object], None]
) -> None:
    config = armada.folder / "config"
    config.mkdir()
    env = {
        **armada.env,
        "XDG_CONFIG_HOME": str(config),
        "XDG_RUNTIME_DIR": "/run/user/0",
        "DBUS_SESSION_BUS_ADDRESS": "",
    }
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = subprocess.run(
        [*namespaces, sys.executable, "-c", DRIVER, str(SYSTEMD)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        cwd=armada.folder,
    )
    if not done.stdout and done.stderr.startswith("unshare:"):
        pytest.skip(f"this machine lets root make no namespaces: {done.stderr}")
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    if "skip" in said:
        pytest.skip(said["skip"])
    store = armada.folder / "home" / "state" / "armada.db"
    assert said == {
        "install": 0,
        "start": 0,
        "state": ["active", f"watching from {store}"],
        "status": 0,
        "pids": 3,
        "after": 0,
        "other": 8,
        "stop": 0,
        "end": ["inactive", "success"],
        "gone": 7,
    }
    record_property("times", 2)
