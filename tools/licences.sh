#!/usr/bin/env bash
# Fails when a library that Pharos links has a licence that is not permissive.
# The libraries in `unmodified` come with Alertmanager's and Grafana's own: MPL-2.0
# asks for the source of changed files only, and we change none. Their licence
# is still checked, so that a change of terms is noticed.
# What ships is checked: libraries that only test files import (pgregory.net/rapid,
# MPL-2.0, is one) are in no binary and are left out.
set -euo pipefail
cd "$(dirname "$0")/.."

permissive=Apache-2.0,MIT,BSD-2-Clause,BSD-3-Clause,ISC,0BSD,Zlib,Unlicense,CC0-1.0
unmodified="
github.com/gosimple/slug
github.com/hashicorp/errwrap
github.com/hashicorp/go-immutable-radix
github.com/hashicorp/go-multierror
github.com/hashicorp/go-sockaddr
github.com/hashicorp/golang-lru/simplelru
github.com/hashicorp/golang-lru/v2
github.com/hashicorp/memberlist
"

echo
echo "== licences of the libraries that ship (those of tests alone do not)"
status=0
output=$(go tool -modfile=tools/go.mod go-licenses check "${@:-./...}" \
	--ignore github.com/pharos-fleet/pharos --allowed_licenses "$permissive" 2>&1) || status=$?
if [ "$status" -eq 0 ]; then
	echo "all permissive"
	exit 0
fi

refused=$(grep '^Not allowed license' <<<"$output" || true)
if [ -z "$refused" ]; then # it failed for a reason of its own
	printf '%s\n' "$output" >&2
	exit "$status"
fi
for library in $unmodified; do
	refused=$(grep -vxF "Not allowed license 'MPL-2.0' found for library '$library'." <<<"$refused" || true)
done
if [ -n "$refused" ]; then
	printf '%s\n' "$refused" >&2
	exit 1
fi
echo "all permissive, but for MPL-2.0 of unmodified libraries:$(tr '\n' ' ' <<<"$unmodified")"
