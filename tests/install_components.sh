#!/bin/sh
# Installs the real components that `make test-real` talks to, where the machine allows it.
# A component that cannot be installed is named; its tests then skip with the reason.
set -u
missing=""
command -v mariadbd >/dev/null 2>&1 || missing="$missing mariadb-server"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "not installed (needs root and apt-get):$missing" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq $missing >/dev/null || echo "could not install:$missing" >&2
exit 0
