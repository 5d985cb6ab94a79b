//! One GPU: its memory, its streams, and the kernel that stays.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use packet::Packet;
use serde::Serialize;

use super::PTX;
use super::driver::{DevicePointer, Driver, Handle, NOT_READY, OUT_OF_MEMORY};
use crate::backend::Backend;
use crate::delay::{DelaySummary, Delays};
use crate::layout::{LinkProbe, RING_ENTRIES, Router, WARP_LANES};
use crate::machine::KernelMachine;
use crate::memory::SharedMemory;
use crate::persistent::{KernelSetup, Persistent};
use crate::{RouterError, RouterProgram};

/// Tasks that a probe times.
const ROUND_TRIPS: u64 = 1000;
/// Threads of a block: four warps, so that the limit on blocks of a shader core is not met before the one on warps. Fewer where
/// the warps of a core do not come in fours, so that blocks, which go to cores in turn, leave as many on each.
const BLOCK: u32 = 128;
/// How long copies may take: the largest table takes a fraction of a second.
const COPY_DEADLINE: Duration = Duration::from_secs(30);
/// `CU_STREAM_NON_BLOCKING`: work in it does not wait for the default stream.
const NON_BLOCKING: c_uint = 1;
/// `CU_MEMHOSTALLOC_PORTABLE` and `CU_MEMHOSTALLOC_DEVICEMAP`.
const MAPPED: c_uint = 3;

/// Numbers of `CUdevice_attribute`.
mod attribute {
    pub(super) const CLOCK_KHZ: i32 = 13;
    pub(super) const CORES: i32 = 16;
    pub(super) const EXEC_TIMEOUT: i32 = 17;
    pub(super) const INTEGRATED: i32 = 18;
    pub(super) const CAN_MAP: i32 = 19;
    pub(super) const L2_BYTES: i32 = 38;
    pub(super) const COPY_ENGINES: i32 = 40;
    pub(super) const MAJOR: i32 = 75;
    pub(super) const MINOR: i32 = 76;
    pub(super) const COOPERATIVE: i32 = 95;
}

/// Where packets lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketPlacement {
    /// In pinned host memory, which the kernel reads and writes over the bus.
    #[default]
    ZeroCopy,
    /// In the GPU's memory.
    Resident,
}

/// Which GPU, and how it is used.
#[derive(Clone, Debug, Default)]
pub struct GpuSpec {
    /// The driver's library, if it is not [`super::LIBRARY`].
    pub library: Option<String>,
    /// Which of several GPUs.
    pub device: i32,
    /// Where packets lie.
    pub placement: PacketPlacement,
    /// Warps a shader core (MCW), if not as many as fit.
    pub warps_per_core: Option<u32>,
}

/// What a machine's GPU offers.
#[derive(Clone, Debug, Serialize)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// 1000 times the major version of CUDA that the driver has, and 10 times the minor one.
    pub driver: i32,
    /// How many GPUs there are.
    pub devices: i32,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Shader cores.
    pub cores: i32,
    /// Their clock in MHz.
    pub clock_mhz: i32,
    /// Bytes of memory.
    pub memory: usize,
    /// Bytes of it that are free.
    pub free: usize,
    /// Bytes of the L2 cache.
    pub l2: i32,
    /// Engines that copy while kernels run.
    pub copy_engines: i32,
    /// Whether it shares the host's memory, as an integrated chip does.
    pub integrated: bool,
    /// Whether a display may end kernels that stay.
    pub display: bool,
    /// Warps of the persistent kernel that a shader core holds: of the one for one function of headers.
    pub warps_per_core: u32,
    /// And of the one for any function and any chain, which takes more registers.
    pub warps_per_core_any: u32,
    /// From the host's posting of a task of one packet to its seeing the commit, by a kernel that stays: that host and kernel
    /// see each other's words at all, and how soon.
    pub round_trip: Option<DelaySummary>,
}

impl Offer {
    /// The driver's own version, where the system tells it, and the version of CUDA that it has.
    pub fn driver_name(&self) -> String {
        let cuda = format!("CUDA {}.{}", self.driver / 1000, self.driver % 1000 / 10);
        match std::fs::read_to_string("/sys/module/nvidia/version") {
            Ok(own) => format!("{} {cuda}", own.trim()),
            Err(_) => cuda,
        }
    }
}

