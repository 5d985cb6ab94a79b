//! Arrays in, arrays out: a whole trace through all channels of a memory.
//!
//! Channels are independent: each is offered its own requests, in their order, one a clock until it
//! refuses. A full channel holds no other channel's requests up.

use super::channel::{ChannelController, FinishedSink, Goal, RowOutcome};
use super::checker::Issued;
use super::map::{AddressMap, Decoder, DramLocation};
use super::policy::ControllerSpec;
use super::standard::Standard;
use super::stats::{DramReport, Gathered};
use crate::MachineError;

/// Bytes of a request.
pub const REQUEST_BYTES: u32 = 64;

/// When requests are offered. Clocks are those of [`Standard::clock_mhz`].
#[derive(Clone, Copy, Debug)]
pub enum RequestArrivals<'a> {
    /// Each channel's next request in every clock, until it is accepted.
    Saturated,
    /// One over all channels every so many clocks; later where it is refused.
    Every(u64),
    /// Clocks, one a request, that do not decrease; later where it is refused.
    At(&'a [u64]),
}

/// Requests, one an element.
#[derive(Clone, Copy, Debug)]
pub struct DramTrace<'a> {
    /// Byte addresses; the 64-byte line that holds it is asked for.
    pub addresses: &'a [u64],
    /// Whether it writes; empty where all read.
    pub writes: &'a [bool],
    /// When it is offered.
    pub arrivals: RequestArrivals<'a>,
}

/// What to keep beside the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct DramRecordOptions {
    /// Clocks in which requests were accepted.
    pub accepted: bool,
    /// All commands.
    pub commands: bool,
}

/// What a simulation gives.
#[derive(Clone, Debug)]
pub struct DramOutcome {
    /// By request, the clock after its last data.
    pub completions: Vec<u64>,
    /// By request, the clock in which it was accepted; empty unless asked for.
    pub accepted: Vec<u64>,
    /// By channel, its commands in their order; empty unless asked for.
    pub commands: Vec<Vec<Issued>>,
    /// The statistics.
    pub report: DramReport,
}

/// Instructions the engine is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What the build allows everywhere.
    Portable,
    /// AVX2 and BMI.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

impl Isa {
    /// The widest that this processor has.
    pub fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt");
            if avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                return Isa::Avx512;
            }
            if avx2 {
                return Isa::Avx2;
            }
        }
        Isa::Portable
    }
}

/// Runs `trace` through the memory.
///
/// # Errors
/// A standard, map or controller that contradicts itself; arrays of different lengths; an address
/// beyond the device; arrivals that decrease.
pub fn simulate(
    standard: &Standard,
    map: &AddressMap,
    spec: &ControllerSpec,
    trace: &DramTrace,
    record: DramRecordOptions,
) -> Result<DramOutcome, MachineError> {
    simulate_with(Isa::best(), standard, map, spec, trace, record)
}

/// As [`simulate`], with instructions that the processor must have: those up to [`Isa::best`].
///
/// # Errors
/// As [`simulate`]; instructions that this processor lacks.
pub fn simulate_with(
    isa: Isa,
    standard: &Standard,
    map: &AddressMap,
    spec: &ControllerSpec,
    trace: &DramTrace,
    record: DramRecordOptions,
) -> Result<DramOutcome, MachineError> {
    if isa as u8 > Isa::best() as u8 {
        return Err(MachineError::new(
            "dram.isa",
            format!("{isa:?}"),
            format!("up to {:?} on this processor", Isa::best()),
            "take Isa::best()".into(),
        ));
    }
    let decoder = Decoder::new(map, standard)?;
    check(trace, &decoder)?;
    match standard.ranks * standard.groups {
        0..=4 => all_channels::<4>(isa, standard, &decoder, spec, trace, record),
        5..=8 => all_channels::<8>(isa, standard, &decoder, spec, trace, record),
        _ => all_channels::<16>(isa, standard, &decoder, spec, trace, record),
    }
}

pub(super) fn check(trace: &DramTrace, decoder: &Decoder) -> Result<(), MachineError> {
    let error = |field: &str, came: String, allowed: String, remedy: &str| {
        Err(MachineError::new(format!("dram.trace.{field}"), came, allowed, remedy.into()))
    };
    let n = trace.addresses.len();
    if n > u32::MAX as usize {
        let came = format!("{n} values");
        return error("addresses", came, format!("up to {}", u32::MAX), "split the trace");
    }
    if !trace.writes.is_empty() && trace.writes.len() != n {
        let came = format!("{} values", trace.writes.len());
        return error("writes", came, format!("{n} values, one an address, or none"), "none means that all read");
    }
    if let Some(i) = trace.addresses.iter().position(|&addr| addr >= decoder.capacity()) {
        let came = format!("[{i}] = {:#x}", trace.addresses[i]);
        let allowed = format!("below the device's {:#x} bytes", decoder.capacity());
        return error("addresses", came, allowed, "wrap addresses, or use more channels or ranks");
    }
    match trace.arrivals {
        RequestArrivals::At(at) => {
            if at.len() != n {
                return error("arrivals", format!("{} values", at.len()), format!("{n} values, one an address"), "");
            }
            if let Some(i) = (1..n).find(|&i| at[i] < at[i - 1]) {
                let came = format!("[{i}] = {} after {}", at[i], at[i - 1]);
                return error("arrivals", came, "clocks that do not decrease".into(), "sort the trace by time");
            }
            if let Some(&last) = at.last().filter(|&&last| last > LATEST) {
                return error("arrivals", format!("[{}] = {last}", n - 1), format!("up to {LATEST}"), "count clocks");
            }
        }
        RequestArrivals::Every(gap) if gap.saturating_mul(n as u64) > LATEST => {
            return error("arrivals", format!("every {gap} clocks"), format!("up to {LATEST} clocks in all"), "");
        }
        _ => {}
    }
    Ok(())
}

