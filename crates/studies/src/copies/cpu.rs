//! Processors that execute an instruction a clock and wait for each load.

use machine::copy_table::{CopyCounts, CopyLevel, CopyMethod, CopyRequest};
use probe::Access;
use units::{CoreId, Frequency, Ps};

/// CPUs that execute an instruction a clock and wait for each load, each with a clock of its own.
///
/// Whoever drives several lets the one that is behind go first, so the memory sees times in order but
/// for the length of one step.
pub(super) struct Cpus {
    level: CopyLevel,
    method: CopyMethod,
    clock: Ps,
    now: Vec<Ps>,
    /// Instructions so far.
    pub instructions: u64,
    /// Copies so far.
    pub copies: u64,
    /// Bytes copied so far.
    pub bytes: u64,
    /// Where each CPU's working set goes on.
    cursor: Vec<u64>,
}

/// Above all buffers: 4 MiB for each CPU's working set.
const OWN: u64 = 1 << 32;
const OWN_EACH: u64 = 4 << 20;
/// Line numbers of [`CopyLevel`] are below 2^32 - 1; 16-byte lines are the shortest.
const _: () = assert!((OWN + 64 * OWN_EACH) / 16 < u32::MAX as u64);

/// Software besides copies, per instruction: loads and stores of a working set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// Share of instructions that load.
    pub loads: f64,
    /// Share of instructions that store.
    pub stores: f64,
    /// Bytes of the working set.
    pub working_set: u64,
}

/// A quarter of all instructions load and a tenth store, as in integer programs (Hennessy and Patterson,
/// appendix A, figure A.27: 26 % and 10 % on SPECint2000); the working set is assumed.
pub(super) const STACK: Mix = Mix { loads: 0.26, stores: 0.10, working_set: 8 << 10 };

impl Cpus {
    pub(super) fn new(level: CopyLevel, method: CopyMethod, clock: Frequency, cpus: u32) -> Cpus {
        let n = cpus as usize;
        Cpus {
            level,
            method,
            clock: clock.period(),
            now: vec![Ps::ZERO; n],
            instructions: 0,
            copies: 0,
            bytes: 0,
            cursor: vec![0; n],
        }
    }

    pub(super) fn counts(&self) -> &CopyCounts {
        &self.level.counts
    }

    pub(super) fn period_s(&self) -> f64 {
        self.clock.as_secs()
    }

    /// Clocks until the last CPU is done.
    pub(super) fn clocks(&self) -> u64 {
        self.now.iter().map(|t| t.0).max().unwrap_or(0) / self.clock.0.max(1)
    }

    /// How many there are.
    pub(super) fn cpus(&self) -> usize {
        self.now.len()
    }

    pub(super) fn now(&self, cpu: usize) -> Ps {
        self.now[cpu]
    }

    /// The CPU waits for something that another has done.
    pub(super) fn wait(&mut self, cpu: usize, until: Ps) {
        self.now[cpu] = self.now[cpu].max(until);
    }

    /// Software that is not copying.
    pub(super) fn execute(&mut self, cpu: usize, instructions: u64, mix: Mix) {
        self.instructions += instructions;
        self.now[cpu] += Ps(self.clock.0 * instructions);
        let base = OWN + cpu as u64 * OWN_EACH;
        let (loads, stores) = ((instructions as f64 * mix.loads) as u64, (instructions as f64 * mix.stores) as u64);
        for (access, n) in [(Access::Load, loads), (Access::Store, stores)] {
            for _ in 0..n {
                // A stride that is prime to the set visits all of it.
                self.cursor[cpu] = (self.cursor[cpu] + 1_016) % mix.working_set.max(8);
                self.touch(cpu, access, base + self.cursor[cpu] / 8 * 8, 8);
            }
        }
    }

    /// A load or store.
    pub(super) fn touch(&mut self, cpu: usize, access: Access, addr: u64, bytes: u64) {
        self.now[cpu] = self.level.word(CoreId(cpu as u16), access, addr, bytes, self.now[cpu]);
    }

    /// Reads `bytes` bytes in words of `word` bytes, `instructions` instructions each.
    pub(super) fn read(&mut self, cpu: usize, addr: u64, bytes: u64, word: u64, instructions: u64) {
        for at in (0..bytes).step_by(word.max(1) as usize) {
            self.instructions += instructions;
            self.now[cpu] += Ps(self.clock.0 * instructions);
            self.touch(cpu, Access::Load, addr + at, word.min(bytes - at));
        }
    }

    /// As [`Cpus::read`], by loads that go around the caches, 8 bytes each.
    pub(super) fn read_uncached(&mut self, cpu: usize, addr: u64, bytes: u64) {
        for at in (0..bytes).step_by(8) {
            self.now[cpu] = self.level.uncached(false, addr + at, false, self.now[cpu]);
        }
    }

    /// Copies; gives the time at which the target can be read.
    pub(super) fn copy(&mut self, cpu: usize, src: u64, dst: u64, bytes: u64) -> Ps {
        self.copy_by(&self.method.clone(), cpu, src, dst, bytes)
    }

    /// As [`Cpus::copy`], by another method than the experiment's.
    pub(super) fn copy_by(&mut self, method: &CopyMethod, cpu: usize, src: u64, dst: u64, bytes: u64) -> Ps {
        let copied =
            method.copy(&mut self.level, CopyRequest { core: CoreId(cpu as u16), src, dst, bytes }, self.now[cpu]);
        self.now[cpu] = copied.at;
        self.instructions += copied.instructions;
        self.copies += 1;
        self.bytes += bytes;
        copied.done
    }

    pub(super) fn method(&self) -> CopyMethod {
        self.method
    }

    /// A device writes a buffer.
    pub(super) fn device_write(&mut self, addr: u64, bytes: u64, placed: bool) {
        self.level.device_write(addr, bytes, placed);
    }
}
