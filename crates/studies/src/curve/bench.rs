//! Cores over one memory system in order of time, as the server drives them: who can act on an answer sooner than it meant
//! to is woken.

use engine::Engine;
use machine::MachineError;
use machine::cores::{Core, CoreSpec, CoreStep};
use machine::dram::DramCounters;
use machine::memory::{Hierarchy, MemoryReply};
use stats::{Attribution, BatchMeans, Reason, ReasonFamily};
use units::{CoreId, LINE_BYTES, Ps};

use super::load::{CHASED, Everywhere, LINE_INSTRUCTIONS, MemoryLoad};

/// Lines of a stream that are recorded at a time: many, since a core drains at their end, but of a slow stream few, since its
/// delay is changed between them.
const LINES: (u64, u64) = (16, 2048);
/// A stretch of lines is to take so long.
const STRETCH_PS: f64 = 4e6;
/// In so many windows the delay is found that makes a stream as fast as it is to be.
const WINDOWS: u32 = 8;
/// A window takes so long at least, and so many stretches.
const WINDOW: Ps = Ps(10_000_000);
const WINDOW_STRETCHES: f64 = 4.0;
/// Time that the load is on before anything is measured.
const SETTLE: Ps = Ps(20_000_000);
/// Streams begin within this time.
const BEGIN: u64 = 1_000_000;
/// Longer delays are none that anybody wants.
const LONGEST_DELAY: f64 = 1e6;

const PRIORITY_MEMORY: u8 = 0;
const PRIORITY_CORE: u8 = 1;

/// What was measured at one load.
#[derive(Clone, Debug, Default)]
pub(super) struct CurveReading {
    /// Behind each line of a stream.
    pub delay_ns: f64,
    /// Round trip of a dependent load, its mean and the half-width at 95 %.
    pub latency_ns: f64,
    pub half_width_ns: f64,
    /// What it was spent on.
    pub parts_ns: Vec<(Reason, f64)>,
    /// All reads, whoever asks, from the controllers' door and back; none where DRAM answers at once.
    pub all_reads_ns: Option<f64>,
    pub row_hit_rate: Option<f64>,
    pub accesses: u64,
    reads: u64,
    writes: u64,
    seconds: f64,
}

impl CurveReading {
    pub(super) fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 { ((self.reads + self.writes) * LINE_BYTES) as f64 / self.seconds } else { 0.0 }
    }

    pub(super) fn read_share(&self) -> f64 {
        self.reads as f64 / (self.reads + self.writes).max(1) as f64
    }

    pub(super) fn behind_llc_ns(&self) -> f64 {
        self.parts_ns.iter().filter(|(reason, _)| reason.family() == ReasonFamily::Dram).map(|(_, ns)| ns).sum()
    }
}

/// What happens.
#[derive(Clone, Copy, Debug)]
enum CurveEvent {
    /// A core's turn, of that version.
    Turn(usize, u32),
    /// Answers become known.
    Memory,
}

/// A core, and when it is woken.
struct CurveCore {
    core: Core,
    /// A turn of an earlier version is out of date.
    version: u32,
    at: Ps,
    /// It has recorded what it replays.
    is_busy: bool,
    started: Ps,
}

/// See the module header. The first core chases.
pub(super) struct CurveBench {
    engine: Engine<CurveEvent>,
    memory: Hierarchy,
    load: MemoryLoad,
    cores: Vec<CurveCore>,
    /// When memory has its next turn; [`Ps::MAX`] if no event is scheduled for it.
    due: Ps,
    answers: Vec<MemoryReply>,
    lines: u64,
    delay: u32,
    /// Loads of the chase so far.
    chased: u64,
    latencies: BatchMeans,
    spent: Attribution,
}

impl CurveBench {
    /// # Errors
    /// A core that cannot be.
    pub(super) fn new(core: &CoreSpec, memory: Hierarchy, load: MemoryLoad) -> Result<CurveBench, MachineError> {
        let cores = (0..=load.streams.len())
            .map(|i| {
                let core = Core::new(core, CoreId(i as u16), "machine.core")?;
                Ok(CurveCore { core, version: 0, at: Ps::MAX, is_busy: false, started: Ps::ZERO })
            })
            .collect::<Result<_, MachineError>>()?;
        Ok(CurveBench {
            engine: Engine::new(),
            memory,
            load,
            cores,
            due: Ps::MAX,
            answers: Vec::new(),
            lines: LINES.1,
            delay: 0,
            chased: 0,
            latencies: BatchMeans::new(),
            spent: Attribution::default(),
        })
    }

