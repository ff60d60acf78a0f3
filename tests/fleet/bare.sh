# Sourced by boot.sh: a host that has neither python3 nor rsync. Removing them from an overlay leaves the machine's own.
rm -f "$R"/usr/bin/python3* "$R"/usr/local/bin/python3* "$R/usr/bin/rsync" "$R/usr/local/bin/rsync"
