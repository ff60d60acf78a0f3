# Sourced by boot.sh: Slurm of Debian 13 with an accounting database, so that sacct answers.
PORT_BASE=6830 ACCOUNTING=yes
. "$HERE/slurm-single.sh"
