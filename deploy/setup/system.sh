#!/usr/bin/env bash
# The system packages that the demo and the tests need, on Debian 12/13 and Ubuntu 24.04:
# a broker (Mosquitto), Java with Maven for Kafka, gcc and openssl for the tests.
# Installs what is missing when run as root; else prints the one line to run, and fails.
set -euo pipefail

declare -A package_of=(
  [mosquitto]=mosquitto
  [mvn]=maven
  [java]=default-jre-headless
  [gcc]=gcc
  [openssl]=openssl
)
PATH="$PATH:/usr/sbin:/sbin"
missing=()
for command in "${!package_of[@]}"; do
  command -v "$command" >/dev/null 2>&1 || missing+=("${package_of[$command]}")
done
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=("python3-venv")
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "These packages are missing; run this line once, then try again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The broker is started by us, on a port of its own: keep the package from starting one.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
