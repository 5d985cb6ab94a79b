//! Running totals, and whose each of them is: what two sources count are two totals, and a difference between them is no rate.

use std::collections::BTreeMap;
use std::fmt;

use crate::HostError;

/// Running totals of one moment; what could not be read is [`None`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostTotals {
    /// Packets received.
    pub received: Option<u64>,
    /// Packets lost.
    pub lost: Option<u64>,
    /// Bytes that devices wrote.
    pub pcie_write_bytes: Option<u64>,
    /// Bytes that devices read.
    pub pcie_read_bytes: Option<u64>,
    /// Device writes that hit the LLC.
    pub ddio_hits: Option<u64>,
    /// Device writes that missed it.
    pub ddio_misses: Option<u64>,
    /// Bytes to and from DRAM.
    pub memory_bytes: Option<u64>,
    /// By class.
    pub classes: BTreeMap<u8, ClassTotals>,
}

/// Running totals of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassTotals {
    /// Lookups of the LLC that missed.
    pub llc_misses: Option<u64>,
    /// All lookups.
    pub llc_lookups: Option<u64>,
    /// Time not spent polling in vain, in the unit of `elapsed`.
    pub busy: Option<u64>,
    /// Time of its cores.
    pub elapsed: Option<u64>,
}

/// What is counted; the number is a class's. The two totals of a share are one: a part of one source has no share of another's whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TotalKind {
    /// Packets received.
    Received,
    /// Packets lost.
    Lost,
    /// Bytes that devices wrote.
    PcieWriteBytes,
    /// Bytes that devices read.
    PcieReadBytes,
    /// Device writes that hit the LLC.
    DdioHits,
    /// Device writes that missed it.
    DdioMisses,
    /// Bytes to and from DRAM.
    MemoryBytes,
    /// Lookups of the LLC by a class, and those that missed.
    Llc(u8),
    /// Busy time of a class's cores, and all of it.
    Busy(u8),
}

impl fmt::Display for TotalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TotalKind::Received => f.write_str("packets received"),
            TotalKind::Lost => f.write_str("packets lost"),
            TotalKind::PcieWriteBytes => f.write_str("bytes that devices write"),
            TotalKind::PcieReadBytes => f.write_str("bytes that devices read"),
            TotalKind::DdioHits => f.write_str("device writes that hit"),
            TotalKind::DdioMisses => f.write_str("device writes that miss"),
            TotalKind::MemoryBytes => f.write_str("bytes of DRAM"),
            TotalKind::Llc(class) => write!(f, "LLC misses of class {class}"),
            TotalKind::Busy(class) => write!(f, "busy time of class {class}"),
        }
    }
}

/// That a source counts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterClaim {
    /// Itself.
    Own(TotalKind),
    /// Something near to it, for where nothing else counts it.
    StandIn(TotalKind),
}

/// Where totals come from.
pub trait CounterSource: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;
    /// What it counts, whether or not it can be read now.
    fn counts(&self) -> Vec<CounterClaim>;
    /// Sets what it counts.
    ///
    /// # Errors
    /// It cannot be read now: what it counts is missing then.
    fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError>;
}

/// Which source each total is of, by its place among them: the last one that counts it, or the last that stands in.
#[derive(Clone, Debug, Default)]
pub(super) struct TotalOwners(BTreeMap<TotalKind, usize>);

impl TotalOwners {
    pub(super) fn of(sources: &[Box<dyn CounterSource>]) -> TotalOwners {
        let mut owners = BTreeMap::new();
        let mut stand_ins = BTreeMap::new();
        for (i, source) in sources.iter().enumerate() {
            for claim in source.counts() {
                match claim {
                    CounterClaim::Own(kind) => owners.insert(kind, i),
                    CounterClaim::StandIn(kind) => stand_ins.insert(kind, i),
                };
            }
        }
        for (kind, i) in stand_ins {
            owners.entry(kind).or_insert(i);
        }
        TotalOwners(owners)
    }

    /// Reads all sources; of each what is its own.
    pub(super) fn read(&self, sources: &mut [Box<dyn CounterSource>], faults: &mut Vec<String>) -> HostTotals {
        let mut totals = HostTotals::default();
        for (i, source) in sources.iter_mut().enumerate() {
            let mut read = HostTotals::default();
            if let Err(why) = source.read(&mut read) {
                faults.push(format!("{}: {why}", source.name()));
            }
            for (kind, _) in self.0.iter().filter(|(_, owner)| **owner == i) {
                take(*kind, &read, &mut totals);
            }
        }
        totals
    }
}

