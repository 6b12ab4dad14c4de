#!/usr/bin/env bash
# Starts LocalStack's S3 on loopback. usage: localstack.sh VENV DIRECTORY PORT; the pid is in
# DIRECTORY/run/localstack.pid
set -eu
venv=$1 dir=$2 port=$3
mkdir -p "$dir/run"
cd "$dir"
export DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 SERVICES=s3 STRICT_SERVICE_LOADING=1 \
    EAGER_SERVICE_LOADING=0 GATEWAY_LISTEN=127.0.0.1:$port DNS_ADDRESS=0 TMPDIR=$dir \
    XDG_CACHE_HOME=$dir
# Objects would lie in /tmp/localstack-s3-storage, which nobody removes.
setsid "$venv/bin/python" -c "
from localstack.runtime.main import main
from localstack.services.s3 import provider
provider.DEFAULT_S3_TMP_DIR = '$dir/objects'
main()" >"$dir/log.txt" 2>&1 </dev/null &
echo $! >"$dir/run/localstack.pid"
