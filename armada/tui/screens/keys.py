"""Read the SSH keys of a host from a command's JSON."""

from __future__ import annotations

from armada.foundation.sanitize import sanitize_line


def keys_of(listed: object) -> dict[str, str]:
    """Return the fingerprints and the note of each; anything else is left out."""
    keys = [key for key in listed if isinstance(key, dict)] if isinstance(listed, list) else []
    found = {key["fingerprint"]: key for key in keys if isinstance(key.get("fingerprint"), str)}
    # A hop on the way is named; for the host itself no name is needed.
    return {
        mark: f"{sanitize_line(key.get('alias'), 80)} {key.get('algorithm')}"
        if len(found) > 1
        else str(key.get("algorithm"))
        for mark, key in found.items()
    }
