#!/usr/bin/env bash
# Fails when `make generate` changes the tree. Changes that were there before do
# not count, so that it can be run while working.
set -euo pipefail
cd "$(dirname "$0")/.."

state() {
	git diff HEAD
	git ls-files --others --exclude-standard -z | xargs -0 -r sha256sum
}

before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT
state >"$before"
make generate
state >"$after"
if ! diff "$before" "$after"; then
	echo "generated files were not current: commit what make generate made of them" >&2
	exit 1
fi
