"""The machine: its processes, GPUs, file systems, file owners, and the variables that it exports to jobs."""
