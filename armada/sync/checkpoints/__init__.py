"""One checkpoint: its manifest, download, publication, verification, repair and retention."""
