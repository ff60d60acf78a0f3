"""Parts that all other packages share: locks, atomic files, back-off, process identity, progress, untrusted text."""
