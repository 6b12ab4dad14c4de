#!/usr/bin/env bash
# Installs what the tests start besides Python: S3 servers, and Chromium, which opens the pages that
# dsprep writes. Ceph's gateway and Chromium come from Debian's packages, LocalStack into a virtual
# environment of its own, .cache/localstack, as its dependencies are not those of dsprep.
# What is there is not installed again. What cannot be installed is said, and the tests that need it
# are left out; with DSPREP_TESTS=all this is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "servers: $*" >&2; }
die() { say "$@"; exit 1; }

CEPH=(radosgw ceph-mon ceph-osd openssl)
LOCALSTACK=.cache/localstack
# 4.4.0 knows If-Match and full-object checksums; the others are the last that it works with.
PINS=("localstack-core[base-runtime]==4.4.0" "cbor2<5.8" "pyopenssl==25.0.0" "cryptography<45"
    "service_identity==24.2.0")

has_ceph() {
    local command
    for command in radosgw radosgw-admin ceph ceph-mon ceph-osd openssl; do
        command -v "$command" >/dev/null || return 1
    done
}

has_chromium() { command -v chromium >/dev/null; }

run_apt() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get --yes --no-install-recommends "$@" >/dev/null
}

# Both at once: apt-get locks its database.
install_packages() {
    local packages=()
    has_ceph || packages+=("${CEPH[@]}")
    has_chromium || packages+=(chromium)
    [ "${#packages[@]}" = 0 ] && return
    command -v apt-get >/dev/null || die "${packages[*]} are missing, and there is no apt-get"
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || die "only root or sudo can install ${packages[*]}"
    say "installing ${packages[*]} (Ceph takes 300 MB, Chromium 350 MB)"
    run_apt update || die "the lists of packages could not be updated"
    # Ubuntu has no such package of Chromium: this does not leave out Ceph.
    run_apt install "${packages[@]}" || run_apt install "${CEPH[@]}" ||
        die "these packages could not be installed: ${packages[*]}"
}

install_localstack() {
    local wanted="${PINS[*]}"
    [ "$(cat "$LOCALSTACK/.pins" 2>/dev/null)" = "$wanted" ] && return
    say "installing LocalStack into $LOCALSTACK"
    .venv/bin/python -m venv --clear "$LOCALSTACK"
    "$LOCALSTACK/bin/python" -m pip install --quiet --disable-pip-version-check "${PINS[@]}" ||
        die "LocalStack could not be installed"
    printf '%s' "$wanted" >"$LOCALSTACK/.pins"
}

install_packages & packages=$!
install_localstack & localstack=$!
left_out=
wait $packages || true
has_ceph || left_out+=" Ceph"
has_chromium || left_out+=" Chromium"
wait $localstack || left_out+=" LocalStack"
if [ -z "$left_out" ]; then
    touch .cache/.servers
elif [ "${DSPREP_TESTS:-}" = all ]; then
    die "not installed:$left_out"
else
    say "not installed:$left_out. The tests that need it are left out."
fi
