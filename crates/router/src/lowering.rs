//! The kernels' packet functions on this host, packet by packet, with every reference that they make.
//!
//! A lowering is admitted on equal verdicts, equal bytes and equal references: `tests/suite/lowering.rs` compares this one with the
//! functions of `functions` on real traffic and damaged packets.

use functions::Verdict;
use packet::Packet;

use crate::layout::{Members, Touch};
use crate::machine::Twin;
use crate::memory::{Fragments, PacketMemory};
use crate::program::verdict_of;
use crate::{RouterError, RouterProgram};

/// A packet function as the kernels have it.
pub struct Lowering {
    memory: PacketMemory,
    members: Members,
    any: bool,
    fragments: Vec<Packet>,
    /// Owns the memory.
    _machine: Twin,
    /// Owns the tables.
    _program: RouterProgram,
}

impl Lowering {
    /// Room for bursts of up to `burst` packets, of whose frames the kernel sees the first `frame_bytes`.
    ///
    /// # Errors
    /// No memory.
    pub fn new(program: &RouterProgram, burst: usize, frame_bytes: usize) -> Result<Lowering, RouterError> {
        let (mut machine, program) = (Twin::new(1), program.clone());
        let memory = PacketMemory::new(&mut machine, &program, burst.max(1).next_power_of_two() as u64, frame_bytes)?;
        let members = program.place(&mut machine)?;
        let any = program.is_any();
        Ok(Lowering { memory, members, any, fragments: Vec::new(), _machine: machine, _program: program })
    }

    /// Processes a burst, changes its bytes, and appends verdicts to `out`. With room for `references` it returns what was
    /// touched, the packet's place in the burst being its number.
    ///
    /// # Errors
    /// More packets than there is room for, or more references.
    pub fn process_burst(
        &mut self,
        burst: &mut [Packet],
        references: usize,
        out: &mut Vec<Verdict>,
    ) -> Result<Vec<Touch>, RouterError> {
        if burst.len() as u64 > self.memory.count {
            let (came, allowed) = (burst.len().to_string(), "allowed are as many packets as there was made room for");
            return Err(RouterError::Setting { what: "burst", came, allowed });
        }
        let packets = self.memory.layout();
        for (number, packet) in (0..).zip(burst.iter()) {
            // SAFETY: nothing works on the memory.
            unsafe { self.memory.put(number, packet) };
        }
        // SAFETY: every packet of the batch is in its slot, and the tables live as long as `self`.
        let (touches, lost) =
            unsafe { Twin::batch((&self.members, self.any), &packets, 0, burst.len() as u32, references) };
        if lost && references > 0 {
            let allowed = "the burst makes more: make room for them";
            return Err(RouterError::Setting { what: "references", came: references.to_string(), allowed });
        }
        let mut cut = Fragments::default();
        self.fragments.clear();
        for (number, packet) in (0..).zip(burst.iter_mut()) {
            // SAFETY: the batch is done.
            let word = unsafe { self.memory.take(number, packet, &mut cut) };
            self.fragments.extend_from_slice(cut.all());
            let what = || format!("verdict {word:#x} on packet {number}");
            out.push(verdict_of(word).ok_or_else(|| RouterError::Protocol { backend: "twin", what: what() })?);
        }
        Ok(touches)
    }

    /// Of the packets of the latest burst the fragments but for the first one of each, as
    /// [`functions::Function::fragments`] has them.
    pub fn fragments(&self) -> &[Packet] {
        &self.fragments
    }

    /// The same, from now on, by the kernels for any function and any chain, whether or not it takes them.
    pub fn in_any_form(mut self) -> Lowering {
        self.any = true;
        self
    }

    /// Of the packets of the latest burst the class, by the latest classifier, or the first pattern found, by the latest
    /// inspection.
    pub fn classes(&self, burst: usize) -> Vec<Option<u32>> {
        // SAFETY: nothing works on the memory.
        (0..(burst as u64).min(self.memory.count)).map(|number| unsafe { self.memory.class(number) }).collect()
    }
}
