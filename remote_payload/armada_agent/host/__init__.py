"""The machine: processes, GPUs, file systems, owners, what it exports to jobs."""
