//! Lookups that a packet function made, as lines of its table.

use std::collections::BTreeMap;
use std::sync::Arc;

use queueing::lru::LineClass;

/// What packets look up, in order: of each packet the lines of its tables that it reads, one after the other. After the last packet
/// the first comes again.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookups {
    /// Lines; the last of a packet has its highest bit set.
    refs: Arc<[u32]>,
    /// By packet: where it begins.
    starts: Arc<[usize]>,
    lines: u64,
}

const LAST: u32 = 1 << 31;

impl Lookups {
    /// The lines of each packet, of tables of so many; packets without any are left out. `None` where none has any, or a line is
    /// beyond the tables, or 2^31 or higher.
    pub fn new<'a>(packets: impl Iterator<Item = &'a [u32]>, lines: u64) -> Option<Lookups> {
        let (mut refs, mut starts) = (Vec::new(), Vec::new());
        for packet in packets.filter(|packet| !packet.is_empty()) {
            starts.push(refs.len());
            refs.extend_from_slice(packet);
            if let Some(last) = refs.last_mut() {
                if *last >= LAST {
                    return None;
                }
                *last |= LAST;
            }
        }
        let highest = refs.iter().map(|line| line & !LAST).max()?;
        (u64::from(highest) < lines).then(|| Lookups { refs: refs.into(), starts: starts.into(), lines })
    }

    /// How likely each line is to be looked up, lines that are alike together.
    pub(super) fn classes(&self) -> Vec<LineClass> {
        let mut counts = vec![0u32; self.lines as usize];
        for line in self.refs.iter() {
            counts[(line & !LAST) as usize] += 1;
        }
        let mut alike: BTreeMap<u32, f64> = BTreeMap::new();
        for count in counts.into_iter().filter(|count| *count > 0) {
            *alike.entry(count).or_default() += 1.0;
        }
        let all = self.refs.len() as f64;
        alike.into_iter().map(|(count, lines)| (f64::from(count) / all, lines)).collect()
    }

    /// Lines of the tables.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines that are looked up.
    pub fn touched(&self) -> u64 {
        self.classes().iter().map(|(_, lines)| *lines as u64).sum()
    }

    /// Lookups of a packet, on average.
    pub fn per_packet(&self) -> f64 {
        self.refs.len() as f64 / self.starts.len() as f64
    }

    /// Where the packet of number `packet` begins; `packet` moves on to the next.
    #[inline]
    pub(super) fn first_of(&self, packet: &mut usize) -> usize {
        let first = self.starts[*packet];
        *packet = if *packet + 1 == self.starts.len() { 0 } else { *packet + 1 };
        first
    }

    /// The line at `at`, and whether its packet has more.
    #[inline]
    pub(super) fn at(&self, at: usize) -> (u32, bool) {
        let line = self.refs[at];
        (line & !LAST, line & LAST == 0)
    }
}
