#!/usr/bin/env bash
# Draws docs/lab8.svg anew from fresh runs; $1 is the program.
set -eu
longfat=$1
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
"$longfat" --runs "$runs" run scenarios/lab8.toml --engine lab >/dev/null
default=$("$longfat" --runs "$runs" ls --json | grep -o '"id": "[^"]*lab-default"' | cut -d'"' -f4)
tuned=$("$longfat" --runs "$runs" ls --json | grep -o '"id": "[^"]*lab-tuned"' | cut -d'"' -f4)
"$longfat" --runs "$runs" plot "$default" "$tuned" --metric goodput,cwnd,rtt -o docs/lab8.svg