/// The kernels for a kind of programs.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub(super) persistent: Handle,
    pub(super) batch: Handle,
    /// Of the one that stays, what a shader core holds.
    warps_per_core: u32,
}

/// A GPU with the kernels loaded, for all that runs on it one after the other: opening it takes a fraction of a second.
pub struct GpuContext {
    driver: Driver,
    device: c_int,
    context: Handle,
    module: Handle,
    /// For one function of headers, and for any program.
    kernels: [Kernels; 2],
    /// The one for what was gathered.
    pub(super) gathered: Handle,
    /// The one that measures the bus.
    link: Handle,
    offer: Offer,
}

// SAFETY: handles of the driver, which may be used by any thread once the context is made current there.
unsafe impl Send for GpuContext {}
// SAFETY: as above; the driver locks what its calls share.
unsafe impl Sync for GpuContext {}

/// A part of a GPU: memory and streams of its own.
pub struct Gpu {
    pub(super) on: Arc<GpuContext>,
    /// That are started: for one function of headers, and for any program.
    warps: [u32; 2],
    kernel_stream: Handle,
    copy_stream: Handle,
    placement: PacketPlacement,
    pinned: Vec<NonNull<u8>>,
    own: Vec<DevicePointer>,
    changes: Option<Changes>,
    running: bool,
    /// A kernel did not leave: what it may write stays.
    stuck: bool,
}

// SAFETY: handles of the driver, which may be used by any thread once the context is made current there.
unsafe impl Send for Gpu {}

/// Entries on their way to tables that a kernel reads.
struct Changes {
    /// Of its own, so that they come in order and wait for nothing else.
    stream: Handle,
    /// Pinned: copies of what is not pinned wait.
    staged: NonNull<u8>,
    /// Bytes of it that copies may still read.
    used: usize,
}

/// Bytes of [`Changes::staged`], and the most that one copy takes of it.
const STAGED_BYTES: usize = 1 << 20;
const COPY_BYTES: usize = 1 << 16;

/// What the GPU of this machine offers, tried with a kernel that stays.
///
/// # Errors
/// Why there is none that can be used; a kernel that does not answer within two seconds.
pub fn probe(library: Option<&str>) -> Result<Offer, RouterError> {
    let gpu = Gpu::open(&GpuSpec { library: library.map(str::to_string), ..GpuSpec::default() })?;
    let mut offer = gpu.offer().clone();
    let setup =
        KernelSetup { slots: 1024, frame_bytes: 64, deadline: Duration::from_secs(2), ..KernelSetup::default() };
    let mut backend = Persistent::new(gpu, &RouterProgram::ttl(1), setup)?;
    let (mut delays, mut out) = (Delays::default(), Vec::new());
    for number in 0..ROUND_TRIPS {
        backend.put(number, &mut Packet::default());
        let posted = Instant::now();
        backend.post(number, 1)?;
        while out.is_empty() {
            backend.poll(&mut out)?;
        }
        out.clear();
        delays.add(posted.elapsed().as_nanos() as u64);
    }
    backend.stop()?;
    offer.round_trip = delays.summary();
    Ok(offer)
}

