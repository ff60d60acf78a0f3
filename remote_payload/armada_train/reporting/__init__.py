"""What a training tells its run folder: metrics, samples, heartbeats."""
