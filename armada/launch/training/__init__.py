"""What a training is made of before it has a plan: batch arithmetic, data, the configuration files of accelerate and DeepSpeed."""
