#!/bin/sh
# What cargo calls in the place of rustc for crates of the workspace while `make test` runs (RUSTC_WORKSPACE_WRAPPER).
#
# A crate's unit tests are compiled with all of its code once more, and Cargo.toml cannot tell them from its library. Of
# these crates that takes longer optimised than it saves. Seconds of CPU to build and to run, optimised and not:
# sim 118 and 17, studies 39 and 18, daemon 10 and 3. Not so of machine: its tests take 8 s, and more than 106.
case " $* " in
*" --crate-name daemon "*" --test "* | *" --crate-name sim "*" --test "* | *" --crate-name studies "*" --test "*)
    set -- "$@" -C opt-level=0 # the last one counts
    ;;
esac
exec "$@"
