#!/bin/sh
# What cargo calls in the place of rustc for crates of the workspace while `make test` runs (RUSTC_WORKSPACE_WRAPPER).
#
# A crate's unit tests are compiled with all of its code once more, and Cargo.toml cannot tell them from its library. Of
# these programs that takes longer optimised than it saves. Seconds of CPU to build and to run, optimised and not:
# sim 118 and 17, studies 39 and 18, daemon 10 and 3, router 19 and 7; suites of machine 33 and 21, of traffic 14 and 3. Not so of
# the unit tests of machine: they take 8 s, and more than 106.
#
# Those of traffic stay optimised, each of their 16 parts by itself: 32 s to build and 9.2 to run, where inlining from part
# to part takes 50 and 8.6.
case " $* " in
*" --test "*)
    crate=${*##*--crate-name }
    case "${CARGO_PKG_NAME-}/${crate%% *}" in
    wirespeed-sim/sim | wirespeed-studies/studies | wirespeed-daemon/daemon | wirespeed-router/router | \
        wirespeed-machine/suite | wirespeed-traffic/suite)
        # The last one counts.
        set -- "$@" -C opt-level=0
        ;;
    wirespeed-traffic/traffic)
        set -- "$@" -C lto=off
        ;;
    esac
    ;;
esac
exec "$@"
