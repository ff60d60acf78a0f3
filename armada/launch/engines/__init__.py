"""What starts a run on its host: its own supervisor, or a batch system, with one module each for the file it is handed."""
