#!/bin/bash
# boot.sh NAME LOWER ADDRESS PORT USER ROLE GPUS PLACE: the first process of one host, inside its own namespaces.
set -u
NAME=$1 LOWER=$2 ADDRESS=$3 PORT=$4 LOGIN=$5 ROLE=$6 GPUS=$7 PLACE=$8
HERE=$(dirname "$(readlink -f "$0")")
R=$PLACE/root
FRESH=; [ -d "$PLACE/upper" ] || FRESH=yes

hostname "$NAME"
mount --make-rprivate /
mkdir -p "$PLACE/upper" "$PLACE/work" "$R"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$PLACE/upper,workdir=$PLACE/work" "$R" || exit 1
mount -t proc proc "$R/proc"
mount --rbind /dev "$R/dev"
# Terminals as distributions have them: of group tty, so that HTCondor's sshd, which is the user's own, can hand one out.
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts "$R/dev/pts"
mount --rbind /sys "$R/sys"
mount -t tmpfs -o mode=755 tmpfs "$R/run"
mount -t tmpfs -o mode=1777 tmpfs "$R/tmp"
mkdir -p "$R/run/sshd" "$R/run/lock"

make_names() {
  echo "$NAME" > "$R/etc/hostname"
  printf '127.0.0.1 localhost\n%s %s\n' "$ADDRESS" "$NAME" > "$R/etc/hosts"
  case $ROLE in slurm*) printf '127.0.1.5 slurm\n127.0.1.6 slurm-2\n' >> "$R/etc/hosts" ;; esac
}

# The machine's package index and certificates serve the host too, and one user's pip configuration becomes the whole
# host's, so that ordinary users there find the same packages. A machine without any is fine.
make_package_access() {
  cp /etc/resolv.conf "$R/etc/resolv.conf" 2>/dev/null
  mkdir -p "$R/etc/ssl/certs"
  cp -L /etc/ssl/certs/ca-certificates.crt "$R/etc/ssl/certs/" 2>/dev/null
  python3 - > "$R/etc/pip.conf" <<'PIP'
import ast, subprocess, sys
listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
print("[global]")
for line in listed.splitlines():
    if line.startswith("global."):
        key, value = line.split("=", 1)
        print(key.split(".", 1)[1], "=", ast.literal_eval(value).replace("\n", " "))
PIP
  chmod 644 "$R/etc/pip.conf"
}

make_ssh_server() {
  rm -f "$R"/etc/ssh/ssh_host_* "$R"/etc/ssh/sshd_config.d/*
  ssh-keygen -q -t ed25519 -N '' -f "$R/etc/ssh/ssh_host_ed25519_key"
  cat > "$R/etc/ssh/sshd_config" <<CONF
Port $PORT
ListenAddress $ADDRESS
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
AcceptEnv LANG
Subsystem sftp internal-sftp
CONF
}

make_login() {
  # One number on all hosts, as a cluster's users have it.
  [ "$LOGIN" = root ] || chroot "$R" useradd -u 4242 -m -s /bin/bash -p '*' "$LOGIN"
  local home
  home=$(chroot "$R" getent passwd "$LOGIN" | cut -d: -f6)
  # What this machine's own shell starts is nobody's business there. pyenv's `rehash`, for one, takes a lock: a host that
  # is killed within it keeps every later shell waiting for a minute.
  rm -rf "$R$home"/.ssh "$R$home"/.bash_profile "$R$home"/.bash_login
  cp "$R"/etc/skel/.bashrc "$R"/etc/skel/.profile "$R$home"
  mkdir -m 700 "$R$home/.ssh"
  install -m 600 "$FLEET_STATE/id_ed25519.pub" "$R$home/.ssh/authorized_keys"
  chroot "$R" chown -R "$LOGIN:" "$home/.ssh"
}

if [ -n "$FRESH" ]; then
  make_names
  make_package_access
  make_ssh_server
  make_login
  printf '%s\n' "$GPUS" > "$R/etc/fleet-gpus"
  case $GPUS in none:*) ;; *) install -m 755 "$HERE/nvidia-smi" "$R/usr/local/bin/nvidia-smi" ;; esac
fi

# Folders and files on this machine that pip's configuration names.
if [ "$LOWER" != / ]; then
  for folder in $(grep -oE '(file://)?/[^ ]+' "$R/etc/pip.conf" | sed 's#^file://##'); do
    # An index's pages point to files beside it.
    case $folder in */simple|*/simple/) folder=$(dirname "$folder") ;; esac
    [ -d "$folder" ] && { mkdir -p "$R$folder"; mount --bind "$folder" "$R$folder"; }
    [ -f "$folder" ] && install -D -m 644 "$folder" "$R$folder"
  done
fi

[ -f "$HERE/$ROLE.sh" ] && . "$HERE/$ROLE.sh"

# The environments of the workstation and of this machine's Slurm are one folder, as on a site with one home for all: the first training
# builds and compiles them, and the others find them there. A root login's are its own host's, and another Debian has another Python.
case $LOGIN:$ROLE in
  researcher:plain|researcher:slurm|researcher:slurm-node)
    OWNER=$(chroot "$R" id -u "$LOGIN"):$(chroot "$R" id -g "$LOGIN")
    install -d -m 700 -o "${OWNER%:*}" -g "${OWNER#*:}" "$R/home/$LOGIN/.armada"
    for part in envs tools; do
      mkdir -p "$FLEET_STATE/environments/$part"
      install -d -m 700 -o "${OWNER%:*}" -g "${OWNER#*:}" "$R/home/$LOGIN/.armada/$part"
      chown "$OWNER" "$FLEET_STATE/environments/$part"; chmod 700 "$FLEET_STATE/environments/$part"
      mount --bind "$FLEET_STATE/environments/$part" "$R/home/$LOGIN/.armada/$part"
    done ;;
esac
exec chroot "$R" /usr/sbin/sshd -D -e