impl GpuContext {
    /// Loads the driver, or `library` in its place, and the kernels.
    ///
    /// # Errors
    /// No driver, an old one, no GPU, or one that lacks what the kernels need.
    pub fn open(library: Option<&str>, device: i32) -> Result<Arc<GpuContext>, RouterError> {
        let driver = Driver::open(library)?;
        if !(0..driver.devices).contains(&device) {
            let allowed = "there are fewer GPUs (the first is 0)";
            return Err(RouterError::Setting { what: "device", came: device.to_string(), allowed });
        }
        let (ordinal, mut device) = (device, 0);
        // SAFETY: a place for an integer.
        driver.check("cuDeviceGet", unsafe { (driver.call.device)(&mut device, ordinal) })?;
        let offer = describe(&driver, device)?;
        let unfit = |lacks: &str| Err(RouterError::Unfit { name: offer.name.clone(), lacks: lacks.into() });
        if offer.capability < (7, 5) {
            let (major, minor) = offer.capability;
            return unfit(&format!("compute capability {major}.{minor}, and the kernels need 7.5 (Turing) or more"));
        }
        if attribute_of(&driver, device, attribute::CAN_MAP)? == 0 {
            return unfit("it cannot map host memory");
        }
        if attribute_of(&driver, device, attribute::COOPERATIVE)? == 0 {
            return unfit("it cannot launch a kernel whose warps all run at once");
        }
        let mut context = ptr::null_mut();
        // SAFETY: a place for a handle; the same below.
        driver.check("cuDevicePrimaryCtxRetain", unsafe { (driver.call.context_retain)(&mut context, device) })?;
        let null = ptr::null_mut();
        let kernels = [Kernels { persistent: null, batch: null, warps_per_core: 0 }; 2];
        let mut gpu = GpuContext { driver, device, context, module: null, kernels, gathered: null, link: null, offer };
        gpu.current()?;
        let text = CString::new(PTX).map_err(|_| RouterError::Driver {
            call: "cuModuleLoadData",
            name: "the shipped PTX has a zero in it".into(),
            code: 0,
            hint: "",
        })?;
        // SAFETY: a text that ends with 0.
        let status = unsafe { (gpu.driver.call.module_load)(&mut gpu.module, text.as_ptr().cast()) };
        gpu.driver.check("cuModuleLoadData", status)?;
        gpu.kernels = [gpu.load(c"persistent", c"batch")?, gpu.load(c"persistent_any", c"batch_any")?];
        gpu.gathered = gpu.function(c"batch_gathered")?;
        gpu.link = gpu.function(c"link")?;
        [gpu.offer.warps_per_core, gpu.offer.warps_per_core_any] = gpu.kernels.map(|kernels| kernels.warps_per_core);
        Ok(Arc::new(gpu))
    }

    fn load(&self, persistent: &CStr, batch: &CStr) -> Result<Kernels, RouterError> {
        let (persistent, batch) = (self.function(persistent)?, self.function(batch)?);
        let mut blocks = 0;
        // SAFETY: a place for an integer, and a function of the module.
        let status = unsafe { (self.driver.call.occupancy)(&mut blocks, persistent, BLOCK as c_int, 0) };
        self.driver.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", status)?;
        Ok(Kernels { persistent, batch, warps_per_core: blocks.max(0) as u32 * BLOCK / 32 })
    }

    fn function(&self, name: &CStr) -> Result<Handle, RouterError> {
        let mut function = ptr::null_mut();
        let call = &self.driver.call;
        // SAFETY: a place for a handle, the module, a text that ends with 0.
        let status = unsafe { (call.module_function)(&mut function, self.module, name.as_ptr()) };
        self.driver.check("cuModuleGetFunction", status)?;
        // Now, not at the first launch: loading waits for kernels that run. Older drivers load all of a module, or by the first
        // launch of a kernel, which is before any runs.
        if let Some(load) = self.driver.function_load {
            // SAFETY: a function of the module.
            self.driver.check("cuFuncLoad", unsafe { load(function) })?;
        }
        Ok(function)
    }

    fn current(&self) -> Result<(), RouterError> {
        // SAFETY: the context that was retained.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.call.context_set)(self.context) })
    }

    /// How many warps are started where `wanted` a shader core are asked for. Where nobody asks, as many as fit, but no more
    /// than the ring has tasks for: further ones could only poll.
    fn warps(&self, kernels: &Kernels, wanted: Option<u32>) -> Result<u32, RouterError> {
        let taken = match wanted {
            None => kernels.warps_per_core.min((RING_ENTRIES as u32 + 1).div_ceil(self.offer.cores.max(1) as u32)),
            Some(wanted) if (1..=kernels.warps_per_core).contains(&wanted) => wanted,
            Some(wanted) => {
                let allowed = "allowed are 1 and more, up to what fits (`wirespeed router probe` tells)";
                return Err(RouterError::Setting { what: "warps a core", came: wanted.to_string(), allowed });
            }
        };
        let warps = taken * self.offer.cores.max(0) as u32;
        if warps < 2 {
            let (name, lacks) = (self.offer.name.clone(), "room for a dispatcher and a worker".into());
            return Err(RouterError::Unfit { name, lacks });
        }
        Ok(warps)
    }

    /// What it offers.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }
}

