//! The router on one core and on two, beside a plain loop over the same functions and packets: what the router itself takes.
//!
//! Both receive from memory, a copy of as many bytes of a frame as functions read, as a NIC's DMA would have brought them; both take
//! bursts of 32; both hand what they forward to a sink that keeps nothing. The loop is the shortest that does so. The router has all
//! that it has otherwise: slots, tasks, commits, counts, its report. Each core has frames and a router of its own, and shares tables with
//! the others; they begin together.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use functions::{PacketFunction, Verdict};
use packet::Packet;
use probe::Null;
use serde::Serialize;
use units::Ps;

use super::BenchSpec;
use super::run::subject;
use crate::completion::RunToCompletion;
use crate::layout::WARP_LANES;
use crate::route::{RouteOptions, route};
use crate::setup::{FunctionNames, table};
use crate::sink::{FrameSink, Nowhere};
use crate::source::{FrameSource, NextFrame};
use crate::{RouterError, RouterProgram};

/// Frames that are given again and again: with their bytes they stay in a core's L2, as received ones do in the LLC.
const FRAMES: usize = 4096;

/// How the loop and the router are compared.
#[derive(Clone, Debug)]
pub struct PlainLoopSpec {
    /// Cores, the numbers of which are those of the operating system. The first is that of runs on one core.
    pub cores: Vec<usize>,
    /// Runs of each kind, which take turns.
    pub runs: u32,
    /// Packets of a run and core.
    pub packets: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct PlainLoopPoint {
    /// What was done with each packet.
    pub function: String,
    /// `loop` or `router`.
    pub what: &'static str,
    /// How many cores.
    pub cores: usize,
    /// Which of the runs, from 0.
    pub run: u32,
    /// Millions of packets a second of all cores.
    pub mpps: f64,
    /// Forwarded, of all packets.
    pub forwarded: u64,
    /// All of them.
    pub packets: u64,
}

impl PlainLoopPoint {
    /// The columns of the CSV.
    pub const COLUMNS: &str = "function,what,cores,run,mpps,ns_a_packet_and_core,forwarded,packets";

    /// A line of it, without its end.
    pub fn csv(&self) -> String {
        let PlainLoopPoint { function, what, cores, run, mpps, forwarded, packets } = self;
        let function = function.replace(',', "+");
        let ns = *cores as f64 * 1e3 / mpps;
        format!("{function},{what},{cores},{run},{mpps:.4},{ns:.3},{forwarded},{packets}")
    }
}

/// Frames in memory, again and again.
pub(super) struct MemorySource<'a> {
    frames: &'a [Packet],
    next: usize,
    left: u64,
}

impl<'a> MemorySource<'a> {
    pub(super) fn new(frames: &'a [Packet], packets: u64) -> MemorySource<'a> {
        MemorySource { frames, next: 0, left: packets }
    }

    #[inline(always)]
    fn receive(&mut self, packet: &mut Packet) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let frame = &self.frames[self.next];
        self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
        // Into the buffer that is there: a derived clone would allocate one.
        let mut data = std::mem::take(&mut packet.data);
        data.clear();
        data.extend_from_slice(&frame.data);
        *packet = Packet { data, ..*frame };
        true
    }
}

impl FrameSource for MemorySource<'_> {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        Ok(if self.receive(packet) { NextFrame::Packet } else { NextFrame::End })
    }

    fn fill(&mut self, packets: &mut [Packet]) -> Result<(usize, NextFrame), RouterError> {
        let mut count = 0;
        while count < packets.len() {
            if !self.receive(&mut packets[count]) {
                return Ok((count, NextFrame::End));
            }
            count += 1;
        }
        Ok((count, NextFrame::Packet))
    }
}

/// A run on one core: how many were forwarded, and in what time.
type LoopRun = Result<(u64, Duration), RouterError>;

fn plain(program: &RouterProgram, frames: &[Packet], packets: u64) -> LoopRun {
    let mut function = program.function().clone();
    let mut source = MemorySource::new(frames, packets);
    let mut burst = vec![Packet::default(); WARP_LANES as usize];
    let (mut verdicts, mut sink, mut forwarded) = (Vec::with_capacity(burst.len()), Nowhere, 0);
    let begun = Instant::now();
    loop {
        let mut count = 0;
        while count < burst.len() && source.receive(&mut burst[count]) {
            count += 1;
        }
        if count == 0 {
            break;
        }
        verdicts.clear();
        function.process_burst(Ps::ZERO, &mut burst[..count], &mut Null, &mut verdicts);
        for (packet, &verdict) in burst.iter().zip(&verdicts) {
            if let Verdict::Forward { port } = verdict {
                sink.send(packet, port)?;
                forwarded += 1;
            }
        }
    }
    Ok((forwarded, begun.elapsed()))
}

fn routed(program: &RouterProgram, frames: &[Packet], packets: u64) -> LoopRun {
    let mut backend = RunToCompletion::new(program, RunToCompletion::slots_for(WARP_LANES))?;
    let mut source = MemorySource::new(frames, packets);
    let report = route(&mut source, &mut backend, &mut Nowhere, &RouteOptions::default())?;
    Ok((report.forwarded, Duration::from_secs_f64(report.run_s)))
}

