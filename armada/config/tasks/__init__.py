"""What an experiment says, by its task: one model for each, over what all of them share."""
