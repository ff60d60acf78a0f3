"""What a run wrote besides checkpoints: logs, metrics, W&B files, the files that its experiment names."""
