"""What home keeps of each launch: the code that was sent, the packages of its environment, the hashes of its data."""
