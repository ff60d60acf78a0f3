"""Lines as providers show them, pasted where an address is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.ssh_line import read_ssh_line
from armada.errors import UsageError


@pytest.mark.parametrize(
    ("line", "target", "identity"),
    [
        ("desk", "desk", None),
        (" root@203.0.113.7:50022 ", "root@203.0.113.7:50022", None),
        ("ssh desk", "desk", None),
        ("ssh -p 50022 root@203.0.113.7", "root@203.0.113.7:50022", None),
        ("ssh root@203.0.113.7 -p 50022 -i ~/.ssh/id_ed25519", "root@203.0.113.7:50022", "~/.ssh/id_ed25519"),
        ("root@203.0.113.7 -p 50022", "root@203.0.113.7:50022", None),
        ("ssh -p22041 -l root ssh5.vast.example -L 8080:localhost:8080", "root@ssh5.vast.example:22041", None),
        ("ssh -Nvp 7 me@box", "me@box:7", None),
        ("ssh -p 7 me@2001:db8::1", "me@[2001:db8::1]:7", None),
        ("ssh ssh://me@box:9/ -p 7", "me@box:9", None),
        ("ssh -o StrictHostKeyChecking=no -o Port=7 -oUser=me box", "me@box:7", None),
    ],
)
def test_the_line_of_a_provider_is_an_address(line: str, target: str, identity: str | None) -> None:
    found = read_ssh_line(line)
    assert (found.target, found.identity) == (target, Path(identity) if identity else None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ssh -J gate me@box", "-J 'gate': a jump host cannot be set in hosts.yaml"),
        ("ssh -o ProxyCommand=evil me@box", "the option 'ProxyCommand=evil' cannot be set"),
        ("ssh me@box nvidia-smi", "contains a command"),
        ("ssh -p 7", "names no host"),
        ("ssh me@box -p", "-p is the last word"),
        ("ssh 'me@box", "do not close"),
        ("scp me box", "neither an address nor a line that begins with ssh"),
        ("ssh -Z 1 me@box", "ssh has no option -Z"),
    ],
)
def test_what_an_entry_cannot_hold_is_refused_with_what_to_do(line: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_ssh_line(line)
    assert said in refused.value.message
    assert refused.value.hint