/// Clocks beyond which nothing arrives: years at any clock.
const LATEST: u64 = 1 << 60;

struct Arrays<'a> {
    completions: &'a mut [u64],
    accepted: &'a mut [u64],
}

impl FinishedSink for Arrays<'_> {
    #[inline(always)]
    fn done(&mut self, id: u64, accepted: u64, finished: u64, _: RowOutcome) {
        if let Some(slot) = self.completions.get_mut(id as usize) {
            *slot = finished;
        }
        if let Some(slot) = self.accepted.get_mut(id as usize) {
            *slot = accepted;
        }
    }
}

fn all_channels<const G: usize>(
    isa: Isa,
    standard: &Standard,
    decoder: &Decoder,
    spec: &ControllerSpec,
    trace: &DramTrace,
    record: DramRecordOptions,
) -> Result<DramOutcome, MachineError> {
    let n = trace.addresses.len();
    let mut completions = vec![0; n];
    let mut accepted = vec![0; if record.accepted { n } else { 0 }];
    let mut commands = Vec::new();
    let mut gathered = Gathered::default();
    for requests in by_channel(standard, decoder, trace) {
        let mut channel = ChannelController::<G>::new(standard, spec, REQUEST_BYTES)?;
        channel.account.log = record.commands.then(Vec::new);
        let mut sink = Arrays { completions: &mut completions, accepted: &mut accepted };
        run(isa, &mut channel, decoder, trace, requests.as_deref(), &mut sink);
        gathered.add(&channel);
        commands.extend(channel.account.log.take());
    }
    Ok(DramOutcome { completions, accepted, commands, report: gathered.report(standard) })
}

/// A request of one channel among several: its number and where it lies.
type Sorted = (u32, DramLocation);

/// The requests of each channel, in their order; [`None`] where one channel has them all.
fn by_channel(standard: &Standard, decoder: &Decoder, trace: &DramTrace) -> Vec<Option<Vec<Sorted>>> {
    let channels = standard.channels as usize;
    if channels == 1 {
        return vec![None];
    }
    let mut order = vec![Vec::with_capacity(trace.addresses.len() / channels * 9 / 8 + 16); channels];
    for (i, &addr) in trace.addresses.iter().enumerate() {
        let place = decoder.decode(addr);
        order[place.channel as usize].push((i as u32, place));
    }
    order.into_iter().map(Some).collect()
}

fn run<const G: usize>(
    isa: Isa,
    channel: &mut ChannelController<G>,
    decoder: &Decoder,
    trace: &DramTrace,
    sorted: Option<&[Sorted]>,
    sink: &mut Arrays,
) {
    match isa {
        // SAFETY: `simulate_with` has seen that the processor has what `isa` names.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(channel, decoder, trace, sorted, sink) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(channel, decoder, trace, sorted, sink) },
        _ => serve(channel, decoder, trace, sorted, sink),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2<const G: usize>(
    channel: &mut ChannelController<G>,
    decoder: &Decoder,
    trace: &DramTrace,
    sorted: Option<&[Sorted]>,
    sink: &mut Arrays,
) {
    serve(channel, decoder, trace, sorted, sink);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx512<const G: usize>(
    channel: &mut ChannelController<G>,
    decoder: &Decoder,
    trace: &DramTrace,
    sorted: Option<&[Sorted]>,
    sink: &mut Arrays,
) {
    serve(channel, decoder, trace, sorted, sink);
}

/// One loop for all arrivals; compiled once for each set of instructions.
#[inline(always)]
fn serve<const G: usize>(
    channel: &mut ChannelController<G>,
    decoder: &Decoder,
    trace: &DramTrace,
    sorted: Option<&[Sorted]>,
    sink: &mut Arrays,
) {
    let count = sorted.map_or(trace.addresses.len(), <[Sorted]>::len);
    for k in 0..=count {
        // One place calls the engine, so that there is one copy of it.
        let i = match sorted {
            _ if k == count => 0,
            Some(sorted) => sorted[k].0 as usize,
            None => k,
        };
        let goal = match trace.arrivals {
            _ if k == count => Goal::Empty,
            RequestArrivals::Saturated => Goal::Offer(0),
            RequestArrivals::Every(gap) => Goal::Offer(i as u64 * gap),
            RequestArrivals::At(at) => Goal::Offer(at[i]),
        };
        channel.drive(goal, sink);
        if k < count {
            let place = match sorted {
                Some(sorted) => sorted[k].1,
                None => decoder.decode(trace.addresses[i]),
            };
            channel.accept(i as u64, place, trace.writes.get(i).copied().unwrap_or(false));
        }
    }
}
