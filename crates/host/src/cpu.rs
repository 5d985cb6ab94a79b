//! Which processor this is, and lists of processors as kernels write them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::{HostError, Tree};

/// What `/proc/cpuinfo` says of the first processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuIdentity {
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: String,
    /// Its family.
    pub family: u32,
    /// Its model.
    pub model: u32,
    /// Its name.
    pub name: String,
    /// Its features.
    pub flags: BTreeSet<String>,
    /// The first processor of each package.
    pub packages: Vec<u32>,
    /// How many processors there are.
    pub processors: u32,
}

impl CpuIdentity {
    /// Reads `cpuinfo` below `proc`.
    ///
    /// # Errors
    /// No such file; what it lacks is empty or 0.
    pub fn read(proc: &dyn Tree) -> Result<CpuIdentity, HostError> {
        let path = proc.root().join("cpuinfo").display().to_string();
        let text = proc.read("cpuinfo").map_err(|e| HostError::system("reading", path, e))?;
        Ok(CpuIdentity::parse(&text))
    }

    /// Of the text of `cpuinfo`.
    pub fn parse(text: &str) -> CpuIdentity {
        let mut cpu = CpuIdentity::default();
        let mut processor = 0;
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "processor" => {
                    processor = value.parse().unwrap_or(0);
                    cpu.processors += 1;
                }
                "physical id" if seen.insert(value.to_string()) => cpu.packages.push(processor),
                "vendor_id" if cpu.vendor.is_empty() => cpu.vendor = value.into(),
                "cpu family" if cpu.family == 0 => cpu.family = value.parse().unwrap_or(0),
                "model" if cpu.model == 0 => cpu.model = value.parse().unwrap_or(0),
                "model name" if cpu.name.is_empty() => cpu.name = value.into(),
                "flags" if cpu.flags.is_empty() => cpu.flags = value.split_whitespace().map(Into::into).collect(),
                _ => {}
            }
        }
        if cpu.packages.is_empty() && cpu.processors > 0 {
            cpu.packages.push(0);
        }
        cpu
    }

    /// Whether it has a feature.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }
}

/// The last-level cache of a processor, as resctrl numbers its domains (`id` of its cache of level 3 below `sys`); [`None`] where the
/// machine does not say.
pub fn l3_of(sys: &dyn Tree, cpu: u32) -> Option<u32> {
    // Most machines have it fourth.
    (FOURTH..MOST_CACHES).chain(0..FOURTH).find_map(|index| {
        let file = |name: &str| sys.read(&format!("devices/system/cpu/cpu{cpu}/cache/index{index}/{name}")).ok();
        (file("level")?.trim() == "3").then(|| file("id")?.trim().parse().ok()).flatten()
    })
}

/// A processor has no more caches.
const MOST_CACHES: u32 = 8;
/// Two of level 1, one of level 2, and it.
const FOURTH: u32 = 3;

/// Processors, as in `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(pub BTreeSet<u32>);

/// No machine has more; a list that says so is damaged.
const MOST_CPUS: u32 = 8192;

impl FromStr for CpuList {
    type Err = HostError;

    fn from_str(text: &str) -> Result<CpuList, HostError> {
        let wrong = || HostError::form("cpus", text, "a list such as 0-3,8");
        let mut list = BTreeSet::new();
        for part in text.trim().split(',').filter(|p| !p.is_empty()) {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let number = |s: &str| s.trim().parse::<u32>().ok().filter(|n| *n < MOST_CPUS).ok_or_else(wrong);
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(wrong());
            }
            list.extend(from..=to);
        }
        Ok(CpuList(list))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().copied().peekable();
        let mut between = "";
        while let Some(from) = cpus.next() {
            let mut to = from;
            while cpus.next_if(|next| *next == to + 1).is_some() {
                to += 1;
            }
            match to {
                _ if to == from => write!(f, "{between}{from}")?,
                _ => write!(f, "{between}{from}-{to}")?,
            }
            between = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_processor_is_told_from_cpuinfo() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon\n\
                    flags\t\t: fpu cat_l3 cdp_l3\nphysical id\t: 0\n\nprocessor\t: 1\nphysical id\t: 1\nmodel\t: 85\n";
        let cpu = CpuIdentity::parse(text);
        assert_eq!((cpu.family, cpu.model, cpu.processors), (6, 85, 2));
        assert_eq!(cpu.packages, [0, 1]);
        assert!(cpu.has("cat_l3") && !cpu.has("cqm"));
    }

    #[test]
    fn the_last_level_cache_of_a_processor_has_a_number() {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, index, level, id) in [(0, 2, "2", "9"), (0, 3, "3", "1"), (5, 3, "3", "x")] {
            let at = folder.path().join(format!("devices/system/cpu/cpu{cpu}/cache/index{index}"));
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("level"), format!("{level}\n")).unwrap();
            std::fs::write(at.join("id"), format!("{id}\n")).unwrap();
        }
        let sys = crate::Files::new(folder.path());
        assert_eq!((l3_of(&sys, 0), l3_of(&sys, 5), l3_of(&sys, 7)), (Some(1), None, None));
    }

    #[test]
    fn lists_that_are_none_are_refused() {
        for text in ["3-1", "a", "1-", "0-99999999999", "1;2"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
        assert_eq!("\n".parse::<CpuList>().unwrap(), CpuList::default());
    }

    proptest! {
        #[test]
        fn a_list_reads_back_equal(cpus in proptest::collection::btree_set(0u32..200, 0..60)) {
            let list = CpuList(cpus);
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }
    }
}
