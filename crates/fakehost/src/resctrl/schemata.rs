//! Schemata as the kernel judges them: all lines are staged, and take effect together or not at all.

use host::GroupMode;
use libc::{EINVAL, ENODEV, ENOENT, ENOSPC};
use units::{Cbm, LINE_BYTES};

use super::{Errno, FakeResctrl, Group};

/// What is staged of a resource: a value by domain.
type Staged<T> = Vec<Option<T>>;

impl FakeResctrl {
    pub(super) fn schemata_text(&self, g: &Group) -> String {
        if g.mode == GroupMode::PseudoLocksetup {
            let bandwidth = if self.spec.bandwidth { "MB:uninitialized\n" } else { "" };
            return format!("{bandwidth}L3:uninitialized\n");
        }
        let closid = g.closid as usize;
        let line = |name: &str, of: &dyn Fn(usize) -> String| {
            let values = (0..self.domains.len()).map(|d| format!("{}={}", self.domains[d], of(d)));
            format!("{name:>6}:{}\n", values.collect::<Vec<_>>().join(";"))
        };
        let bandwidth = line("MB", &|d| format!("{:>4}", self.bandwidth[closid][d]));
        // The kernel pads masks to the width of the longest.
        let width = (self.spec.ways as usize).div_ceil(4);
        let masks = line("L3", &|d| format!("{:0width$x}", self.masks[closid][d].0));
        if self.spec.bandwidth { bandwidth + &masks } else { masks }
    }

    pub(super) fn size_text(&self, g: &Group) -> String {
        let way = (self.spec.plant.way_bytes as u64) / LINE_BYTES * LINE_BYTES;
        let closid = g.closid as usize;
        let of = |d: usize| format!("{}={}", self.domains[d], u64::from(self.masks[closid][d].ways()) * way);
        let share = |d: usize| format!("{}={:>4}", self.domains[d], self.bandwidth[closid][d]);
        let all = |of: &dyn Fn(usize) -> String| (0..self.domains.len()).map(of).collect::<Vec<_>>().join(";");
        let bandwidth = if self.spec.bandwidth { format!("{:>6}:{}\n", "MB", all(&share)) } else { String::new() };
        format!("{bandwidth}{:>6}:{}\n", "L3", all(&of))
    }

    pub(super) fn bit_usage(&self) -> String {
        let of_domain = |d: usize| {
            let of = |mode: GroupMode| {
                let groups = self.groups.values().filter(|g| g.mode == mode);
                groups.fold(0u32, |all, g| all | self.masks[g.closid as usize][d].0)
            };
            let (shared, alone, locked) =
                (of(GroupMode::Shareable), of(GroupMode::Exclusive), of(GroupMode::PseudoLocked));
            let hardware = self.spec.hardware(self.domains[d]).0
                | if self.io_alloc { self.masks[self.io_closid()][d].0 } else { 0 };
            let letter = |bit: u32| match (hardware >> bit & 1, shared >> bit & 1) {
                (1, 1) => 'X',
                (1, 0) => 'H',
                (_, 1) => 'S',
                _ if alone >> bit & 1 == 1 => 'E',
                _ if locked >> bit & 1 == 1 => 'P',
                _ => '0',
            };
            format!("{}={}", self.domains[d], (0..self.spec.ways).rev().map(letter).collect::<String>())
        };
        format!("{}\n", (0..self.domains.len()).map(of_domain).collect::<Vec<_>>().join(";"))
    }

    /// Whether a mask shares ways with another class: any one, or only those that are alone.
    pub(super) fn overlaps(&self, domain: usize, mask: Cbm, closid: usize, exclusive: bool) -> bool {
        if !exclusive && mask.0 & self.spec.hardware(self.domains[domain]).0 != 0 {
            return true;
        }
        let others =
            self.groups.values().filter(|g| g.closid as usize != closid && g.mode != GroupMode::PseudoLocksetup);
        let mut others = others.filter(|g| !exclusive || g.mode == GroupMode::Exclusive);
        let io = self.io_alloc
            && !exclusive
            && closid != self.io_closid()
            && mask.0 & self.masks[self.io_closid()][domain].0 != 0;
        io || others.any(|g| self.masks[g.closid as usize][domain].0 & mask.0 != 0)
    }

