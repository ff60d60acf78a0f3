"""A store that was lost or damaged, made again from what is true: the hosts' run folders and what lies at home."""