impl Drop for GpuContext {
    fn drop(&mut self) {
        if self.current().is_err() {
            return;
        }
        let call = &self.driver.call;
        // SAFETY: nothing that was made in the context is left.
        unsafe {
            if !self.module.is_null() {
                (call.module_unload)(self.module);
            }
            (call.context_release)(self.device);
        }
    }
}

impl Gpu {
    /// Loads the driver and the kernels.
    ///
    /// # Errors
    /// As [`GpuContext::open`] and [`Gpu::on`].
    pub fn open(spec: &GpuSpec) -> Result<Gpu, RouterError> {
        Gpu::on(&GpuContext::open(spec.library.as_deref(), spec.device)?, spec.placement, spec.warps_per_core)
    }

    /// Uses a GPU that is open.
    ///
    /// # Errors
    /// More warps a core than fit; a driver that refuses.
    pub fn on(
        context: &Arc<GpuContext>,
        placement: PacketPlacement,
        warps_per_core: Option<u32>,
    ) -> Result<Gpu, RouterError> {
        let [headers, any] = &context.kernels;
        // The kernel for any program has fewer: as many of them as it can have are what was asked for.
        let of_any = warps_per_core.map(|wanted| wanted.min(any.warps_per_core));
        let mut gpu = Gpu {
            warps: [context.warps(headers, warps_per_core)?, context.warps(any, of_any)?],
            on: context.clone(),
            kernel_stream: ptr::null_mut(),
            copy_stream: ptr::null_mut(),
            placement,
            pinned: Vec::new(),
            own: Vec::new(),
            changes: None,
            running: false,
            stuck: false,
        };
        gpu.current()?;
        gpu.kernel_stream = gpu.stream()?;
        gpu.copy_stream = gpu.stream()?;
        Ok(gpu)
    }

    /// The same GPU for packets in its own memory.
    pub(super) fn resident(mut self) -> Gpu {
        self.placement = PacketPlacement::Resident;
        self
    }

    /// The kernels for any program, or those for one function of headers.
    pub(super) fn kernels(&self, any: bool) -> &Kernels {
        &self.on.kernels[usize::from(any)]
    }

    /// What it offers.
    pub fn offer(&self) -> &Offer {
        &self.on.offer
    }

    /// Warps a core that are started of the kernel for any program, or of that for headers.
    pub fn warps_per_core(&self, any: bool) -> u32 {
        self.warps[usize::from(any)] / self.offer().cores.max(1) as u32
    }

    /// Where packets lie.
    pub fn placement(&self) -> PacketPlacement {
        self.placement
    }

    /// Starts the kernel that measures the bus: one warp, which ends by itself.
    pub(super) fn launch_link(&mut self, mut link: LinkProbe) -> Result<(), RouterError> {
        self.current()?;
        let mut arguments = [(&raw mut link).cast::<c_void>()];
        let (call, function, stream) = (&self.driver().call, self.on.link, self.kernel_stream);
        // SAFETY: a function of one argument of this type, which the driver copies.
        let status = unsafe {
            (call.launch)(function, 1, 1, 1, WARP_LANES, 1, 1, 0, stream, arguments.as_mut_ptr(), ptr::null_mut())
        };
        self.driver().check("cuLaunchKernel", status)?;
        self.running = true;
        Ok(())
    }

    /// Something runs that does not end: nothing is freed.
    pub(super) fn abandon(&mut self) {
        self.stuck = true;
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.on.driver
    }

    pub(super) fn current(&self) -> Result<(), RouterError> {
        self.on.current()
    }

    pub(super) fn stream(&self) -> Result<Handle, RouterError> {
        let mut stream = ptr::null_mut();
        // SAFETY: a place for a handle.
        let status = unsafe { (self.driver().call.stream_create)(&mut stream, NON_BLOCKING) };
        self.driver().check("cuStreamCreate", status)?;
        Ok(stream)
    }

    fn refused(&self, call: &'static str, what: &str, bytes: usize, status: i32) -> RouterError {
        if status != OUT_OF_MEMORY {
            return self.driver().check(call, status).err().unwrap_or_else(|| self.lost(call));
        }
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for two sizes.
        unsafe { (self.driver().call.memory_info)(&mut free, &mut total) };
        let reason = format!("{call}: {}; {free} of {total} bytes are free", self.driver().name_of(status));
        let remedy = match call {
            "cuMemHostAlloc" => "it is the host's memory, pinned: free some, or use fewer slots",
            _ => "free the GPU, or use fewer slots or routes",
        };
        RouterError::Memory { what: what.into(), bytes, reason, remedy }
    }

