"""A box that tasks prepare: a file of tasks, and how a test asks for them. Its sshd is `tests.ssh_server`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.conftest import Armada
    from tests.ssh_server import SshServer

FABFILE = """\
import os
import time
from pathlib import Path

from fabric import task

import names


@task
def drivers(c, version="535"):
    print("driver", version, names.CARD)
    c.run("cd; pwd; echo again >> ran")


@task(name="mount-nas", pre=[drivers])
def mount_nas(c):
    c.sudo("sh -c 'cd; touch mounted'")


@task
def send(c):
    c.put("names.py", "sent.py")
    print(c.local("echo from home", hide=True).stdout)


@task
def reads(c):
    print("read", repr(c.run("cat", hide=True).stdout))


@task
def wait(c):
    c.run("cd; echo $$ > waiting; echo begun; sleep 1000")


@task
def once(c):
    c.run("cd; echo once >> ran; touch waiting; until [ -e go ]; do sleep 0.05; done")


@task
def fails(c):
    c.run("seq 40")
    c.run("echo 'E: \\033]0;owned\\007 no such package' >&2; false")
    c.run("cd; touch after")


@task
def raises(c):
    raise ValueError("no such card")


@task
def leaves(c):
    print("leaving")
    os._exit(7)


@task
def forks(c):
    print("forking")
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(7)


@task
def floods(c):
    c.run("seq 5000")


@task
def asks(c):
    c.sudo("true", user="nobody")


@task
def asks_and_reads(c):
    print("read", repr(c.sudo("cat", user="nobody", hide=True).stdout))


@task
def tries(c):
    refused = c.sudo("false", user="nobody", warn=True, hide=True)
    later = c.sudo("echo later", user="nobody", asynchronous=True).join()
    print("exit", refused.exited, later.stdout)


not_a_task = 5
"""


def configure(armada: Armada, server: SshServer, **more: Any) -> None:
    settings = {"ssh": server.target, "identity": str(server.identity), **more}
    file = armada.folder / "home" / "config" / "hosts.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"hosts": {"box": settings}}))


def outcomes(answer: Any) -> list[tuple[str, str]]:
    return [(each["task"], each["outcome"]) for each in answer["tasks"]]


def provision(armada: Armada, *words: str) -> list[tuple[str, str]]:
    return outcomes(armada.json("hosts", "provision", "box", *words))
