//! The ways that device writes may fill, on Intel's servers: bits of register 0xC8B (`IIO_LLC_WAYS`).
//!
//! The register is not in Intel's manuals. What is known of it, by generation, is [`GENERATIONS`], each row with its source; where
//! a write reads back and changes nothing, only its effect tells, which the daemon therefore measures. On AMD there is no
//! register: from Zen 5 on the kernel's `io_alloc` (Linux 6.19) sets the ways of devices.

use std::sync::Arc;

use units::Cbm;

use crate::{CpuIdentity, HostError, Tree};

/// The register's number.
pub const IO_WAYS_MSR: u64 = 0xC8B;

/// What is known of the register in a generation of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoWaysRegister {
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
    pub io_ways: IoWaysRegister,
    /// What the register holds after a start, where that is known.
    pub default: Option<Cbm>,
    /// Ways of its LLC, where all of its models have as many.
    pub ways: Option<u32>,
    /// The kernel can set the ways of devices in its place (`io_alloc`, from Linux 6.19 on).
    pub io_alloc: bool,
    /// Where that is from.
    pub source: &'static str,
}

const INTEL: &str = "GenuineIntel";
const AMD: &str = "AuthenticAMD";

/// What is known, the first row that fits. Models are those of Linux's `arch/x86/include/asm/intel-family.h`.
pub const GENERATIONS: &[Generation] = {
    const NONE: Generation = Generation {
        name: "",
        vendor: INTEL,
        family: 6,
        models: &[],
        io_ways: IoWaysRegister::Unverified,
        default: None,
        ways: None,
        io_alloc: false,
        source: "",
    };
    &[
        // They have DDIO; nobody has told of a register.
        Generation {
            name: "Sandy Bridge-EP, Ivy Bridge-EP",
            models: &[45, 62],
            io_ways: IoWaysRegister::Absent,
            ways: Some(20),
            source: "no source names the register on these",
            ..NONE
        },
        Generation {
            name: "Haswell-EP",
            models: &[63],
            ways: Some(20),
            source: "Intel's firmware for Haswell-EP sets it (IIO_LLC_WAYS) where bit 30 of CAPID6 has it; FastClick's DDIOTune (its pull \
                     request 253, 2020) names 0x60000 as what it holds, which are not the highest of 20 ways; no measurement",
            ..NONE
        },
        Generation { name: "Broadwell-EP", models: &[79], ways: Some(20), source: "as Haswell-EP", ..NONE },
        Generation {
            name: "Broadwell-DE (Xeon D-1500)",
            models: &[86],
            ways: Some(12),
            source: "Intel's firmware for Broadwell-DE sets it where bit 30 of CAPID6 has it; no measurement",
            ..NONE
        },
        // Xeon D-2100 has Skylake-SP's model number.
        Generation {
            name: "Skylake-SP, Cascade Lake, Cooper Lake",
            models: &[85],
            io_ways: IoWaysRegister::Works,
            default: Some(Cbm(0x600)),
            ways: Some(11),
            source: "Farshin et al., USENIX ATC 2020, section 4; measured there on Skylake-SP and Cascade Lake",
            ..NONE
        },
        Generation {
            name: "Ice Lake-SP",
            models: &[106],
            io_ways: IoWaysRegister::NoEffect,
            default: Some(Cbm(0xc00)),
            ways: Some(12),
            source: "tbarbette/fastclick issue 392 (2024): reads 0xc00, takes 0xff0, and hit rates over PCIe stay",
            ..NONE
        },
        // Xeon D-1700 and D-2700, with ways of their own number.
        Generation {
            name: "Ice Lake-D",
            models: &[108],
            io_ways: IoWaysRegister::NoEffect,
            source: "taken to be as Ice Lake-SP, whose cores and LLC it has",
            ..NONE
        },
        Generation {
            name: "Sapphire Rapids",
            models: &[143],
            ways: Some(15),
            source: "no measurement is known to us",
            ..NONE
        },
        Generation { name: "Emerald Rapids", models: &[207], source: "no measurement is known to us", ..NONE },
        Generation {
            name: "Granite Rapids, Granite Rapids-D",
            models: &[173, 174],
            source: "no measurement is known to us",
            ..NONE
        },
        Generation {
            name: "Sierra Forest, Clearwater Forest",
            models: &[175, 221],
            source: "no measurement is known to us",
            ..NONE
        },
        Generation {
            name: "other Intel",
            io_ways: IoWaysRegister::Absent,
            source: "DDIO is in Xeon E5, E7 and Scalable and what came of them",
            ..NONE
        },
        // The kernel says whether the processor has SDCI at all.
        Generation {
            name: "AMD Zen 5",
            vendor: AMD,
            family: 26,
            io_ways: IoWaysRegister::Absent,
            io_alloc: true,
            source: "Linux 6.19, resctrl: io_alloc by AMD's SDCIAE (Moger, November 2025)",
            ..NONE
        },
        Generation {
            name: "other AMD",
            vendor: AMD,
            family: 0,
            io_ways: IoWaysRegister::Absent,
            source: "no register and no SDCI before Zen 5; later families are not known to us",
            ..NONE
        },
    ]
};

