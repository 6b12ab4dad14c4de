#!/usr/bin/env bash
# Starts Ceph with its S3 gateway on loopback, http and https, all data in memory.
# usage: ceph.sh DIRECTORY HTTP_PORT HTTPS_PORT MONITOR_PORT; the pids are in DIRECTORY/run/*.pid
set -eu
dir=$1 http=$2 https=$3 monitor=$4
mkdir -p "$dir"/{mon,osd,run,log}
export CEPH_CONF=$dir/ceph.conf
cat >"$CEPH_CONF" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = v1:127.0.0.1:$monitor
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth supported = none
osd pool default size = 1
osd pool default pg num = 4
mon allow pool size one = true
mon data avail crit = 1
osd crush chooseleaf type = 0
osd objectstore = memstore
osd class update on start = false
osd crush update on start = false
memstore device bytes = 12884901888
admin socket = $dir/run/\$name.\$pid.asok
log file = $dir/log/\$name.log
mon data = $dir/mon
osd data = $dir/osd
pid file = $dir/run/\$name.pid
rgw crypt require ssl = false
rgw crypt s3 kms backend = testing
rgw crypt s3 kms encryption keys = k1=$(head -c 32 /dev/zero | base64)
paxos propose interval = 0.05
CONF

# The monitor refuses everything for some milliseconds.
try() {
    for _ in $(seq 60); do
        timeout 20 "$@" >/dev/null 2>>"$dir/log/admin.err" && return
        sleep 0.1
    done
    echo "failed: $*" >&2
    exit 1
}

ceph-mon -i a --mkfs --public-addr "v1:127.0.0.1:$monitor" 2>>"$dir/log/mkfs.err"
ceph-mon -i a --public-addr "v1:127.0.0.1:$monitor"
osd=$(cat /proc/sys/kernel/random/uuid)
try ceph osd create "$osd" 0
try ceph osd crush add osd.0 1.0 host=localhost root=default
ceph-osd -i 0 --mkfs --osd-uuid "$osd" >/dev/null 2>>"$dir/log/mkfs.err"
ceph-osd -i 0 >/dev/null 2>>"$dir/log/mkfs.err"
# `limited` owns nothing: what it may do is what a bucket's policy allows.
try radosgw-admin user create --uid=owner --display-name=owner --access-key=OWNER --secret-key=secret
try radosgw-admin user create --uid=limited --display-name=limited --access-key=LIMITED \
    --secret-key=secret
try radosgw-admin zonegroup placement add --rgw-zonegroup default \
    --placement-id default-placement --storage-class STANDARD_IA
try radosgw-admin zone placement add --rgw-zone default --placement-id default-placement \
    --storage-class STANDARD_IA --data-pool default.rgw.ia
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
    -keyout "$dir/tls.key" -out "$dir/tls.crt" 2>/dev/null
cat "$dir/tls.key" "$dir/tls.crt" >"$dir/tls.pem"
radosgw -n client.rgw --rgw-frontends \
    "beast endpoint=127.0.0.1:$http ssl_endpoint=127.0.0.1:$https ssl_certificate=$dir/tls.pem"
