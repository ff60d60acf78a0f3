# Sourced by slurm-20.sh and slurm-24.sh: a Slurm of another age on one machine; needs PORT_BASE, and ACCOUNTING=yes for a slurmdbd.
mkdir -p "$R/run/munge" "$R/var/spool/slurmctld" "$R/var/spool/slurmd" "$R/var/log/munge" "$R/var/lib/munge" "$R/etc/slurm" "$R/etc/munge"
ln -sfn slurm "$R/etc/slurm-llnl" 2>/dev/null
chroot "$R" chown munge:munge /run/munge /var/log/munge /var/lib/munge /etc/munge
[ -e "$R/etc/munge/munge.key" ] || { head -c 1024 /dev/urandom > "$R/etc/munge/munge.key"; }
chroot "$R" chown munge:munge /etc/munge/munge.key; chmod 400 "$R/etc/munge/munge.key"
ACCOUNTS=AccountingStorageType=accounting_storage/none
[ -n "${ACCOUNTING:-}" ] && ACCOUNTS="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((PORT_BASE + 2))"
[ "$ROLE" = slurm-24 ] && printf 'CgroupPlugin=disabled\n' > "$R/etc/slurm/cgroup.conf"
cat > "$R/etc/slurm/slurm.conf" <<CONF
ClusterName=$NAME
SlurmctldHost=$NAME($ADDRESS)
SlurmctldPort=$PORT_BASE
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/pgid
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
# Tests should not wait for the periods of a cluster of thousands.
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
ReturnToService=2
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
MinJobAge=2
$ACCOUNTS
NodeName=$NAME NodeAddr=$ADDRESS Port=$((PORT_BASE + 1)) Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=24:00:00 State=UP
CONF
chroot "$R" su munge -s /bin/sh -c '/usr/sbin/munged --force'
if [ -n "${ACCOUNTING:-}" ]; then
  mkdir -p "$R/run/mysqld"; chroot "$R" chown mysql:mysql /run/mysqld
  chroot "$R" mariadbd --user=mysql --skip-networking > "$R/var/log/mariadb.log" 2>&1 &
  for _ in $(seq 150); do chroot "$R" mariadb -e 'select 1' > /dev/null 2>&1 && break; sleep 0.2; done
  chroot "$R" mariadb -e "create database if not exists slurm_acct_db; grant all on slurm_acct_db.* to slurm@localhost identified by 'fleet'"
  cat > "$R/etc/slurm/slurmdbd.conf" <<CONF
AuthType=auth/munge
DbdHost=localhost
DbdPort=$((PORT_BASE + 2))
SlurmUser=root
StorageType=accounting_storage/mysql
StorageUser=slurm
StoragePass=fleet
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
CONF
  chmod 600 "$R/etc/slurm/slurmdbd.conf"
  chroot "$R" slurmdbd
  for _ in $(seq 150); do chroot "$R" sacctmgr -i list cluster > /dev/null 2>&1 && break; sleep 0.2; done
  chroot "$R" sacctmgr -i add cluster "$NAME" > /dev/null 2>&1
  chroot "$R" sacctmgr -i add account lab > /dev/null 2>&1
  chroot "$R" sacctmgr -i add user "$LOGIN" account=lab > /dev/null 2>&1
fi
chroot "$R" slurmctld
chroot "$R" slurmd -N "$NAME"
