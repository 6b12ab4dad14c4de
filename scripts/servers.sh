#!/usr/bin/env bash
# Installs the S3 servers that the tests start: Ceph's gateway from Debian's packages, LocalStack in a
# virtual environment of its own, .cache/localstack, as its dependencies are not those of dsprep.
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

install_ceph() {
    has_ceph && return
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    command -v apt-get >/dev/null || die "Ceph's ${CEPH[*]} are missing, and there is no apt-get"
    "${as_root[@]}" true 2>/dev/null || die "Ceph can be installed only by root or with sudo"
    say "installing ${CEPH[*]} (300 MB)"
    { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install --yes --no-install-recommends "${CEPH[@]}"; } >/dev/null ||
        die "these packages could not be installed: ${CEPH[*]}"
    has_ceph || die "${CEPH[*]} are installed, but their commands are not on the PATH"
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

install_ceph & ceph=$!
install_localstack & localstack=$!
left_out=
wait $ceph || left_out+=" Ceph"
wait $localstack || left_out+=" LocalStack"
if [ -z "$left_out" ]; then
    touch .cache/.servers
elif [ "${DSPREP_TESTS:-}" = all ]; then
    die "not installed:$left_out"
else
    say "not installed:$left_out. The tests that need it are left out."
fi
