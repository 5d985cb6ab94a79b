#!/usr/bin/env bash
# Says what set-up needs and does not find, and how to get it. Ends with 1 if something is missing.
set -u
missing=0
need() { # WHAT, WHY, HOW
    printf 'missing: %s\n    %s\n    get it: %s\n' "$1" "$2" "$3" >&2
    missing=1
}
older() { # whether version $1 is older than $2
    [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

command -v git >/dev/null || need git "names the commit in results" "apt-get install git"

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    need "python 3.11 or newer" "the command and the report" "apt-get install python3 python3-venv"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    need "python 3.11 or newer" "$("$python" --version) is too old" "install a newer one and say: make PYTHON=python3.12"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    need "python's venv and ensurepip" "wirespeed is installed in .venv" "apt-get install python3-venv"
fi

if ! command -v "${CC:-cc}" >/dev/null; then
    need "a C compiler" "links programs, and builds the decompressors" "apt-get install build-essential"
fi

rust="rust ${RUST_MIN:-} or newer with cargo"
how="rustup (see rust-lang.org/tools/install): rustup toolchain install stable"
if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    need "$rust" "the simulator is written in it" "$how; then open a new shell"
elif ! said=$(cargo --version 2>&1 && rustc --version 2>&1); then
    need "$rust" "cargo is there but does not run: $(printf '%s' "$said" | head -n 1)" \
        "rustup default stable, or set RUSTUP_HOME and CARGO_HOME to where rust is installed"
else
    have=$(rustc --version | cut -d' ' -f2 | cut -d- -f1)
    if [ -n "${RUST_MIN:-}" ] && older "$have" "$RUST_MIN"; then
        need "$rust" "rustc $have is too old" "rustup update stable"
    fi
fi
exit $missing
