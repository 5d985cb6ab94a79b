//! The driver's functions, loaded at run time: a machine without a GPU needs nothing, and says so when asked for one.
//!
//! Source: NVIDIA CUDA Driver API reference, 13.0.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::Library;

use crate::RouterError;

/// Where the driver is on Linux.
pub const LIBRARY: &str = "libcuda.so.1";
/// The version of CUDA that reads the shipped PTX (ISA 8.0): 12.0.
pub const NEEDED: i32 = 12_000;

pub(super) type CudaResult = c_int;
pub(super) type DevicePointer = u64;
pub(super) type Handle = *mut c_void;

pub(super) const SUCCESS: CudaResult = 0;
pub(super) const OUT_OF_MEMORY: CudaResult = 2;
pub(super) const NO_DEVICE: CudaResult = 100;
pub(super) const NOT_READY: CudaResult = 600;

macro_rules! driver {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($arg:ty),*);)*) => {
        /// Pointers to the driver's functions, valid as long as the library is loaded.
        pub(super) struct Functions {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($arg),*) -> CudaResult,)*
        }

        impl Functions {
            /// # Errors
            /// A function is missing: the driver is older than what calls it.
            fn load(library: &Library, name: &str) -> Result<Functions, RouterError> {
                Ok(Functions {
                    // SAFETY: the type is that of the driver's reference.
                    $($name: *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|_| {
                        RouterError::OldDriver { library: name.into(), symbol: $symbol }
                    })?,)*
                })
            }
        }
    };
}

