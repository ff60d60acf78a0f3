# Sourced by boot.sh: a one-machine HTCondor pool with four GPU slots to request.
# The machine's own Python, where it is not Debian's, so that jobs can use the same wheels as the other hosts.
PYTHON=$(python3 -c 'import sys; print(sys.base_prefix)')
if [ "$PYTHON" != /usr ]; then
  mkdir -p "$R$PYTHON"; mount --bind "$PYTHON" "$R$PYTHON"; chmod 711 "$R/root"
  ln -sf "$PYTHON/bin/python3" "$R/usr/local/bin/python3"
fi
mkdir -p "$R/run/condor" "$R/run/lock/condor"
chroot "$R" chown condor:condor /run/condor /run/lock/condor
cat > "$R/etc/condor/config.d/50-fleet" <<CONF
MACHINE_RESOURCE_GPUs = CUDA0, CUDA1, CUDA2, CUDA3
ENVIRONMENT_FOR_AssignedGPUs = CUDA_VISIBLE_DEVICES
ENVIRONMENT_VALUE_FOR_UnAssignedGPUs = NONE
NUM_CPUS = 8
# Tests should not wait for the periods of a pool of thousands.
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
SCHEDD_INTERVAL = 2
SCHEDD_MIN_INTERVAL = 1
CONF
chroot "$R" condor_master
