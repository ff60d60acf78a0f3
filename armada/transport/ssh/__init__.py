"""SSH by Fabric, or by this machine's OpenSSH."""
