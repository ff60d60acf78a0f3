"""The machine: files, processes, GPUs, file systems."""
