//! The same point again and again: on the same memory, on memory that is allocated anew, and by the host's thread on each core. What
//! differs between runs that differ tells why they do.

use std::time::{SystemTime, UNIX_EPOCH};

use functions::Verdict;
use packet::Packet;

use super::BenchSpec;
use super::measure;
use super::plan::BenchWay;
use super::run::{BenchBed, BenchSubject};
use crate::RouterError;
use crate::backend::{Backend, Committed};
use crate::cuda::GpuContext;
use crate::persistent::RoundTasks;
use crate::setup::{FunctionName, FunctionNames, table};

/// How often.
#[derive(Clone, Debug)]
pub struct RepeatSpec {
    /// New allocations of all memory, each with a kernel of its own.
    pub allocations: u32,
    /// Runs on each.
    pub runs: u32,
    /// The cores that the host's thread is pinned to in turn; none leaves that to the system.
    pub cores: Vec<usize>,
}

/// The columns of what is given for each run.
pub const COLUMNS: &str = "time_s,mode,commit,least,most,batch,allocation,run,pinned,core,dispatcher,carried_mpps,polls,empty_polls,\
                           tasks_a_find,refused_posts,rounds,moves";

/// Counts what the host's thread does.
struct Counted<'a> {
    inner: &'a mut dyn Backend,
    polls: u64,
    empty: u64,
    committed: u64,
    refused: u64,
}

impl Backend for Counted<'_> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn slots(&self) -> u64 {
        self.inner.slots()
    }
    fn most(&self) -> u32 {
        self.inner.most()
    }
    fn fit(&self, first: u64, count: u64) -> u64 {
        self.inner.fit(first, count)
    }
    fn put(&mut self, number: u64, packet: &mut Packet) {
        self.inner.put(number, packet);
    }
    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        let posted = self.inner.post(first, count)?;
        self.refused += u64::from(!posted);
        Ok(posted)
    }
    fn room(&self) -> u64 {
        self.inner.room()
    }
    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        let before = out.len();
        self.inner.poll(out)?;
        self.polls += 1;
        self.empty += u64::from(out.len() == before);
        self.committed += (out.len() - before) as u64;
        Ok(())
    }
    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        self.inner.take(number, packet)
    }
    fn stop(&mut self) -> Result<(), RouterError> {
        self.inner.stop()
    }
}

/// Looks the same packets up again and again, all there at once: by each mode of a kernel that stays, each commit and each batch
/// of `spec`. The lookup writes no packet, so each run is the same.
///
/// # Errors
/// As [`super::bench`].
pub fn bench_repeats(spec: &BenchSpec, repeats: &RepeatSpec, mut each: impl FnMut(&str)) -> Result<(), RouterError> {
    spec.check()?;
    let table = table(spec.table.as_ref(), spec.seed, spec.capture.is_some(), &mut Vec::new())?;
    let bed = BenchBed::new(spec, Some(GpuContext::open(spec.driver.as_deref(), 0)?));
    let subject = BenchSubject::new(spec, &FunctionNames::from(FunctionName::Lookup), &table, &mut Vec::new())?;
    for allocation in 0..repeats.allocations {
        for &mode in spec.modes.iter().filter(|mode| mode.stays()) {
            for (&commit, &round) in spec.commits.iter().flat_map(|commit| spec.rounds.iter().map(move |r| (commit, r)))
            {
                for &batch in &spec.batches {
                    let way = BenchWay { mode, threads: 0, commit: Some(commit), warps_per_core: None, round };
                    let RoundTasks { least, most } = round;
                    let place =
                        format!("{},{commit:?},{least},{most},{batch},{allocation}", mode.name()).to_lowercase();
                    repeat(&bed, &subject, (way, batch), repeats, |run| {
                        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                        each(&format!("{:.3},{place},{run}", time.as_secs_f64()));
                    })?;
                }
            }
        }
    }
    Ok(())
}

fn repeat(
    bed: &BenchBed<'_>,
    subject: &BenchSubject,
    (way, batch): (BenchWay, u32),
    repeats: &RepeatSpec,
    mut each: impl FnMut(&str),
) -> Result<(), RouterError> {
    let (count, placed) = subject.count();
    let mut kernel = bed.persistent(subject, way, placed)?;
    subject.lay_in(&mut kernel, count);
    kernel.prepare(count)?;
    for run in 0..repeats.runs {
        let pinned = repeats.cores.get(run as usize % repeats.cores.len().max(1)).copied();
        if let Some(core) = pinned {
            pin(core)?;
        }
        let (dispatcher, before) = (kernel.dispatcher(), kernel.counts());
        let mut counted = Counted { inner: &mut kernel, polls: 0, empty: 0, committed: 0, refused: 0 };
        let measured = measure(&mut counted, count, batch, None)?;
        let Counted { polls, empty, committed, refused, .. } = counted;
        let pinned = pinned.map_or(String::new(), |core| core.to_string());
        let found = committed as f64 / (polls - empty).max(1) as f64;
        let (core, mpps, after) = (current_core(), measured.carried_mpps(), kernel.counts());
        let (rounds, moves) = (after.0 - before.0, after.1 - before.1);
        let host = format!("{polls},{empty},{found:.2},{refused}");
        each(&format!("{run},{pinned},{core},{dispatcher},{mpps:.4},{host},{rounds},{moves}"));
    }
    kernel.stop()
}

/// Keeps this thread on a core.
#[cfg(target_os = "linux")]
fn pin(core: usize) -> Result<(), RouterError> {
    // SAFETY: a set of cores is plain memory, and all zero is the empty one; the calls read it, or write into it.
    let refused = unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(core.min(libc::CPU_SETSIZE as usize - 1), &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set) != 0
    };
    let came = core.to_string();
    if refused {
        Err(RouterError::Setting { what: "cores", came, allowed: "must be cores of this machine" })
    } else {
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(core: usize) -> Result<(), RouterError> {
    Err(RouterError::Setting { what: "cores", came: core.to_string(), allowed: "threads are pinned on Linux only" })
}

/// The core that this thread is on; -1 where that is not told.
fn current_core() -> i32 {
    #[cfg(target_os = "linux")]
    // SAFETY: no arguments.
    return unsafe { libc::sched_getcpu() };
    #[cfg(not(target_os = "linux"))]
    -1
}
