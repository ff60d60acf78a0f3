# Sourced by boot.sh: Slurm of Debian 11, as old as any that is still met.
PORT_BASE=6840
. "$HERE/slurm-single.sh"
