"""SSH: through Fabric, or through the OpenSSH on this machine."""
