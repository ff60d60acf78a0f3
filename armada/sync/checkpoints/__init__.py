"""One checkpoint: its manifest, staging, publication, verification and retention."""