    fn lost(&self, call: &'static str) -> RouterError {
        RouterError::Driver { call, name: "it gave nothing".into(), code: 0, hint: "" }
    }

    pub(super) fn allocate(&mut self, what: &str, bytes: usize) -> Result<DevicePointer, RouterError> {
        self.current()?;
        let mut at = 0;
        // SAFETY: a place for an address.
        let status = unsafe { (self.driver().call.alloc)(&mut at, bytes.max(1)) };
        if status != 0 || at == 0 {
            return Err(self.refused("cuMemAlloc", what, bytes, status));
        }
        self.own.push(at);
        // SAFETY: memory of that length.
        let status = unsafe { (self.driver().call.set_bytes)(at, 0, bytes.max(1), self.copy_stream) };
        self.driver().check("cuMemsetD8Async", status)?;
        self.wait(self.copy_stream)?;
        Ok(at)
    }

    /// Waits for copies, never without end: a GPU that has died would not let go of who waits.
    pub(super) fn wait(&self, stream: Handle) -> Result<(), RouterError> {
        let asked = Instant::now();
        loop {
            // SAFETY: a stream of this context.
            match unsafe { (self.driver().call.stream_query)(stream) } {
                NOT_READY if asked.elapsed() <= COPY_DEADLINE => std::hint::spin_loop(),
                NOT_READY => return Err(RouterError::Copy { waited: asked.elapsed() }),
                status => return self.driver().check("cuStreamQuery", status),
            }
        }
    }

    pub(super) fn pin(&mut self, what: &str, bytes: usize) -> Result<NonNull<u8>, RouterError> {
        self.current()?;
        let mut at = ptr::null_mut();
        // SAFETY: a place for a pointer.
        let status = unsafe { (self.driver().call.host_alloc)(&mut at, bytes.max(1), MAPPED) };
        let Some(at) = NonNull::new(at.cast::<u8>()).filter(|_| status == 0) else {
            return Err(self.refused("cuMemHostAlloc", what, bytes, status));
        };
        // SAFETY: memory of that length.
        unsafe { ptr::write_bytes(at.as_ptr(), 0, bytes.max(1)) };
        self.pinned.push(at);
        Ok(at)
    }

    /// Copies to the GPU's memory, in order with other work of `stream`.
    ///
    /// # Safety
    /// Both are there for as long as the copy takes.
    pub(super) unsafe fn to_device(
        &self,
        at: DevicePointer,
        from: *const u8,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), RouterError> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.driver().call.to_device)(at, from.cast(), bytes, stream) };
        self.driver().check("cuMemcpyHtoDAsync", status)
    }

    /// Copies from the GPU's memory, in order with other work of `stream`.
    ///
    /// # Safety
    /// Both are there for as long as the copy takes.
    pub(super) unsafe fn to_host(
        &self,
        at: *mut u8,
        from: DevicePointer,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), RouterError> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.driver().call.to_host)(at.cast(), from, bytes, stream) };
        self.driver().check("cuMemcpyDtoHAsync", status)
    }
}

fn attribute_of(driver: &Driver, device: c_int, which: i32) -> Result<i32, RouterError> {
    let mut value = 0;
    // SAFETY: a place for an integer.
    let status = unsafe { (driver.call.device_attribute)(&mut value, which, device) };
    driver.check("cuDeviceGetAttribute", status)?;
    Ok(value)
}

fn describe(driver: &Driver, device: c_int) -> Result<Offer, RouterError> {
    let (mut name, mut memory) = ([0 as c_char; 256], 0);
    // SAFETY: places of these lengths.
    unsafe {
        driver.check("cuDeviceGetName", (driver.call.device_name)(name.as_mut_ptr(), 255, device))?;
        driver.check("cuDeviceTotalMem", (driver.call.device_memory)(&mut memory, device))?;
    }
    let of = |which| attribute_of(driver, device, which);
    // SAFETY: at most 255 of 256 characters were written: a zero follows.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    Ok(Offer {
        name,
        driver: driver.version,
        devices: driver.devices,
        capability: (of(attribute::MAJOR)?, of(attribute::MINOR)?),
        cores: of(attribute::CORES)?,
        clock_mhz: of(attribute::CLOCK_KHZ).unwrap_or(0) / 1000,
        memory,
        free: memory,
        l2: of(attribute::L2_BYTES).unwrap_or(0),
        copy_engines: of(attribute::COPY_ENGINES).unwrap_or(0),
        integrated: of(attribute::INTEGRATED)? != 0,
        display: of(attribute::EXEC_TIMEOUT)? != 0,
        warps_per_core: 0,
        warps_per_core_any: 0,
        round_trip: None,
    })
}

