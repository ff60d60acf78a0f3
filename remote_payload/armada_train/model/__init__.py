"""The model: its files, its loading, its attention, and the weights it starts from."""