    /// Fills the caches with what the streams leave in them.
    pub(super) fn warm(&mut self) {
        let rounds = self.load.filling / (LINES.0 * self.load.streams.len().max(1) as u64);
        for _ in 0..rounds {
            for (stream, of) in self.load.streams.iter_mut().zip(&mut self.cores[1..]) {
                of.core.script().clear();
                stream.record(of.core.script(), LINES.0, 0);
                of.core.start([], Ps::ZERO);
                of.core.warm(&mut self.memory.warm(), &Everywhere, Ps::ZERO);
            }
        }
    }

    pub(super) fn into_parts(self) -> (Hierarchy, MemoryLoad) {
        (self.memory, self.load)
    }

    /// Measures so many dependent loads, with a line of each stream every `pace` seconds, or as fast as it can.
    pub(super) fn measure(&mut self, pace: Option<f64>, accesses: u64) -> CurveReading {
        let n = self.cores.len() as u64;
        for i in 0..self.cores.len() {
            self.wake(i, Ps(BEGIN * i as u64 / n));
        }
        match pace {
            Some(pace) => self.find_delay(pace * 1e12),
            None => self.go_on_until(SETTLE),
        }
        self.go_on_until(self.engine.now() + SETTLE);
        self.latencies.reset();
        self.spent = Attribution::default();
        let (from, before, chased) = (self.engine.now(), self.memory.dram_counters(), self.chased);
        self.memory.mark_dram(from);
        while self.chased < chased + accesses && self.turn(Ps::MAX) {}
        let did = self.memory.dram_counters() - before;
        self.reading(did, self.engine.now() - from, self.chased - chased)
    }

    fn reading(&self, did: DramCounters, took: Ps, accesses: u64) -> CurveReading {
        let latency = self.latencies.estimate();
        let each = accesses.max(1) as f64;
        let looked = did.row_hits + did.row_misses + did.row_conflicts;
        let report = self.memory.dram_report(self.engine.now());
        CurveReading {
            delay_ns: self.cores[0].core.time_of(u64::from(self.delay)).as_ns(),
            latency_ns: latency.value,
            half_width_ns: latency.half_width,
            parts_ns: self.spent.iter().map(|(reason, time)| (reason, time.as_ns() / each)).collect(),
            all_reads_ns: report.map(|report| report.read_latency.mean() / 1e3),
            row_hit_rate: (looked > 0).then(|| did.row_hits as f64 / looked as f64),
            accesses,
            reads: did.reads,
            writes: did.writes,
            seconds: took.as_secs(),
        }
    }

    /// Sets the delay with which streams take a line every `pace` picoseconds: what a line takes beside its delay depends on the
    /// load, so the delay is found by halving, under the load.
    fn find_delay(&mut self, pace: f64) {
        let instruction = self.cores[0].core.time_of(1 << 20).0 as f64 / (1u64 << 20) as f64;
        self.lines = ((STRETCH_PS / pace) as u64).clamp(LINES.0, LINES.1);
        let window = Ps((pace * self.lines as f64 * WINDOW_STRETCHES) as u64).max(WINDOW);
        // A line takes its delay at least. Fewer lines fit into a core's window behind longer delays, so there are steps.
        let (mut least, mut most) = (0.0, pace.min(LONGEST_DELAY * instruction));
        let mut nearest = (f64::INFINITY, 0);
        for _ in 0..WINDOWS {
            let delay = 0.5 * (least + most);
            self.delay = (delay / instruction) as u32;
            let took = self.line_time(window);
            *(if took < pace { &mut least } else { &mut most }) = delay;
            if (took - pace).abs() < nearest.0 {
                nearest = ((took - pace).abs(), self.delay);
            }
        }
        self.delay = nearest.1;
    }

