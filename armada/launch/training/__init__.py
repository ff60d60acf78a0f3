"""Parts of a training before it has a plan: batch arithmetic, data, configuration files of accelerate and DeepSpeed."""