impl KernelMachine for Gpu {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn shared(&mut self, what: &str, bytes: usize) -> Result<SharedMemory, RouterError> {
        let host = self.pin(what, bytes)?;
        let mut device = 0;
        // SAFETY: a place for an address, and memory that was allocated mapped.
        let status = unsafe { (self.driver().call.host_address)(&mut device, host.as_ptr().cast(), 0) };
        self.driver().check("cuMemHostGetDevicePointer", status)?;
        Ok(SharedMemory { host, device, bytes })
    }

    fn packets(&mut self, what: &str, bytes: usize) -> Result<SharedMemory, RouterError> {
        if self.placement == PacketPlacement::ZeroCopy {
            return self.shared(what, bytes);
        }
        let host = self.pin(what, bytes)?;
        Ok(SharedMemory { host, device: self.allocate(what, bytes)?, bytes })
    }

    fn carries(&self) -> bool {
        self.placement == PacketPlacement::Resident
    }

    fn upload(&mut self, memory: &SharedMemory, at: usize, bytes: usize) -> Result<(), RouterError> {
        if !self.carries() {
            return Ok(());
        }
        self.current()?;
        // SAFETY: within the memory, which lives as long as `self`; the copy is waited for.
        unsafe {
            let from = memory.host.as_ptr().add(at);
            self.to_device(memory.device + at as u64, from, bytes, self.copy_stream)?;
        }
        self.wait(self.copy_stream)
    }

    fn download(&mut self, memory: &SharedMemory, at: usize, bytes: usize) -> Result<(), RouterError> {
        if !self.carries() {
            return Ok(());
        }
        self.current()?;
        // SAFETY: as for `upload`.
        unsafe {
            let to = memory.host.as_ptr().add(at);
            self.to_host(to, memory.device + at as u64, bytes, self.copy_stream)?;
        }
        self.wait(self.copy_stream)
    }

    unsafe fn release(&mut self, memory: SharedMemory) {
        if let Some(at) = self.pinned.iter().position(|&block| block == memory.host) {
            self.pinned.swap_remove(at);
            // SAFETY: allocated by the driver, and no longer used, as the caller promises. A failure leaks it.
            unsafe { (self.driver().call.host_free)(memory.host.as_ptr().cast()) };
        }
        if let Some(at) = self.own.iter().position(|&block| block == memory.device) {
            self.own.swap_remove(at);
            // SAFETY: as above.
            unsafe { (self.driver().call.free)(memory.device) };
        }
    }

    fn near(&mut self, what: &str, bytes: usize) -> Result<u64, RouterError> {
        self.allocate(what, bytes)
    }

    fn write(&mut self, at: u64, words: &[u64]) -> Result<(), RouterError> {
        self.current()?;
        // SAFETY: the address is one that `near` gave for as many bytes; the copy is waited for.
        unsafe { self.to_device(at, words.as_ptr().cast(), size_of_val(words), self.copy_stream)? };
        self.wait(self.copy_stream)
    }

    fn table(&mut self, what: &str, bytes: &[u8]) -> Result<u64, RouterError> {
        let at = self.allocate(what, bytes.len())?;
        if !bytes.is_empty() {
            // SAFETY: memory of that length; the copy is waited for.
            unsafe { self.to_device(at, bytes.as_ptr(), bytes.len(), self.copy_stream)? };
            self.wait(self.copy_stream)?;
        }
        Ok(at)
    }

    fn open_tables(&mut self) -> Result<(), RouterError> {
        let (staged, stream) = (self.pin("changes of tables", STAGED_BYTES)?, self.stream()?);
        self.changes = Some(Changes { stream, staged, used: 0 });
        Ok(())
    }

