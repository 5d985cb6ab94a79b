//! Events of `wirespeed_probe.h`: a line each, words with spaces between, addresses in hex and all else in decimal.
//!
//! | line | what it says |
//! |---|---|
//! | `wirespeed-probe 1` | the format and its version: the first line |
//! | `R shared\|core BASE BYTES NAME` | memory that the program names: all cores share one, or each has its own |
//! | `B BYTES DATA [MBUF]` | a packet begins: bytes of its frame, addresses of its first byte and of its mbuf |
//! | `W N` | so many instructions since the line before |
//! | `L ADDRESS BYTES [SITE [DEP]]` | a load; `S` a store, `P` a prefetch, `A` an atomic operation |
//! | `C FROM TO BYTES [SITE [DEP]]` | a copy |
//! | `E forward\|drop` | the packet at hand is done |
//!
//! `SITE` is the place in the program, in hex: any number that is the same whenever the program is there. `DEP` is how many
//! references back, of the same packet, the address came from; 0 for none. A line that begins with `#` says nothing.

use super::{RecordedKind, RecordingTape};
use crate::accesses::{Touched, decimal, hex};

pub(super) const MAGIC: &str = "wirespeed-probe";
pub(super) const EXPECTED: &str = "`R shared|core BASE BYTES NAME`, `B BYTES DATA [MBUF]`, `W N`, `L|S|P|A ADDRESS BYTES \
                                   [SITE [DEP]]`, `C FROM TO BYTES [SITE [DEP]]` or `E forward|drop`";
const VERSION: &str = "1";

/// What is expected where the first line is not right.
pub(super) fn first_line(line: &str) -> Result<(), String> {
    let rest = line.strip_prefix(MAGIC).map(str::trim);
    (rest == Some(VERSION))
        .then_some(())
        .ok_or_else(|| format!("`{MAGIC} {VERSION}`: take the header and wirespeed of the same release"))
}

/// Adds an event to `tape`, or says what is expected instead.
pub(super) fn event(line: &str, tape: &mut RecordingTape) -> Result<(), String> {
    let mut words = line.split_ascii_whitespace();
    let kind = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let address = |i: usize| rest.get(i).and_then(|word| hex(word.as_bytes()));
    let number = |i: usize| rest.get(i).and_then(|word| decimal(word.as_bytes()));
    let optional = |i: usize, value: Option<u64>| if rest.len() > i { value } else { Some(0) };
    // What does not fit the grammar is one error, what does not fit what came before another.
    let no = || format!("{EXPECTED}, addresses and sites in hex");
    match (kind, rest.len()) {
        ("R", 4..) => {
            let shared = match rest[0] {
                "shared" => true,
                "core" => false,
                _ => return Err(no()),
            };
            let (base, bytes) = (address(1).ok_or_else(no)?, number(2).ok_or_else(no)?);
            tape.region(base, bytes, shared, &rest[3..].join(" "))
        }
        ("B", 2..=3) => {
            let (bytes, data) = (number(0).ok_or_else(no)?, address(1).ok_or_else(no)?);
            tape.begin(bytes, data, optional(2, address(2)).ok_or_else(no)?)
        }
        ("W", 1) => {
            let instructions = number(0).ok_or_else(no)?;
            tape.work(instructions);
            Ok(())
        }
        ("L" | "S" | "P" | "A", 2..=4) => {
            let at = Touched { address: address(0).ok_or_else(no)?, bytes: number(1).ok_or_else(no)? };
            let site = optional(2, address(2)).ok_or_else(no)?;
            let dep = optional(3, number(3)).ok_or_else(no)?;
            let kind = match kind {
                "L" => RecordedKind::Load,
                "S" => RecordedKind::Store,
                "P" => RecordedKind::Prefetch,
                _ => RecordedKind::Atomic,
            };
            tape.touch(kind, at, None, site, dep)
        }
        ("C", 3..=5) => {
            let from = address(0).ok_or_else(no)?;
            let at = Touched { address: address(1).ok_or_else(no)?, bytes: number(2).ok_or_else(no)? };
            if from.checked_add(at.bytes).is_none() {
                return Err("1 to 65535 bytes that end below 2^64".into());
            }
            let site = optional(3, address(3)).ok_or_else(no)?;
            let dep = optional(4, number(4)).ok_or_else(no)?;
            tape.touch(RecordedKind::Store, at, Some(from), site, dep)
        }
        ("E", 1) => match rest[0] {
            "forward" => tape.end(false),
            "drop" => tape.end(true),
            _ => Err(no()),
        },
        _ => Err(no()),
    }
}
