#!/bin/sh
# Installs what the tests need from Debian's packages and is not there: PostgreSQL's and MariaDB's
# server programs, PgBouncer, Chromium, ffmpeg and libfaketime; with the word `bench` also Redis, for
# the programs that ours is measured beside. No service is started: tests and benchmarks start
# servers of their own.
# Where it may not or cannot install, it says which tests will be skipped, and why.
set -u
purpose="${1:-tests}"

there() { # NAME...: whether every one of these programs is found
    for name in "$@"; do
        PATH="$PATH:/usr/sbin:/sbin:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')" \
            command -v "$name" > /dev/null || return 1
    done
}

look() { # sets packages (what apt-get would install) and skipped (what that is for)
    packages="" skipped=""
    there initdb postgres || { packages="$packages postgresql"; skipped="$skipped PostgreSQL"; }
    there mariadb-install-db mariadbd || {
        packages="$packages mariadb-server"; skipped="$skipped MariaDB"; }
    there pgbouncer || { packages="$packages pgbouncer"; skipped="$skipped PgBouncer"; }
    there chromium || {
        packages="$packages chromium fonts-dejavu-core"; skipped="$skipped browser"; }
    there ffmpeg || { packages="$packages ffmpeg"; skipped="$skipped ffmpeg"; }
    ls /usr/lib/*/faketime/libfaketimeMT.so.1 > /dev/null 2>&1 || {
        packages="$packages libfaketime"; skipped="$skipped clocks"; }
    there unshare nsenter setpriv || {
        packages="$packages util-linux"; skipped="$skipped hosts"; }
    [ "$purpose" != bench ] || there redis-server || {
        packages="$packages redis-server"; skipped="$skipped Redis"; }
}

give_up() { # REASON
    echo "Skipping the tests of:$skipped. $1" >&2
    echo "On Debian, as root: apt-get install --no-install-recommends$packages" >&2
    [ "${JOBRUNNER_REQUIRE_ALL:-}" = 1 ] && exit 1
    exit 0
}

look
[ -z "$packages" ] && exit 0
command -v apt-get > /dev/null || give_up "This machine has no apt-get."
[ "$(id -u)" = 0 ] || give_up "Only root may install packages."

# A package's script asks this file before it starts a service; 101 means: do not. One that
# is there already is the machine's own decision and stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
fi

echo "Installing for the tests:$packages"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # several words on purpose
if ! { apt-get update && apt-get install --yes --no-install-recommends $packages; } \
    > "$log" 2>&1 < /dev/null
then
    tail -n 20 "$log" >&2
fi
rm -f "$log"

look
[ -z "$packages" ] || give_up "The packages could not be installed."