    /// A mask by the rules of the cache.
    fn judge_mask(&mut self, word: &str) -> Result<Cbm, Errno> {
        let spec = self.spec.clone();
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let Ok(value) = u64::from_str_radix(digits, 16) else {
            self.bad_masks += 1;
            return self.refuse(&format!("Non-hex character in the mask {word}\n"), EINVAL);
        };
        if (spec.min_cbm_bits > 0 && value == 0) || value > u64::from(spec.full().0) {
            self.bad_masks += 1;
            return self.refuse("Mask out of range\n", EINVAL);
        }
        let mask = Cbm(value as u32);
        if !spec.sparse && value != 0 && !mask.is_contiguous() {
            self.bad_masks += 1;
            return self.refuse(&format!("The mask {value:x} has non-consecutive 1-bits\n"), EINVAL);
        }
        let run = if value == 0 { 0 } else { (mask.0 >> mask.0.trailing_zeros()).trailing_ones() };
        if run < spec.min_cbm_bits {
            self.bad_masks += 1;
            return self.refuse(&format!("Need at least {} bits in the mask\n", spec.min_cbm_bits), EINVAL);
        }
        Ok(mask)
    }

    fn stage_mask(
        &mut self,
        mode: GroupMode,
        closid: usize,
        d: usize,
        word: &str,
        staged: &mut Staged<Cbm>,
    ) -> Result<(), Errno> {
        if staged[d].is_some() {
            return self.refuse(&format!("Duplicate domain {}\n", self.domains[d]), EINVAL);
        }
        let mask = self.judge_mask(word)?;
        let locked = |g: &&Group| g.mode == GroupMode::PseudoLocked;
        if self.groups.values().filter(locked).any(|g| self.masks[g.closid as usize][d].0 & mask.0 != 0) {
            return self.refuse("CBM overlaps with pseudo-locked region\n", EINVAL);
        }
        if self.overlaps(d, mask, closid, true) {
            return self.refuse("Overlaps with exclusive group\n", EINVAL);
        }
        if matches!(mode, GroupMode::Exclusive | GroupMode::PseudoLocksetup) && self.overlaps(d, mask, closid, false) {
            return self.refuse("Overlaps with other group\n", EINVAL);
        }
        staged[d] = Some(mask);
        Ok(())
    }

    fn stage_bandwidth(&mut self, d: usize, word: &str, staged: &mut Staged<u32>) -> Result<(), Errno> {
        if staged[d].is_some() {
            return self.refuse(&format!("Duplicate domain {}\n", self.domains[d]), EINVAL);
        }
        let Ok(share) = word.parse::<u32>() else {
            return self.refuse(&format!("Invalid MB value {word}\n"), EINVAL);
        };
        if !(10..=100).contains(&share) {
            return self.refuse(&format!("MB value {share} out of range [10,100]\n"), EINVAL);
        }
        staged[d] = Some(share.div_ceil(10) * 10);
        Ok(())
    }

    pub(super) fn write_schemata(&mut self, group: &str, text: &str) -> Result<(), Errno> {
        let Some(text) = text.strip_suffix('\n') else { return Err(EINVAL) };
        let (mode, closid) = match self.groups.get(group) {
            Some(g) => (g.mode, g.closid as usize),
            None => return Err(ENOENT),
        };
        self.status.clear();
        if mode == GroupMode::PseudoLocked {
            return self.refuse("Resource group is pseudo-locked\n", EINVAL);
        }
        let mut masks: Staged<Cbm> = vec![None; self.domains.len()];
        let mut shares: Staged<u32> = vec![None; self.domains.len()];
        for line in text.split('\n') {
            let Some((name, values)) = line.split_once(':') else { return self.refuse("Missing ':'\n", EINVAL) };
            let name = name.trim();
            if values.is_empty() {
                return self.refuse(&format!("Missing '{name}' value\n"), EINVAL);
            }
            let is_cache = match name {
                "L3" => true,
                "MB" if self.spec.bandwidth => false,
                _ => return self.refuse(&format!("Unknown or unsupported resource name '{name}'\n"), EINVAL),
            };
            if !is_cache && mode == GroupMode::PseudoLocksetup {
                return self.refuse("Cannot pseudo-lock MBA resource\n", EINVAL);
            }
            for part in values.split(';').filter(|p| !p.is_empty()) {
                let (d, word) = self.domain_of(part)?;
                if is_cache {
                    self.stage_mask(mode, closid, d, word, &mut masks)?;
                } else {
                    self.stage_bandwidth(d, word, &mut shares)?;
                }
            }
        }
        for d in 0..self.domains.len() {
            self.masks[closid][d] = masks[d].unwrap_or(self.masks[closid][d]);
            self.bandwidth[closid][d] = shares[d].unwrap_or(self.bandwidth[closid][d]);
        }
        if mode == GroupMode::PseudoLocksetup
            && let Some(g) = self.groups.get_mut(group)
        {
            g.mode = GroupMode::PseudoLocked;
        }
        Ok(())
    }