/// The same on each of `cores` at once; what all forwarded, and what the longest took.
fn on_cores(cores: &[usize], frames: &[Packet], one: impl Fn(&[Packet]) -> LoopRun + Sync) -> LoopRun {
    let together = Barrier::new(cores.len());
    let all: Vec<LoopRun> = std::thread::scope(|scope| {
        let (one, together) = (&one, &together);
        let start = |&core: &usize| {
            scope.spawn(move || {
                #[cfg(target_os = "linux")]
                let pinned = crate::affinity::pin(core);
                #[cfg(not(target_os = "linux"))]
                let pinned: Result<(), RouterError> = Ok(drop(core));
                let own = frames.to_vec();
                // Also who cannot be there, or the others would wait for it.
                together.wait();
                pinned?;
                one(&own)
            })
        };
        let started: Vec<_> = cores.iter().map(start).collect();
        let join = |(queue, thread): (u32, std::thread::ScopedJoinHandle<'_, LoopRun>)| {
            thread.join().unwrap_or(Err(RouterError::QueuePanicked { queue }))
        };
        (0..).zip(started).map(join).collect()
    });
    let mut sum = (0, Duration::ZERO);
    for done in all {
        let (forwarded, time) = done?;
        sum = (sum.0 + forwarded, sum.1.max(time));
    }
    Ok(sum)
}

/// The first CPUs that this process may use, at most `count` of them.
pub fn usual_cores(count: usize) -> Vec<usize> {
    #[cfg(target_os = "linux")]
    return crate::affinity::allowed().into_iter().take(count).collect();
    #[cfg(not(target_os = "linux"))]
    (0..count).collect()
}

/// Runs the loop and the router on one core and on all of `compared`, in turn, for each function of `spec`, whose table and capture
/// are used.
///
/// # Errors
/// Settings, files or tables that cannot be used; cores that this process may not use; no cores, runs or packets.
pub fn bench_loop(
    spec: &BenchSpec,
    compared: &PlainLoopSpec,
    mut each: impl FnMut(&PlainLoopPoint),
) -> Result<(), RouterError> {
    let bad = |what, came: u64, allowed| Err(RouterError::Setting { what, came: came.to_string(), allowed });
    if compared.cores.is_empty() || compared.cores.len() > 1024 {
        return bad("cores", compared.cores.len() as u64, "must be 1 to 1024");
    }
    if compared.runs == 0 || compared.packets == 0 {
        return bad("runs and packets", compared.packets.min(u64::from(compared.runs)), "must be 1 and more");
    }
    let table = table(spec.table.as_ref(), spec.seed, spec.capture.is_some(), &mut Vec::new())?;
    for names in std::iter::once(&spec.function).chain(&spec.further) {
        let (program, frames) = few_frames(spec, names, &table)?;
        for run in 0..compared.runs {
            for cores in [&compared.cores[..1], &compared.cores[..]] {
                for (what, one) in [("loop", plain as fn(&_, &_, _) -> _), ("router", routed)] {
                    let (forwarded, time) = on_cores(cores, &frames, |own| one(&program, own, compared.packets))?;
                    let packets = compared.packets * cores.len() as u64;
                    let mpps = packets as f64 / time.as_secs_f64().max(1e-9) / 1e6;
                    let (function, cores) = (program.name(), cores.len());
                    each(&PlainLoopPoint { function, what, cores, run, mpps, forwarded, packets });
                }
                if compared.cores.len() == 1 {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// A function, and as few frames for it as stay in a core's caches.
pub(super) fn few_frames(
    spec: &BenchSpec,
    names: &FunctionNames,
    table: &traffic::Table,
) -> Result<(RouterProgram, Vec<Packet>), RouterError> {
    let (program, mut frames) = subject(spec, names, table, &mut Vec::new())?;
    frames.truncate(FRAMES);
    Ok((program, frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_and_router_forward_the_same_packets() {
        let spec = BenchSpec { packets: 1 << 12, ..BenchSpec::default() };
        // A number that is no multiple of a burst, and more than there are frames.
        let compared = PlainLoopSpec { cores: usual_cores(1), runs: 2, packets: 10_007 };
        let mut points = Vec::new();
        bench_loop(&spec, &compared, |point| points.push(point.clone())).unwrap();
        assert_eq!(points.len(), 4);
        assert!(points.iter().all(|point| point.packets == 10_007 && point.mpps > 0.0), "{points:?}");
        assert!(points[0].forwarded > 1000 && points.iter().all(|point| point.forwarded == points[0].forwarded));
        for wrong in
            [PlainLoopSpec { cores: vec![], ..compared.clone() }, PlainLoopSpec { runs: 0, ..compared.clone() }]
        {
            assert!(bench_loop(&spec, &wrong, |_| ()).is_err());
        }
        assert!(bench_loop(&spec, &PlainLoopSpec { cores: vec![1 << 20], ..compared }, |_| ()).is_err());
    }
}
