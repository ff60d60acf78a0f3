"""Messages to a person who is not at the screen: what is worth one, where it goes, and that it arrives once."""