    /// The domain and the value of `id=value`.
    fn domain_of<'a>(&mut self, part: &'a str) -> Result<(usize, &'a str), Errno> {
        let split = part.split_once('=').and_then(|(id, word)| Some((id.parse::<u32>().ok()?, word.trim())));
        let Some((id, word)) = split else {
            return self.refuse("Missing '=' or non-numeric domain\n", EINVAL);
        };
        // A domain that is not there has no text of its own.
        let d = self.domains.iter().position(|d| *d == id).ok_or(EINVAL)?;
        Ok((d, word))
    }

    fn io_alloc_missing(&mut self) -> Result<(), Errno> {
        self.status.clear();
        if self.spec.io_alloc { Ok(()) } else { self.refuse("io_alloc is not supported on L3\n", ENODEV) }
    }

    pub(super) fn write_io_alloc(&mut self, text: &str) -> Result<(), Errno> {
        let enable = match text.trim_end_matches('\n') {
            "1" | "y" | "Y" | "on" => true,
            "0" | "n" | "N" | "off" => false,
            _ => return Err(EINVAL),
        };
        self.io_alloc_missing()?;
        if self.io_alloc == enable {
            return Ok(());
        }
        let closid = self.io_closid();
        if enable {
            if let Some((name, _)) = self.groups.iter().find(|(_, g)| g.closid as usize == closid) {
                let why = format!("CLOSID (ctrl_hw_id) {closid} for io_alloc is used by {name} group\n");
                return self.refuse(&why, ENOSPC);
            }
            for d in 0..self.domains.len() {
                match self.default_mask(closid, d) {
                    Some(mask) => self.masks[closid][d] = mask,
                    None => return self.refuse("Failed to initialize io_alloc allocations\n", ENOSPC),
                }
            }
        }
        self.closids[closid] = enable;
        self.io_alloc = enable;
        Ok(())
    }

    pub(super) fn read_io_alloc_cbm(&mut self) -> Result<String, Errno> {
        self.io_alloc_missing()?;
        if !self.io_alloc {
            return self.refuse("io_alloc is not enabled on L3\n", EINVAL);
        }
        let closid = self.io_closid();
        let values = (0..self.domains.len()).map(|d| format!("{}={:x}", self.domains[d], self.masks[closid][d].0));
        Ok(format!("{}\n", values.collect::<Vec<_>>().join(";")))
    }

    pub(super) fn write_io_alloc_cbm(&mut self, text: &str) -> Result<(), Errno> {
        let Some(text) = text.strip_suffix('\n') else { return Err(EINVAL) };
        self.io_alloc_missing()?;
        if !self.io_alloc {
            return self.refuse("io_alloc is not enabled on L3\n", ENODEV);
        }
        let closid = self.io_closid();
        let mut staged: Staged<Cbm> = vec![None; self.domains.len()];
        for part in text.split(';').filter(|p| !p.is_empty()) {
            let (d, word) = self.domain_of(part)?;
            self.stage_mask(GroupMode::Shareable, closid, d, word, &mut staged)?;
        }
        for (d, mask) in staged.into_iter().enumerate() {
            self.masks[closid][d] = mask.unwrap_or(self.masks[closid][d]);
        }
        Ok(())
    }
}