/// What is known of a processor; [`None`] of one that is in no row.
pub fn generation(cpu: &CpuIdentity) -> Option<&'static Generation> {
    GENERATIONS.iter().find(|row| {
        row.vendor == cpu.vendor
            && (row.family == cpu.family || row.family == 0)
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
            let cpu = CpuIdentity { vendor: vendor.into(), family, model, ..CpuIdentity::default() };
            generation(&cpu)
        };
        use IoWaysRegister::*;
        for (model, name, io_ways, default, ways) in [
            (45, "Sandy Bridge-EP, Ivy Bridge-EP", Absent, None, Some(20)),
            (62, "Sandy Bridge-EP, Ivy Bridge-EP", Absent, None, Some(20)),
            (63, "Haswell-EP", Unverified, None, Some(20)),
            (79, "Broadwell-EP", Unverified, None, Some(20)),
            (86, "Broadwell-DE (Xeon D-1500)", Unverified, None, Some(12)),
            (85, "Skylake-SP, Cascade Lake, Cooper Lake", Works, Some(0x600), Some(11)),
            (106, "Ice Lake-SP", NoEffect, Some(0xc00), Some(12)),
            (108, "Ice Lake-D", NoEffect, None, None),
            (143, "Sapphire Rapids", Unverified, None, Some(15)),
            (207, "Emerald Rapids", Unverified, None, None),
            (173, "Granite Rapids, Granite Rapids-D", Unverified, None, None),
            (174, "Granite Rapids, Granite Rapids-D", Unverified, None, None),
            (175, "Sierra Forest, Clearwater Forest", Unverified, None, None),
            (221, "Sierra Forest, Clearwater Forest", Unverified, None, None),
            (158, "other Intel", Absent, None, None),
        ] {
            let row = of(INTEL, 6, model).unwrap();
            assert_eq!(
                (row.name, row.io_ways, row.default, row.ways),
                (name, io_ways, default.map(Cbm), ways),
                "{model}"
            );
            assert!(!row.io_alloc && !row.source.is_empty());
        }
        for (family, io_alloc) in [(23, false), (25, false), (26, true)] {
            let row = of(AMD, family, 1).unwrap();
            assert_eq!((row.io_ways, row.io_alloc), (Absent, io_alloc), "family {family}");
        }
        // A default lies in the highest ways of the LLC.
        for row in GENERATIONS {
            if let (Some(default), Some(ways)) = (row.default, row.ways) {
                assert_eq!(default, Cbm::span(ways - default.ways(), default.ways()), "{}", row.name);
            }
        }
        assert!(of(INTEL, 15, 85).is_none(), "another family with a model's number");
        assert!(of("Other", 1, 1).is_none());
    }
}
