#!/usr/bin/env bash
# Writes the SHA-256 sums of all files of a directory to SHA256SUMS in it: `sha256sum -c SHA256SUMS` checks them.
#   checksums.sh DIRECTORY
set -eu
cd "$1"
rm -f SHA256SUMS
# To a variable first: the list does not have itself, and a file that cannot be read ends this.
sums=$(sha256sum -- *)
echo "$sums" >SHA256SUMS