    fn change(&mut self, at: u64, entry: u32, count: usize) -> Result<(), RouterError> {
        self.current()?;
        let bytes = (count * 4).min(COPY_BYTES);
        let Some(Changes { stream, staged, used }) = self.changes else { return Err(self.lost("change")) };
        let used = if used + bytes > STAGED_BYTES { self.wait(stream).map(|()| 0)? } else { used };
        // SAFETY: within the staged memory, of which no copy reads this part; every copy is within the table.
        unsafe {
            let from = staged.add(used).cast::<u32>();
            (0..bytes / 4).for_each(|i| from.add(i).write(entry));
            for begin in (0..count * 4).step_by(COPY_BYTES) {
                let bytes = (count * 4 - begin).min(COPY_BYTES);
                self.to_device(at + begin as u64, from.as_ptr().cast(), bytes, stream)?;
            }
        }
        if let Some(changes) = &mut self.changes {
            changes.used = used + bytes;
        }
        Ok(())
    }

    fn changed(&mut self) -> Result<bool, RouterError> {
        self.current()?;
        let Some(stream) = self.changes.as_ref().map(|changes| changes.stream) else { return Ok(true) };
        // SAFETY: a stream of this context.
        match unsafe { (self.driver().call.stream_query)(stream) } {
            NOT_READY => return Ok(false),
            status => self.driver().check("cuStreamQuery", status)?,
        }
        if let Some(changes) = &mut self.changes {
            changes.used = 0;
        }
        Ok(true)
    }

    fn warps(&self, any: bool) -> u32 {
        self.warps[usize::from(any)]
    }

    fn launch(&mut self, router: &Router, any: bool) -> Result<(), RouterError> {
        self.current()?;
        let mut router = *router;
        let mut arguments = [(&raw mut router).cast::<c_void>()];
        let (all, cores) = (router.warps * WARP_LANES, self.offer().cores.max(1) as u32);
        let block =
            [BLOCK, BLOCK / 2].into_iter().find(|block| all.is_multiple_of(block * cores)).unwrap_or(WARP_LANES);
        let call = &self.driver().call;
        // SAFETY: a function of one argument of this type, which the driver copies.
        let status = unsafe {
            (call.launch_together)(
                self.kernels(any).persistent,
                all / block,
                1,
                1,
                block,
                1,
                1,
                0,
                self.kernel_stream,
                arguments.as_mut_ptr(),
            )
        };
        self.driver().check("cuLaunchCooperativeKernel", status)?;
        self.running = true;
        Ok(())
    }

    fn check(&mut self) -> Result<(), RouterError> {
        self.current()?;
        // SAFETY: a stream of this context.
        match unsafe { (self.driver().call.stream_query)(self.kernel_stream) } {
            NOT_READY => Ok(()),
            status => self.driver().check("cuStreamQuery", status),
        }
    }

    fn join(&mut self, deadline: Duration) -> Result<(), RouterError> {
        self.current()?;
        let asked = Instant::now();
        loop {
            // SAFETY: a stream of this context. Never waited for without a deadline.
            match unsafe { (self.driver().call.stream_query)(self.kernel_stream) } {
                NOT_READY if asked.elapsed() <= deadline => std::thread::yield_now(),
                NOT_READY => {
                    self.stuck = true;
                    return Err(RouterError::Stuck { backend: "cuda", waited: asked.elapsed() });
                }
                status => {
                    self.running = false;
                    return self.driver().check("cuStreamQuery", status);
                }
            }
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Freeing waits for kernels that run: one that is stuck would be waited for without end. The process's end frees all.
        if self.stuck || self.running {
            std::mem::forget(self.on.clone());
            return;
        }
        if self.current().is_err() {
            return;
        }
        let call = &self.on.driver.call;
        // SAFETY: what was allocated here, and is used by no kernel any more.
        unsafe {
            for block in self.pinned.drain(..) {
                (call.host_free)(block.as_ptr().cast());
            }
            for block in self.own.drain(..) {
                (call.free)(block);
            }
            let changes = self.changes.as_ref().map_or(ptr::null_mut(), |changes| changes.stream);
            for stream in [self.kernel_stream, self.copy_stream, changes] {
                if !stream.is_null() {
                    (call.stream_destroy)(stream);
                }
            }
        }
    }
}
