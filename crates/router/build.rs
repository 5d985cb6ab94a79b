//! Compiles the kernels as C for the host, so that what a GPU would run can run and be tested without one.

fn main() {
    for file in [
        "platform.h",
        "router.h",
        "functions.h",
        "classify.h",
        "fragment.h",
        "inspect.h",
        "program.h",
        "gather.h",
        "link.h",
        "router.cu",
        "twin.c",
    ] {
        println!("cargo:rerun-if-changed=kernels/{file}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    cc::Build::new()
        .file("kernels/twin.c")
        .std("c11")
        .define("_GNU_SOURCE", None)
        .opt_level(2)
        .extra_warnings(true)
        .compile("wirespeed_router_twin");
}
