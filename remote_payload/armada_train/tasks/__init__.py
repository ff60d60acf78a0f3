"""One module for each thing that the payload can do."""
