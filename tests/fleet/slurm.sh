# Sourced by boot.sh: slurmctld on the first Slurm host and a slurmd with four GPUs to request on each; the two hosts share
# /home/researcher, as a cluster's file system would; no accounting database, so no sacct.
mkdir -p "$R/run/munge" "$R/var/spool/slurmctld" "$R/var/spool/slurmd" "$R/srv"
chroot "$R" chown munge:munge /run/munge
for i in 0 1 2 3; do [ -e "$R/srv/gpu$i" ] || mknod "$R/srv/gpu$i" c 195 "$i"; done
echo 'Name=gpu File=/srv/gpu[0-3]' > "$R/etc/slurm/gres.conf"
SHARED=$FLEET_STATE/slurm-home
if mkdir "$SHARED" 2>/dev/null; then cp -a "$R/home/researcher/." "$SHARED/"; fi
chown --reference="$R/home/researcher" "$SHARED"
mount --bind "$SHARED" "$R/home/researcher"
cat > "$R/etc/slurm/slurm.conf" <<CONF
ClusterName=fleet
SlurmctldHost=slurm(127.0.1.5)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
# Tests should not wait for the periods of a cluster of thousands.
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
ReturnToService=2
GresTypes=gpu
JobCompType=jobcomp/filetxt
JobCompLoc=/var/log/slurm_jobcomp.log
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
MinJobAge=300
SlurmdTimeout=30
TreeWidth=2
NodeName=slurm NodeAddr=127.0.1.5 Port=6818 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=10000 Gres=gpu:4 State=UNKNOWN
NodeName=slurm-2 NodeAddr=127.0.1.6 Port=6819 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=10000 Gres=gpu:4 State=UNKNOWN
PartitionName=boost_usr_prod Nodes=ALL Default=YES MaxTime=24:00:00 State=UP
PartitionName=lrd_all_serial Nodes=slurm MaxTime=4:00:00 State=UP
CONF
chroot "$R" su munge -s /bin/sh -c '/usr/sbin/munged --force'
[ "$ROLE" = slurm ] && chroot "$R" slurmctld
chroot "$R" slurmd -N "$NAME"
