"""Parts that all other packages share: durable files, process identity, a program's streams, requests and their parameters."""