driver! {
    init = "cuInit"(c_uint);
    error_name = "cuGetErrorName"(CudaResult, *mut *const c_char);
    device_count = "cuDeviceGetCount"(*mut c_int);
    device = "cuDeviceGet"(*mut c_int, c_int);
    device_name = "cuDeviceGetName"(*mut c_char, c_int, c_int);
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, c_int);
    device_memory = "cuDeviceTotalMem_v2"(*mut usize, c_int);
    context_retain = "cuDevicePrimaryCtxRetain"(*mut Handle, c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2"(c_int);
    context_set = "cuCtxSetCurrent"(Handle);
    module_load = "cuModuleLoadData"(*mut Handle, *const c_void);
    module_unload = "cuModuleUnload"(Handle);
    module_function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(*mut c_int, Handle, c_int, usize);
    host_alloc = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
    host_free = "cuMemFreeHost"(*mut c_void);
    host_address = "cuMemHostGetDevicePointer_v2"(*mut DevicePointer, *mut c_void, c_uint);
    alloc = "cuMemAlloc_v2"(*mut DevicePointer, usize);
    free = "cuMemFree_v2"(DevicePointer);
    memory_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    set_bytes = "cuMemsetD8Async"(DevicePointer, u8, usize, Handle);
    to_device = "cuMemcpyHtoDAsync_v2"(DevicePointer, *const c_void, usize, Handle);
    to_host = "cuMemcpyDtoHAsync_v2"(*mut c_void, DevicePointer, usize, Handle);
    stream_create = "cuStreamCreate"(*mut Handle, c_uint);
    stream_destroy = "cuStreamDestroy_v2"(Handle);
    stream_query = "cuStreamQuery"(Handle);
    launch = "cuLaunchKernel"(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
    launch_together = "cuLaunchCooperativeKernel"(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void
    );
    capture_begin = "cuStreamBeginCapture_v2"(Handle, c_uint);
    capture_end = "cuStreamEndCapture"(Handle, *mut Handle);
    graph_instantiate = "cuGraphInstantiateWithFlags"(*mut Handle, Handle, u64);
    graph_launch = "cuGraphLaunch"(Handle, Handle);
    graph_destroy = "cuGraphDestroy"(Handle);
    graph_exec_destroy = "cuGraphExecDestroy"(Handle);
}

/// A loaded driver that found a GPU.
pub(super) struct Driver {
    pub(super) call: Functions,
    /// `cuFuncLoad`, which drivers before 12.4 lack.
    pub(super) function_load: Option<unsafe extern "C" fn(Handle) -> CudaResult>,
    /// 1000 times the major version of CUDA and 10 times the minor one.
    pub(super) version: i32,
    pub(super) devices: i32,
    _library: Library,
}

impl Driver {
    /// Loads `library`, or the system's driver.
    ///
    /// # Errors
    /// No driver, an old one, no GPU.
    pub(super) fn open(library: Option<&str>) -> Result<Driver, RouterError> {
        let name = library.unwrap_or(LIBRARY);
        // SAFETY: the driver's initialisers run, as they do in every program that links it.
        let loaded = unsafe { Library::new(name) };
        let loaded = loaded.map_err(|e| RouterError::NoDriver { library: name.into(), reason: e.to_string() })?;
        // The version comes first: an old driver is told by its number, and only then by what it lacks.
        let version = version(&loaded);
        if let Some(found) = version.filter(|&found| found < NEEDED) {
            return Err(RouterError::OldCuda { found, needed: NEEDED });
        }
        let call = Functions::load(&loaded, name)?;
        // SAFETY: the type is that of the driver's reference.
        let function_load = unsafe { loaded.get(b"cuFuncLoad\0") }.ok().map(|found| *found);
        let mut driver = Driver { call, function_load, version: version.unwrap_or(0), devices: 0, _library: loaded };
        // SAFETY: no flags.
        let status = unsafe { (driver.call.init)(0) };
        if status != SUCCESS {
            let reason = format!("cuInit: {} ({status})", driver.name_of(status));
            return Err(RouterError::NoGpu { reason });
        }
        let mut devices = 0;
        // SAFETY: a place for an integer.
        let status = unsafe { (driver.call.device_count)(&mut devices) };
        driver.check("cuDeviceGetCount", status)?;
        if devices < 1 {
            return Err(RouterError::NoGpu { reason: "cuDeviceGetCount: 0".into() });
        }
        driver.devices = devices;
        Ok(driver)
    }

    /// The driver's name of an error.
    pub(super) fn name_of(&self, status: CudaResult) -> String {
        let mut name = ptr::null();
        // SAFETY: a place for a pointer, which is then null or a string that lasts.
        unsafe {
            if (self.call.error_name)(status, &mut name) == SUCCESS && !name.is_null() {
                return CStr::from_ptr(name).to_string_lossy().into_owned();
            }
        }
        "an error that the driver has no name for".into()
    }

    /// An error unless `status` is success.
    pub(super) fn check(&self, call: &'static str, status: CudaResult) -> Result<(), RouterError> {
        match status {
            SUCCESS => Ok(()),
            NO_DEVICE => Err(RouterError::NoGpu { reason: format!("{call}: {}", self.name_of(status)) }),
            _ => Err(RouterError::Driver { call, name: self.name_of(status), code: status, hint: hint(status) }),
        }
    }
}

fn version(library: &Library) -> Option<i32> {
    type Version = unsafe extern "C" fn(*mut c_int) -> CudaResult;
    let mut version = 0;
    // SAFETY: the type is that of the driver's reference.
    let status = unsafe { library.get::<Version>(b"cuDriverGetVersion\0").ok()?(&mut version) };
    (status == SUCCESS).then_some(version)
}

/// What an error means here.
fn hint(status: CudaResult) -> &'static str {
    match status {
        218 | 222 => ": the driver cannot read the kernels' PTX (ISA 8.0); a driver of the 525 series or newer can",
        209 | 223 => ": the driver cannot compile the kernels for this GPU",
        702 => ": a display watches this GPU and ends kernels that stay; use one without a display, or a batch mode",
        700 | 719 => ": the kernel made an access that it may not make; this is a bug",
        720 => ": fewer warps fit than were asked for",
        _ => "",
    }
}
