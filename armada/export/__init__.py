"""Export a checkpoint at home as a model: a folder or a repository of the hub, with what inference needs and a model card."""
