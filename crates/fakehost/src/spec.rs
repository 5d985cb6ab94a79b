//! What a made machine has: ways, classes, monitoring ids, processors, the register of device ways.

use units::Cbm;

use crate::MeanFieldSpec;

/// What a write to the register of device ways does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Register {
    /// Device writes follow it.
    #[default]
    Works,
    /// It is accepted and reads back; device writes fill what they filled before.
    NoEffect,
    /// There is no such register.
    Absent,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Ways of the LLC, 1 to 32.
    pub ways: u32,
    /// The fewest bits of a mask.
    pub min_cbm_bits: u32,
    /// Masks may have gaps.
    pub sparse: bool,
    /// Classes of service.
    pub closids: u32,
    /// Monitoring ids; 0: nothing is monitored.
    pub rmids: u32,
    /// Packages, each a domain of L3.
    pub domains: u32,
    /// Processors, spread evenly over packages.
    pub cpus: u32,
    /// Ways that hardware fills too, as resctrl says.
    pub shareable: Cbm,
    /// The same of domains of which `bit_usage` says otherwise.
    pub shareable_of: Vec<(u32, Cbm)>,
    /// Bandwidth can be divided.
    pub bandwidth: bool,
    /// The kernel sets the ways of devices.
    pub io_alloc: bool,
    /// The register of device ways.
    pub register: Register,
    /// What it holds at first.
    pub io_ways: Cbm,
    /// Family and model that it shows.
    pub model: (u32, u32),
    /// Bytes below which a monitoring id that was given back can be used again.
    pub max_threshold_occupancy: u64,
    /// What runs on it where nobody gives another plant.
    pub plant: MeanFieldSpec,
}

impl Default for Spec {
    /// A Skylake-SP of two packages with a packet core and six workers.
    fn default() -> Spec {
        Spec {
            ways: 11,
            min_cbm_bits: 1,
            sparse: false,
            closids: 16,
            rmids: 160,
            domains: 2,
            cpus: 16,
            shareable: Cbm(0x600),
            shareable_of: Vec::new(),
            bandwidth: true,
            io_alloc: false,
            register: Register::Works,
            io_ways: Cbm(0x600),
            model: (6, 85),
            max_threshold_occupancy: 540_672,
            plant: MeanFieldSpec::default(),
        }
    }
}

impl Spec {
    /// An AMD server whose kernel sets the ways of devices.
    pub fn amd() -> Spec {
        Spec {
            ways: 16,
            sparse: true,
            shareable: Cbm(0),
            io_alloc: true,
            register: Register::Absent,
            model: (26, 2),
            ..Spec::default()
        }
    }

    /// Ways that hardware fills too in a domain.
    pub(crate) fn hardware(&self, domain: u32) -> Cbm {
        self.shareable_of.iter().find(|(d, _)| *d == domain).map_or(self.shareable, |(_, ways)| *ways)
    }

    pub(crate) fn full(&self) -> Cbm {
        Cbm::low(self.ways)
    }

    pub(crate) fn vendor(&self) -> &'static str {
        if self.model.0 == 6 { "GenuineIntel" } else { "AuthenticAMD" }
    }

    /// The text of `/proc/cpuinfo`.
    pub(crate) fn cpuinfo(&self) -> String {
        let mut text = String::new();
        let flags = "fpu msr cat_l3 cdp_l3 mba rdt_a cqm cqm_llc cqm_occup_llc cqm_mbm_total cqm_mbm_local";
        for cpu in 0..self.cpus {
            let package = cpu * self.domains / self.cpus;
            text += &format!(
                "processor\t: {cpu}\nvendor_id\t: {}\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: made for tests\n\
                 physical id\t: {package}\ncore id\t\t: {cpu}\nflags\t\t: {flags}\n\n",
                self.vendor(),
                self.model.0,
                self.model.1
            );
        }
        text
    }
}
