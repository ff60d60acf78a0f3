"""One copy each of what every room needs: durable files, process identity, a program's streams, a request and its parameters."""
