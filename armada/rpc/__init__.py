"""The connection with a host: client, greeting, byte streams, and the session that survives a broken link."""
