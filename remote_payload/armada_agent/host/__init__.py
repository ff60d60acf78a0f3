"""The machine itself: files, processes, GPUs, file systems."""
