//! Every text of an error, in one place to be read.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use router::RouterError;
use router::layout::KernelExit;

#[test]
fn every_error_says_what_came_what_is_allowed_and_what_to_do() {
    let waited = Duration::from_millis(5200);
    let left = [KernelExit::HostSilent, KernelExit::DispatcherSilent, KernelExit::Overrun, KernelExit::Unknown(9)];
    let mut errors = vec![
        RouterError::NoDriver { library: "libcuda.so.1".into(), reason: "cannot open shared object file".into() },
        RouterError::OldDriver { library: "libcuda.so.1".into(), symbol: "cuFuncLoad" },
        RouterError::OldCuda { found: 11_080, needed: 12_000 },
        RouterError::NoGpu { reason: "cuInit: CUDA_ERROR_NO_DEVICE (100)".into() },
        RouterError::Unfit { name: "Tesla P100".into(), lacks: "compute capability 6.0".into() },
        RouterError::Memory {
            what: "tbl24".into(),
            bytes: 32 << 20,
            reason: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY".into(),
            remedy: "free the GPU, or use fewer slots or routes",
        },
        RouterError::Driver {
            call: "cuStreamQuery",
            name: "CUDA_ERROR_LAUNCH_TIMEOUT".into(),
            code: 702,
            hint: ": a display watches this GPU",
        },
        RouterError::Silent { backend: "cuda", uncommitted: 17, waited },
        RouterError::Stuck { backend: "cuda", waited },
        RouterError::Copy { waited },
        RouterError::Protocol { backend: "twin", what: "task 5 was committed twice".into() },
        RouterError::Panicked { backend: "cpu" },
        RouterError::QueuePanicked { queue: 3 },
        RouterError::QueueThread { queue: 900, source: Error::from(ErrorKind::WouldBlock) },
        RouterError::Setting { what: "threads", came: "0".into(), allowed: "allowed are 1 to 1024" },
        RouterError::File { path: "out.pcap".into(), source: Error::from(ErrorKind::PermissionDenied) },
        RouterError::Interface {
            name: "eth0".into(),
            doing: "opening a raw socket",
            source: Error::from(ErrorKind::PermissionDenied),
            hint: ": raw sockets need CAP_NET_RAW",
        },
    ];
    errors.extend(left.map(|why| RouterError::Left { backend: "cuda", why }));
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"));
    let no_gpu = errors.iter().filter(|error| error.is_no_gpu()).count();
    assert_eq!(no_gpu, 5, "what `--backend auto` goes on without");
}
