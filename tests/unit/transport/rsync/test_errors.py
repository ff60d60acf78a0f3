"""Exit codes and messages as recorded from real runs of rsync 3.5 over OpenSSH 9.2."""

from __future__ import annotations

import pytest

from armada.errors import (
    ArmadaError,
    AuthenticationFailed,
    HostKeyChanged,
    HostUnreachable,
    LinkLost,
    NotFound,
    ProvisionFailed,
    RsyncUnusable,
)
from armada.foundation.progress import TransferProgress
from armada.transport.rsync.errors import explain_exit
from armada.transport.rsync.program import parse_progress
from armada.transport.ssh.host_keys import HostKey

OFFERED = "SHA256:HPxfuoc3EreIg4CgLPeycEW7l24DTSfU4A7vHf0AMLM"
PINNED = {"armada-box": [HostKey("armada-box", "ssh-ed25519", "AAAA")]}
CHANGED = f"""@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
The fingerprint for the ED25519 key sent by the remote host is
{OFFERED}.
Host key for armada-box has changed and you have requested strict checking.
Host key verification failed.
rsync: connection unexpectedly closed (0 bytes received so far) [Receiver]
rsync error: unexplained error (code 255) at io.c(232) [Receiver=3.5.0]"""


@pytest.mark.parametrize(
    ("status", "said", "expected", "words"),
    [
        (255, CHANGED, HostKeyChanged, OFFERED),
        (
            255,
            "No ED25519 host key is known for armada-x and you have requested strict checking.",
            HostKeyChanged,
            "pinned",
        ),
        (
            255,
            "root@h: Permission denied (publickey).\nrsync error: unexplained",
            AuthenticationFailed,
            "Permission denied",
        ),
        (
            255,
            'Load key "/home/me/my key": bad permissions\nroot@h: Permission denied (publickey).\nrsync error: unexplained',
            AuthenticationFailed,
            "the private key /home/me/my key: others can read it",
        ),
        (255, "ssh: connect to host 127.0.0.1 port 9: Connection refused", HostUnreachable, "Connection refused"),
        (12, "ssh: connect to host 10.0.0.1 port 22: Connection timed out", HostUnreachable, "timed out"),
        (12, "bash: line 1: rsync: command not found\nrsync error: x", RsyncUnusable, "no rsync on this host"),
        (127, "sh: 1: rsync: not found", RsyncUnusable, "no rsync on this host"),
        (11, "rsync: [receiver] write failed on /x: No space left on device (28)", ProvisionFailed, "No space left"),
        (
            23,
            'rsync: [sender] link_stat "/x" failed: No such file or directory (2)\nrsync error: x',
            NotFound,
            "link_stat",
        ),
        (23, 'rsync: [receiver] mkstemp "/x" failed: Permission denied (13)', ProvisionFailed, "Permission denied"),
        (24, 'file has vanished: "/x"', NotFound, "vanished"),
        (2, "protocol version mismatch -- is your shell clean?", RsyncUnusable, "shell prints"),
        (1, "rsync: unknown option", RsyncUnusable, "unknown option"),
        (
            127,
            "rsync: error while loading shared libraries: libz.so.1: file too short",
            RsyncUnusable,
            "does not start: rsync: error",
        ),
        (12, "rsync: connection unexpectedly closed", LinkLost, "exit 12"),
        (20, "", LinkLost, "exit 20"),
        (-9, "", LinkLost, "signal 9"),
    ],
)
def test_each_ending_becomes_what_a_person_has_to_do(
    status: int, said: str, expected: type[ArmadaError], words: str
) -> None:
    error = explain_exit(status, said, host="box", pinned=PINNED)
    assert type(error) is expected
    assert words in error.message
    assert error.host == "box"


def test_a_refused_session_is_the_reason_only_where_there_was_no_other_way() -> None:
    said = "mux_client_request_session: session request failed: Session open refused by peer\nrsync: connection closed"
    error = explain_exit(255, said, host="box", pinned={}, reuse_only=True)
    assert type(error) is HostUnreachable
    assert "MaxSessions" in str(error.hint)
    assert type(explain_exit(255, said, host="box", pinned={})) is LinkLost


def test_a_changed_key_names_both_fingerprints_and_the_command_that_trusts_it() -> None:
    message = explain_exit(255, CHANGED, host="box", pinned=PINNED).message
    assert PINNED["armada-box"][0].fingerprint in message
    assert OFFERED in message
    assert "armada hosts trust box" in str(explain_exit(255, CHANGED, host="box", pinned=PINNED).hint)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"      2147483648 100%  433.20MB/s    0:00:04 (xfr#1, to-chk=0/1)", (2147483648, 433.20 * (1 << 20))),
        (b"             512  12%    0.00kB/s    0:00:00", (512, 0.0)),
        (b"              5 100%    1.50GB/s", (5, 1.5 * (1 << 30))),
    ],
)
def test_progress_is_read(line: bytes, expected: tuple[int, float]) -> None:
    assert parse_progress(line, 7) == TransferProgress(expected[0], 7, expected[1])


def test_other_lines_are_no_progress() -> None:
    for line in (b"", b"\x1b[2J", b"receiving file list ... done", b"-1 5% 1kB/s", b"9" * 5):
        assert parse_progress(line, 7) is None
