//! Prefetchers: which lines a cache asks for before they are wanted.
//!
//! They see the loads and stores that arrive at their cache, by `site`, the static place of a
//! reference (the role of a program counter). No prefetcher leaves the 4 KiB page of the access that
//! triggers it, as hardware does not. Sources: next-line, tagged: Smith, ACM Computing Surveys 1982,
//! "Cache memories", section 2.3; stride by program counter: Chen and Baer, IEEE Transactions on Computers
//! 1995, "Effective hardware-based data prefetching" (here with a two-bit confidence); stream: Palacharla
//! and Kessler, ISCA 1994, in the form that trains on a region and runs ahead (Srinath et al., HPCA 2007,
//! section 2.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Line;

use crate::MachineError;

/// A prefetcher of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PrefetcherSpec {
    /// A miss, and the first hit of a prefetched line, asks for the `degree` lines that follow.
    NextLine {
        /// Lines asked for at once, 1 to 63.
        degree: u32,
    },
    /// A site that has twice moved by the same stride asks for the next `degree` lines of it.
    Stride {
        /// Lines asked for at once, 1 to 63.
        degree: u32,
        /// Sites remembered, a power of two up to 65536; the site's low bits choose.
        entries: u32,
    },
    /// Two misses to neighbouring lines of a page start a stream in their direction, which stays
    /// `distance` lines ahead and asks for at most `degree` lines at once.
    Stream {
        /// Lines asked for at once, 1 to 63.
        degree: u32,
        /// How far ahead of the last access, in lines, 1 to 63.
        distance: u32,
        /// Streams remembered, 1 to 1024; the least recently used goes.
        streams: u32,
    },
}

const PAGE_LINES: u64 = 64;

impl PrefetcherSpec {
    /// That it can be; `path` is where it stands.
    ///
    /// # Errors
    /// A number that is out of its range.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let within = |name: &str, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(MachineError::new(
                format!("{path}.{name}"),
                value.to_string(),
                format!("1 to {most}"),
                format!("choose {}", value.clamp(1, most)),
            ))
        };
        match *self {
            PrefetcherSpec::NextLine { degree } => within("degree", degree, 63),
            PrefetcherSpec::Stride { degree, entries } => {
                within("degree", degree, 63)?;
                within("entries", entries, 1 << 16)?;
                if entries.is_power_of_two() {
                    return Ok(());
                }
                Err(MachineError::new(
                    format!("{path}.entries"),
                    entries.to_string(),
                    "a power of two up to 65536",
                    format!("choose {}", entries.next_power_of_two()),
                ))
            }
            PrefetcherSpec::Stream { degree, distance, streams } => {
                within("degree", degree, 63)?;
                within("distance", distance, 63)?;
                within("streams", streams, 1024)
            }
        }
    }
}

/// What a prefetcher is told of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedAccess {
    pub line: Line,
    pub site: u16,
    pub hit: bool,
    /// The first use of a line that was prefetched.
    pub first_use: bool,
}

