//! The ways that device writes may fill, on Intel's servers: bits of register 0xC8B (`IIO_LLC_WAYS`).
//!
//! The register is not in Intel's manuals. What is known of it, by generation, is [`GENERATIONS`]; where a write reads back and
//! changes nothing, only its effect tells, which the daemon therefore measures. Sources: Farshin et al. (USENIX ATC 2020,
//! section 4) for Skylake-SP, where it holds 0x600, two of eleven ways; reports by users of Ice Lake-SP and later for writes
//! without effect.

use std::sync::Arc;

use units::Cbm;

use crate::{Cpu, HostError, Tree};

/// The register's number.
pub const IO_WAYS_MSR: u64 = 0xC8B;

/// What is known of the register in a generation of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoWays {
    /// Device writes fill the ways that it names.
    Works,
    /// It can be written and reads back, and device writes fill what they filled before.
    NoEffect,
    /// It is there; whether it has an effect is not known to us, and must be measured.
    Unverified,
    /// There is none.
    Absent,
}

/// A row of the table of generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its name.
    pub name: &'static str,
    /// The vendor's id.
    pub vendor: &'static str,
    /// The family.
    pub family: u32,
    /// Models; none stand for all.
    pub models: &'static [u32],
    /// What is known.
    pub io_ways: IoWays,
    /// What the register holds after a start, where that is known.
    pub default: Option<Cbm>,
}

const INTEL: &str = "GenuineIntel";
const AMD: &str = "AuthenticAMD";

/// What is known, the first row that fits.
pub const GENERATIONS: &[Generation] = {
    const fn row(
        name: &'static str,
        vendor: &'static str,
        family: u32,
        models: &'static [u32],
        io_ways: IoWays,
        default: Option<Cbm>,
    ) -> Generation {
        Generation { name, vendor, family, models, io_ways, default }
    }
    &[
        row("Haswell-EP", INTEL, 6, &[63], IoWays::Unverified, None),
        row("Broadwell-EP", INTEL, 6, &[79, 86], IoWays::Unverified, None),
        row("Skylake-SP, Cascade Lake, Cooper Lake", INTEL, 6, &[85], IoWays::Works, Some(Cbm(0x600))),
        row("Ice Lake-SP", INTEL, 6, &[106, 108], IoWays::NoEffect, None),
        row("Sapphire Rapids, Emerald Rapids", INTEL, 6, &[143, 207], IoWays::Unverified, None),
        row("Granite Rapids, Sierra Forest", INTEL, 6, &[173, 174, 175], IoWays::Unverified, None),
        row("other Intel", INTEL, 6, &[], IoWays::Absent, None),
        row("AMD", AMD, 0, &[], IoWays::Absent, None),
    ]
};

/// What is known of a processor; [`None`] of one that is in no row.
pub fn generation(cpu: &Cpu) -> Option<&'static Generation> {
    GENERATIONS.iter().find(|row| {
        row.vendor == cpu.vendor
            && (row.family == cpu.family || row.vendor == AMD)
            && (row.models.is_empty() || row.models.contains(&cpu.model))
    })
}

/// The register of all packages.
#[derive(Clone)]
pub struct IoRegister {
    tree: Arc<dyn Tree>,
    /// A processor of each package.
    cpus: Vec<u32>,
}

impl IoRegister {
    /// Through `dev_cpu` (`/dev/cpu`) on one processor of each package.
    pub fn new(dev_cpu: Arc<dyn Tree>, cpus: Vec<u32>) -> IoRegister {
        IoRegister { tree: dev_cpu, cpus }
    }

    /// The ways of each package, by the processor that they are read through.
    ///
    /// # Errors
    /// No such device or register, no permission.
    pub fn read_all(&self) -> Result<Vec<(u32, Cbm)>, HostError> {
        self.cpus.iter().map(|cpu| Ok((*cpu, self.read_one(*cpu)?))).collect()
    }

    /// The ways, which are the same in all packages.
    ///
    /// # Errors
    /// As [`IoRegister::read_all`]; packages that differ.
    pub fn read(&self) -> Result<Cbm, HostError> {
        let all = self.read_all()?;
        match all.as_slice() {
            [(_, first), others @ ..] if others.iter().all(|(_, other)| other == first) => Ok(*first),
            [] => Err(HostError::form("MSR 0xC8B", "no processor", "at least one")),
            all => Err(HostError::form("MSR 0xC8B", &format!("{all:?}"), "the same ways in every package")),
        }
    }

    /// Sets each package's ways and reads them back.
    ///
    /// # Errors
    /// As [`IoRegister::read_all`], or another value that is read back; those set before have their values again then.
    pub fn write(&self, values: &[(u32, Cbm)]) -> Result<(), HostError> {
        let before = self.read_all()?;
        for (i, (cpu, ways)) in values.iter().enumerate() {
            if let Err(why) = self.write_one(*cpu, *ways) {
                for (cpu, ways) in before.iter().filter(|(cpu, _)| values[..=i].iter().any(|(c, _)| c == cpu)) {
                    if let Err(also) = self.write_one(*cpu, *ways) {
                        return Err(HostError::HalfApplied { why: why.into(), also: also.into() });
                    }
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// The processors that it is set through.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    fn path(&self, cpu: u32) -> String {
        format!("{} MSR 0xC8B", self.tree.root().join(format!("{cpu}/msr")).display())
    }

    fn read_one(&self, cpu: u32) -> Result<Cbm, HostError> {
        let value = self.tree.read_register(&format!("{cpu}/msr"), IO_WAYS_MSR);
        let value = value.map_err(|e| HostError::system("reading", self.path(cpu), e))?;
        u32::try_from(value).map(Cbm).map_err(|_| HostError::form(self.path(cpu), &format!("{value:#x}"), "32 bits"))
    }

    fn write_one(&self, cpu: u32, ways: Cbm) -> Result<(), HostError> {
        let written = self.tree.write_register(&format!("{cpu}/msr"), IO_WAYS_MSR, u64::from(ways.0));
        written.map_err(|e| HostError::system("writing", self.path(cpu), e))?;
        match self.read_one(cpu)? {
            read if read == ways => Ok(()),
            read => Err(HostError::NotTaken { path: self.path(cpu), wrote: ways.to_string(), read: read.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_generations_apart() {
        let of = |vendor: &str, family, model| {
            let cpu = Cpu { vendor: vendor.into(), family, model, ..Cpu::default() };
            generation(&cpu).map(|g| g.io_ways)
        };
        assert_eq!(of(INTEL, 6, 85), Some(IoWays::Works));
        assert_eq!(of(INTEL, 6, 106), Some(IoWays::NoEffect));
        assert_eq!(of(INTEL, 6, 143), Some(IoWays::Unverified));
        assert_eq!(of(INTEL, 6, 158), Some(IoWays::Absent));
        assert_eq!(of(AMD, 25, 1), Some(IoWays::Absent));
        assert_eq!(of("Other", 1, 1), None);
    }
}