fn take(kind: TotalKind, from: &HostTotals, into: &mut HostTotals) {
    match kind {
        TotalKind::Received => into.received = from.received,
        TotalKind::Lost => into.lost = from.lost,
        TotalKind::PcieWriteBytes => into.pcie_write_bytes = from.pcie_write_bytes,
        TotalKind::PcieReadBytes => into.pcie_read_bytes = from.pcie_read_bytes,
        TotalKind::DdioHits => into.ddio_hits = from.ddio_hits,
        TotalKind::DdioMisses => into.ddio_misses = from.ddio_misses,
        TotalKind::MemoryBytes => into.memory_bytes = from.memory_bytes,
        TotalKind::Llc(class) => {
            let (of, read) = (into.classes.entry(class).or_default(), from.classes.get(&class));
            (of.llc_misses, of.llc_lookups) = read.map_or((None, None), |read| (read.llc_misses, read.llc_lookups));
        }
        TotalKind::Busy(class) => {
            let (of, read) = (into.classes.entry(class).or_default(), from.classes.get(&class));
            (of.busy, of.elapsed) = read.map_or((None, None), |read| (read.busy, read.elapsed));
        }
    }
}

/// What is counted more than once, and by whom it counts: a line each.
pub fn counted_twice(sources: &[Box<dyn CounterSource>]) -> Vec<String> {
    let owners = TotalOwners::of(sources);
    let mut lines = Vec::new();
    for (kind, owner) in &owners.0 {
        let claims = |source: &dyn CounterSource| source.counts().contains(&CounterClaim::Own(*kind));
        let others = sources.iter().enumerate().filter(|(i, source)| i != owner && claims(&***source));
        let others: Vec<&str> = others.map(|(_, source)| source.name()).collect();
        if !others.is_empty() {
            lines.push(format!("{kind} are those of {}, not those of {}", sources[*owner].name(), others.join(", ")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what it is told to, in steps of its own, and fails when it is told to.
    struct Made {
        name: &'static str,
        claims: Vec<CounterClaim>,
        total: u64,
        fails: bool,
    }

    impl CounterSource for Made {
        fn name(&self) -> &str {
            self.name
        }
        fn counts(&self) -> Vec<CounterClaim> {
            self.claims.clone()
        }
        fn read(&mut self, into: &mut HostTotals) -> Result<(), HostError> {
            if self.fails {
                return Err(HostError::form("made", "nothing", "something"));
            }
            // All that there is, whatever it says that it counts.
            (into.received, into.lost, into.pcie_write_bytes) = (Some(self.total), Some(self.total), Some(self.total));
            let of = ClassTotals { busy: Some(self.total), elapsed: Some(100), ..ClassTotals::default() };
            into.classes.insert(1, of);
            Ok(())
        }
    }

    #[test]
    fn no_source_stands_in_for_another_that_missed_a_read() {
        use CounterClaim::{Own, StandIn};
        use TotalKind::{Busy, Lost, PcieWriteBytes, Received};
        let made = |name, claims: &[CounterClaim], total, fails| -> Box<dyn CounterSource> {
            Box::new(Made { name, claims: claims.to_vec(), total, fails })
        };
        let sources = |first_fails, second_fails| {
            vec![
                made("first", &[Own(Received), Own(Busy(1)), StandIn(PcieWriteBytes)], 1_000, first_fails),
                made("second", &[Own(Received), Own(Lost), StandIn(PcieWriteBytes)], 7, second_fails),
            ]
        };
        let read = |first_fails, second_fails| {
            let mut sources = sources(first_fails, second_fails);
            let mut faults = Vec::new();
            let totals = TotalOwners::of(&sources).read(&mut sources, &mut faults);
            let busy = totals.classes.get(&1).and_then(|class| class.busy);
            ((totals.received, totals.lost, totals.pcie_write_bytes, busy), faults.len())
        };
        assert_eq!(
            read(false, false),
            ((Some(7), Some(7), Some(7), Some(1_000)), 0),
            "packets and bytes of one source"
        );
        assert_eq!(read(false, true), ((None, None, None, Some(1_000)), 1), "the first one's 1,000 would be a jump");
        assert_eq!(read(true, false), ((Some(7), Some(7), Some(7), None), 1));
        assert_eq!(counted_twice(&sources(false, false)), ["packets received are those of second, not those of first"]);
        let owned =
            vec![made("own", &[Own(PcieWriteBytes)], 5, false), made("near", &[StandIn(PcieWriteBytes)], 6, false)];
        let mut sources = owned;
        let totals = TotalOwners::of(&sources).read(&mut sources, &mut Vec::new());
        assert_eq!(totals.pcie_write_bytes, Some(5), "what stands in does so where nothing else counts");
    }
}
