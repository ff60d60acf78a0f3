"""Run Fabric tasks on a host, in a process of their own: whatever a task does, it does not do it to armada's own process."""
