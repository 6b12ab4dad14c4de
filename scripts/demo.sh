#!/usr/bin/env bash
# What `make demo` shows: a data set packed into each format and verified. `demo.sh FOLDER` needs
# `dsprep` and a python with Pillow on the PATH; it makes FOLDER anew.
set -euo pipefail
cd "$(dirname "$0")/.."
demo=$1

# Print a command and run it; it must end with the given exit code.
show() {
    local expected=$1 code=0
    shift
    printf '\n$ %s\n' "$*"
    "$@" || code=$?
    [ "$code" = 0 ] || printf '(exit code %s)\n' "$code"
    [ "$code" = "$expected" ]
}

rm -rf "$demo"
mkdir -p "$demo"
printf 'Drawing 306 images in %s/images, 4 of them broken.\n' "$demo"
python -m scripts.demo_images "$demo/images"

for format in webdataset tfrecord recordio; do
    show 3 dsprep pack "$demo/images" "$demo/$format" --to "$format" --target-size 200KB
    show 0 dsprep verify "$demo/$format" --decode --against "$demo/images"
done

cat <<END

Made: the images in $demo/images; $demo/webdataset, $demo/tfrecord and $demo/recordio, the same samples in three
formats. Exit code 3 says that some images were rejected, the broken ones. Try next:

  dsprep pack $demo/images $demo/small --to webdataset --resize 64 --encode jpeg
  dsprep convert $demo/recordio $demo/folder --to folder
  dsprep split $demo/images -o $demo/lists

These need $PWD/.venv/bin on the PATH.
END
