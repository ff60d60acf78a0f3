"""Lines as providers show them, pasted where an address is wanted."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from armada.config.ssh_line import SshLine, read_ssh_line
from armada.errors import UsageError

KEY = "~/.ssh/id_ed25519"
BOX = "root@203.0.113.7:50022"
EC2 = "ubuntu@ec2-203-0-113-7.eu-central-1.compute.amazonaws.com"
GCLOUD_PRINTED = (
    "/usr/bin/ssh -t -i ~/.ssh/id_ed25519 -o CheckHostIP=no -o HashKnownHosts=no -o HostKeyAlias=compute.4711 "
    "-o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=~/.ssh/known_hosts me@203.0.113.7"
)


@pytest.mark.parametrize(
    ("line", "target", "identity"),
    [
        ("desk", "desk", None),
        (" root@203.0.113.7:50022 ", BOX, None),
        ("ssh://root@203.0.113.7:50022", BOX, None),
        ("ssh://root@203.0.113.7:50022/", BOX, None),
        ("ssh desk", "desk", None),
        ("ssh -p 50022 root@203.0.113.7", BOX, None),
        ("ssh root@203.0.113.7 -p 50022 -i ~/.ssh/id_ed25519", BOX, KEY),
        ("root@203.0.113.7 -p 50022", BOX, None),
        ("ssh -p22041 -l root ssh5.vast.example -L 8080:localhost:8080", "root@ssh5.vast.example:22041", None),
        ("ssh -Nvp 7 me@box", "me@box:7", None),
        ("ssh -p 7 me@2001:db8::1", "me@[2001:db8::1]:7", None),
        ("ssh me@[2001:db8::1]:7", "me@[2001:db8::1]:7", None),
        ("ssh me@2001:db8::1", "me@2001:db8::1", None),
        ("ssh ssh://me@box:9/ -p 7", "me@box:9", None),
        ("ssh -p 7 ssh://me@box:9", "me@box:7", None),
        ("ssh -l you me@box -l they", "you@box", None),
        ("ssh me@box -l they", "me@box", None),
        ("ssh -o StrictHostKeyChecking=no -o Port=7 -oUser=me box", "me@box:7", None),
        ("ssh -J none me@box", "me@box", None),
        ("ssh -- me@box", "me@box", None),
        # providers
        ("ssh -p 50022 root@203.0.113.7 -L 8080:localhost:8080", BOX, None),
        ("ssh abc-123@ssh.runpod.io -i ~/.ssh/id_ed25519", "abc-123@ssh.runpod.io", KEY),
        ("ssh ubuntu@203.0.113.7", "ubuntu@203.0.113.7", None),
        (f'ssh -i "key.pem" {EC2}', EC2, "key.pem"),
        (GCLOUD_PRINTED, "me@203.0.113.7", KEY),
        ('ssh -o "ServerAliveInterval 60" -o TCPKeepAlive=yes -t -A root@203.0.113.7 -p 50022', BOX, None),
        # as they are pasted
        ("$ ssh -p 50022 root@203.0.113.7", BOX, None),
        ("# ssh -p 50022 root@203.0.113.7", BOX, None),
        ("me@laptop:~$ ssh -p 50022 root@203.0.113.7", BOX, None),
        ("[me@laptop ~]$ ssh -p 50022 root@203.0.113.7", BOX, None),
        ("➜  ~ ❯ ssh -p 50022 root@203.0.113.7", BOX, None),
        (f"ssh -i “key.pem” {EC2}", EC2, "key.pem"),
        (f"ssh -i ‘my key.pem’ {EC2}", EC2, "my key.pem"),
        ("“root@203.0.113.7:50022”", BOX, None),
        ("ssh –p 50022 root@203.0.113.7 —i ~/.ssh/id_ed25519", BOX, KEY),
        ("ssh\u00a0-p\u00a050022 root@203.0.113.7\u200b", BOX, None),
        ("ssh -p 50022 \\\n  root@203.0.113.7 \\\r\n  -i ~/.ssh/id_ed25519", BOX, KEY),
        ("ssh -p 50022\nroot@203.0.113.7\n", BOX, None),
        ("  ssh -p 50022 root@203.0.113.7   \t ", BOX, None),
    ],
)
def test_the_line_of_a_provider_is_an_address(line: str, target: str, identity: str | None) -> None:
    found = read_ssh_line(line)
    assert (found.target, found.identity) == (target, Path(identity) if identity else None)


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        (
            "ssh -J gate -p 7 me@box",
            "-J 'gate': a jump host cannot be set in hosts.yaml",
            "Host NAME / HostName box / Port 7 / User me / ProxyJump gate",
        ),
        (
            "ssh me@box -o ProxyJump=you@gate:22",
            "-J 'you@gate:22': a jump host",
            "HostName box / User me / ProxyJump you@gate:22",
        ),
        ("ssh -o ProxyCommand=evil me@box", "the option 'ProxyCommand=evil' cannot be set", "~/.ssh/config"),
        ("ssh -F other me@box", "-F 'other': a configuration file", "~/.ssh/config"),
        ("ssh me@box nvidia-smi", "contains a command ('nvidia-smi')", "the line without it: 'ssh me@box'"),
        ("ssh me@box; rm -rf /", "contains a command ('rm -rf /')", "the line without it: 'ssh me@box'"),
        ("ssh me@box nvidia-smi -L", "contains a command ('nvidia-smi -L')", "'ssh me@box'"),
        ("ssh me@box -- tmux attach", "contains a command ('tmux attach')", "'ssh me@box'"),
        ("ssh me@box me", "contains a command ('me')", "'ssh me@box'"),
        ("ssh -p 7", "names no host", "ssh -p 50022"),
        ("ssh", "names no host", "ssh -p 50022"),
        ("ssh me@box -p", "-p is the last word", "ssh -p 50022"),
        ("ssh -p seven me@box", "-p 'seven': a port is a number from 1 to 65535", "ssh -p 50022"),
        ("ssh -p 70000 me@box", "-p '70000': a port is a number", "ssh -p 50022"),
        ("ssh 'me@box", "do not close", "ssh -p 50022"),
        ("ssh -Z 1 me@box", "ssh has no option -Z", "ssh -p 50022"),
        ("scp me box", "neither an address nor a line that begins with ssh", "this line copies files"),
        ("scp -P 50022 file root@203.0.113.7:", "neither an address nor", "scp's -P is ssh's -p"),
        ("$ scp -P 50022 file root@203.0.113.7:", "neither an address nor", "this line copies files"),
        ("rsync -e 'ssh -p 7' a me@box:", "neither an address nor", "this line copies files"),
        ("gcloud compute ssh --zone europe-west4-a me@box", "neither an address nor", "with --dry-run"),
        ("$ gcloud compute ssh box", "neither an address nor", "with --dry-run"),
        ("az ssh vm -n box", "neither an address nor", "az ssh config"),
        ("aws ssm start-session --target i-0", "neither an address nor", "ssh -i key.pem"),
    ],
)
def test_what_an_entry_cannot_hold_is_refused_with_what_to_do(line: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_ssh_line(line)
    assert said in refused.value.message
    assert hint in (refused.value.hint or "")


_WORDS = st.sampled_from(
    ["ssh", "$", "-p", "-i", "-o", "--", "-J", "-", "me@box", "ssh://a:1", '"', "'", "\\", "\n", "=", ":"]
)


@given(st.lists(_WORDS | st.text(max_size=8), max_size=8).map(" ".join))
@example("ssh -p " + "9" * 5000 + " me@box")
@example("me@box:" + "9" * 5000 + " -v")
def test_whatever_is_pasted_is_an_address_or_a_sentence(line: str) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(read_ssh_line(line), SshLine)
