"""What an audit of the first release found, carried out on a real SSH host by the command line of any checkout."""
