#!/bin/sh
# Installs the real components that `make test-real` talks to, where the machine allows it.
# A component that cannot be installed is named; its tests then skip with the reason.
set -u
missing=""
need() { # program, package
  PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need mariadbd mariadb-server
need munged munge
need slurmctld slurm-wlm
need slurmdbd slurmdbd
need prometheus prometheus
need fusermount3 fuse3
need chromium chromium
need nginx nginx-light
need mfsmaster moosefs-master
need mfschunkserver moosefs-chunkserver
need mfsmount moosefs-client
need glusterd glusterfs-server
need glusterfs glusterfs-client
need systemd-sysusers systemd
need faketime faketime
need sadf sysstat
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "not installed (needs root and apt-get):$missing" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
  echo "could not install:$missing" >&2
exit 0