    /// Picoseconds from a line of a stream to its next, over a window.
    fn line_time(&mut self, window: Ps) -> f64 {
        // What was recorded before keeps its delay.
        self.go_on_until(self.engine.now() + Ps(window.0 / 2));
        let (from, before) = (self.engine.now(), self.streamed());
        self.go_on_until(self.engine.now() + window);
        let lines = (self.streamed() - before) as f64 / f64::from(LINE_INSTRUCTIONS + self.delay);
        (self.engine.now() - from).0 as f64 * (self.cores.len() - 1) as f64 / lines.max(1.0)
    }

    /// Instructions of all streams so far, which tell of lines within what was recorded.
    fn streamed(&self) -> u64 {
        self.cores[1..].iter().map(|stream| stream.core.instructions()).sum()
    }

    fn go_on_until(&mut self, until: Ps) {
        while self.turn(until) {}
    }

    /// The next event, if it comes before `until`.
    fn turn(&mut self, until: Ps) -> bool {
        if self.engine.peek().is_none_or(|at| at > until) {
            return false;
        }
        match self.engine.pop() {
            Some(CurveEvent::Turn(i, version)) if self.cores[i].version == version => self.step(i),
            Some(CurveEvent::Memory) => self.memory_turn(),
            _ => {}
        }
        true
    }

    /// Sees to it that memory has its turn in time.
    fn call_memory(&mut self) {
        if let Some(at) = self.memory.next()
            && at < self.due
        {
            self.due = at;
            self.engine.schedule(at.max(self.engine.now()), PRIORITY_MEMORY, CurveEvent::Memory);
        }
    }

    fn memory_turn(&mut self) {
        let now = self.engine.now();
        if now < self.due {
            // It has had its turn in the meantime.
            return;
        }
        self.due = Ps::MAX;
        let mut answers = std::mem::take(&mut self.answers);
        self.memory.advance(now, &mut answers);
        for answer in answers.drain(..) {
            let MemoryReply::Core(core, ticket, response) = answer else { continue };
            let i = usize::from(core.0);
            self.cores[i].core.complete(ticket, &response);
            if self.cores[i].is_busy {
                self.wake(i, response.at);
            }
        }
        self.answers = answers;
        self.call_memory();
    }

    /// Core `i` has its turn at `at`, or sooner if it has meant to.
    fn wake(&mut self, i: usize, at: Ps) {
        let core = &mut self.cores[i];
        if at < core.at {
            core.version = core.version.wrapping_add(1);
            core.at = at.max(self.engine.now());
            self.engine.schedule(core.at, PRIORITY_CORE, CurveEvent::Turn(i, core.version));
        }
    }

    /// Replays until what was recorded is done, or something else comes first.
    fn step(&mut self, i: usize) {
        let now = self.engine.now();
        if !self.cores[i].is_busy {
            self.begin(i, now);
        }
        loop {
            self.call_memory();
            let horizon = self.engine.peek().unwrap_or(Ps::MAX);
            let CurveBench { cores, memory, .. } = self;
            let core = &mut cores[i];
            (core.version, core.at) = (core.version.wrapping_add(1), Ps::MAX);
            match core.core.step(memory, &Everywhere, now, horizon) {
                CoreStep::Done(at) => {
                    self.call_memory();
                    return self.end(i, at.max(now));
                }
                CoreStep::At(at) => {
                    self.call_memory();
                    return self.wake(i, at);
                }
                CoreStep::Wait => return self.call_memory(),
                // Nobody takes locks.
                CoreStep::Lock(_, at) => core.core.grant(at),
                CoreStep::Unlock(..) => {}
            }
        }
    }

    fn begin(&mut self, i: usize, now: Ps) {
        let core = &mut self.cores[i];
        let script = core.core.script();
        script.clear();
        match i.checked_sub(1) {
            None => self.load.chase.record(script),
            Some(stream) => self.load.streams[stream].record(script, self.lines, self.delay),
        }
        core.core.start([], now);
        (core.is_busy, core.started) = (true, now);
    }

    /// What core `i` had recorded is done at `at`.
    fn end(&mut self, i: usize, at: Ps) {
        let core = &mut self.cores[i];
        core.is_busy = false;
        if i == 0 {
            self.chased += CHASED;
            self.latencies.record((at - core.started).as_ns() / CHASED as f64);
            self.spent += &core.core.burst_attribution();
        }
        self.wake(i, at);
    }
}
