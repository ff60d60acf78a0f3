"""Names that some disks take for one: `Vocab.txt` and `vocab.txt`, or two forms of é.

The disks of macOS, exFAT, NTFS and Windows shares do so. Of two such files only one is there, whatever was written.
"""

from __future__ import annotations

import unicodedata


def folded(name: str) -> str:
    """Return what all names have in common that such a disk takes for this one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