/// A prefetcher with what it has learnt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prefetcher {
    spec: PrefetcherSpec,
    strides: Vec<Stride>,
    /// Most recently used first.
    streams: Vec<Stream>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Stride {
    last: u64,
    stride: i64,
    /// 0 to 3: asks from 2 on.
    confidence: u8,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stream {
    last: u64,
    /// 1 or -1 once trained, 0 before.
    step: i64,
    /// The line furthest ahead that was asked for.
    ahead: u64,
}

impl Prefetcher {
    /// `spec` has been checked.
    pub(crate) fn new(spec: PrefetcherSpec) -> Prefetcher {
        let entries = if let PrefetcherSpec::Stride { entries, .. } = spec { entries as usize } else { 0 };
        Prefetcher { spec, strides: vec![Stride::default(); entries], streams: Vec::new() }
    }

    /// Learns from an access and appends the lines to ask for.
    pub(crate) fn observe(&mut self, seen: ObservedAccess, lines: &mut Vec<Line>) {
        let line = seen.line.0;
        match self.spec {
            PrefetcherSpec::NextLine { degree } => {
                if !seen.hit || seen.first_use {
                    push_within_page(line, line, 1, degree.into(), lines);
                }
            }
            PrefetcherSpec::Stride { degree, .. } => {
                let at = usize::from(seen.site) & (self.strides.len() - 1);
                let entry = &mut self.strides[at];
                let stride = line.wrapping_sub(entry.last) as i64;
                entry.last = line;
                if stride == 0 {
                    return;
                }
                if stride == entry.stride {
                    entry.confidence = (entry.confidence + 1).min(3);
                } else {
                    entry.confidence = entry.confidence.saturating_sub(1);
                    if entry.confidence == 0 {
                        entry.stride = stride;
                        entry.confidence = 1;
                    }
                }
                if entry.confidence >= 2 && stride == entry.stride && stride.unsigned_abs() < PAGE_LINES {
                    push_within_page(line, line, stride, degree.into(), lines);
                }
            }
            PrefetcherSpec::Stream { degree, distance, streams } => {
                self.follow(seen, i64::from(degree), i64::from(distance), streams as usize, lines);
            }
        }
    }

    fn follow(&mut self, seen: ObservedAccess, degree: i64, distance: i64, most: usize, lines: &mut Vec<Line>) {
        let line = seen.line.0;
        let known = self.streams.iter().position(|s| s.last / PAGE_LINES == line / PAGE_LINES);
        let Some(at) = known else {
            if !seen.hit {
                self.streams.truncate(most - 1);
                self.streams.insert(0, Stream { last: line, step: 0, ahead: line });
            }
            return;
        };
        let mut stream = self.streams.remove(at);
        let moved = line.wrapping_sub(stream.last) as i64;
        if stream.step == 0 && !seen.hit && moved.abs() == 1 {
            stream.step = moved;
            stream.ahead = line;
        }
        // An access between the last one and what was asked for moves the stream on.
        let gained = moved * stream.step;
        if stream.step == 0 {
            stream.last = if seen.hit { stream.last } else { line };
        } else if gained > 0 {
            stream.last = line;
            let mut reach = (stream.ahead as i64 - line as i64) * stream.step;
            if reach < 0 {
                (stream.ahead, reach) = (line, 0);
            }
            let more = (distance - reach).clamp(0, degree);
            push_within_page(line, stream.ahead, stream.step, more, lines);
            stream.ahead = stream.ahead.wrapping_add_signed(more * stream.step);
        }
        self.streams.insert(0, stream);
    }
}

/// Appends the `count` lines that follow `from` by `step`, as far as they are in the page of `line`.
fn push_within_page(line: u64, from: u64, step: i64, count: i64, lines: &mut Vec<Line>) {
    let ahead = (1..=count).map(|k| from.wrapping_add_signed(k * step));
    lines.extend(ahead.filter(|to| to / PAGE_LINES == line / PAGE_LINES).map(Line));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(spec: PrefetcherSpec, accesses: &[(u64, u16, bool)]) -> Vec<Vec<u64>> {
        let mut prefetcher = Prefetcher::new(spec);
        accesses
            .iter()
            .map(|&(line, site, hit)| {
                let mut lines = Vec::new();
                prefetcher.observe(ObservedAccess { line: Line(line), site, hit, first_use: false }, &mut lines);
                lines.iter().map(|l| l.0).collect()
            })
            .collect()
    }

    #[test]
    fn next_line_asks_on_misses_and_first_uses_and_stays_in_the_page() {
        let spec = PrefetcherSpec::NextLine { degree: 2 };
        let none: Vec<u64> = vec![];
        assert_eq!(
            asked(spec, &[(5, 0, false), (6, 0, true), (62, 0, false), (63, 0, false)]),
            [vec![6, 7], none.clone(), vec![63], none]
        );
        let mut lines = Vec::new();
        let seen = ObservedAccess { line: Line(6), site: 0, hit: true, first_use: true };
        Prefetcher::new(spec).observe(seen, &mut lines);
        assert_eq!(lines, [Line(7), Line(8)]);
    }

    #[test]
    fn a_stride_is_learnt_by_site_and_survives_one_other_step() {
        let spec = PrefetcherSpec::Stride { degree: 1, entries: 4 };
        // Site 1 walks by 3 and is disturbed once; site 2 walks down by 2 in between.
        let walk = [(100, 1), (50, 2), (103, 1), (48, 2), (106, 1), (46, 2), (109, 1), (120, 1), (123, 1), (126, 1)];
        let accesses: Vec<_> = walk.iter().map(|&(line, site)| (line, site, false)).collect();
        let asked = asked(spec, &accesses);
        let of = |line: u64| asked[walk.iter().position(|w| w.0 == line).unwrap()].clone();
        assert!(of(103).is_empty() && of(48).is_empty());
        assert_eq!((of(106), of(46), of(109)), (vec![109], vec![44], vec![112]));
        assert!(of(120).is_empty());
        assert_eq!(of(123), [126]);
        assert!(of(126).is_empty(), "129 is on the next page");
    }

    #[test]
    fn a_stream_runs_ahead_by_its_distance_in_its_direction() {
        let spec = PrefetcherSpec::Stream { degree: 2, distance: 3, streams: 2 };
        let up = asked(spec, &[(10, 0, false), (11, 0, false), (12, 0, true), (13, 0, true), (15, 0, true)]);
        assert_eq!(up, [vec![], vec![12, 13], vec![14, 15], vec![16], vec![17, 18]]);
        let down = asked(spec, &[(10, 0, false), (9, 0, false), (8, 0, true), (2, 0, true)]);
        assert_eq!(down, [vec![], vec![8, 7], vec![6, 5], vec![1, 0]]);
        // A third page pushes the first one out, whose stream has to be learnt again.
        let many = asked(spec, &[(10, 0, false), (100, 0, false), (200, 0, false), (11, 0, false), (12, 0, false)]);
        assert_eq!(many, [vec![], vec![], vec![], vec![], vec![13, 14]]);
    }
}
