"""What every other room stands on, one copy of each: locks, atomic files, back-off, process identity, progress, text from elsewhere."""
