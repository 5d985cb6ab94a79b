//! Which channel, rank, bank group, bank, row and column an address selects.
//!
//! A map is one list of address bits per part; a part's bit may be XORed with another address bit,
//! as controllers do so that strides do not all meet in one bank. A map is taken only if it is one
//! to one: no address bit lost, none counted twice.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::LINE_BYTES;

use super::standard::Standard;
use crate::MachineError;

/// A part of a DRAM address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AddressField {
    /// Channel, pseudo-channel or vault.
    Channel,
    /// Rank of a channel.
    Rank,
    /// Bank group of a rank.
    Group,
    /// Bank of a group.
    Bank,
    /// Row of a bank.
    Row,
    /// Line of a row.
    Column,
}

impl AddressField {
    const ALL: [AddressField; 6] = [
        AddressField::Channel,
        AddressField::Rank,
        AddressField::Group,
        AddressField::Bank,
        AddressField::Row,
        AddressField::Column,
    ];

    fn name(self) -> &'static str {
        match self {
            AddressField::Channel => "channel",
            AddressField::Rank => "rank",
            AddressField::Group => "group",
            AddressField::Bank => "bank",
            AddressField::Row => "row",
            AddressField::Column => "column",
        }
    }

    fn count(self, standard: &Standard) -> u64 {
        u64::from(match self {
            AddressField::Channel => standard.channels,
            AddressField::Rank => standard.ranks,
            AddressField::Group => standard.groups,
            AddressField::Bank => standard.banks,
            AddressField::Row => standard.rows,
            AddressField::Column => standard.row_bytes / LINE_BYTES as u32,
        })
    }
}

/// The address bits of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressBits {
    /// The part they select.
    pub part: AddressField,
    /// Byte-address bits, the part's lowest bit first.
    pub bits: Vec<u8>,
    /// Further address bits XORed in, the part's lowest bit first, 0 for none; may be shorter than `bits`.
    #[serde(default)]
    pub xor: Vec<u8>,
}

/// An address map as bit fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressMap {
    /// One entry per part that has more than one value.
    pub fields: Vec<AddressBits>,
}

/// Where a line lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DramLocation {
    /// Channel.
    pub channel: u32,
    /// Bank of the channel, `(rank * groups + group) * banks + bank`.
    pub bank: u32,
    /// Row of the bank.
    pub row: u32,
    /// Line of the row.
    pub column: u32,
}

impl AddressMap {
    /// Contiguous fields in the order of `parts`, high to low, above the line offset:
    /// `"row bank group column"`. Parts with one value may be left out.
    ///
    /// # Errors
    /// A word that is no part; then as [`Decoder::new`].
    pub fn ordered(standard: &Standard, parts: &str) -> Result<AddressMap, MachineError> {
        let mut fields = Vec::new();
        let mut bit = LINE_BYTES.ilog2() as u8;
        for word in parts.split_whitespace().rev() {
            let Some(part) = AddressField::ALL.into_iter().find(|part| part.name() == word) else {
                return Err(error(
                    standard,
                    format!("{word:?}"),
                    "channel, rank, group, bank, row, column",
                    "name parts from high to low",
                ));
            };
            let width = part.count(standard).max(1).ilog2() as u8;
            if width > 0 {
                fields.push(AddressBits { part, bits: (bit..bit + width).collect(), xor: Vec::new() });
            }
            bit += width;
        }
        let map = AddressMap { fields };
        Decoder::new(&map, standard)?;
        Ok(map)
    }

    /// `parts` with the bank XORed with the low row bits (Zhang, Zhu, Zhang, MICRO 2000).
    ///
    /// # Errors
    /// As [`AddressMap::ordered`].
    pub fn permuted(standard: &Standard, parts: &str) -> Result<AddressMap, MachineError> {
        let mut map = AddressMap::ordered(standard, parts)?;
        let row = map.fields.iter().find(|f| f.part == AddressField::Row).map(|f| f.bits.clone()).unwrap_or_default();
        if let Some(bank) = map.fields.iter_mut().find(|f| f.part == AddressField::Bank) {
            bank.xor = row.into_iter().take(bank.bits.len()).collect();
        }
        Decoder::new(&map, standard)?;
        Ok(map)
    }

    /// The same map with memory in stretches of `bytes` that lie in even banks and in odd ones by turns: the lowest bank
    /// bit, XORed with nothing, and the address bit that tells the stretches apart change places.
    ///
    /// # Errors
    /// Stretches that are no power of two, smaller than a line or half the device; one bank a group.
    pub fn halved(mut self, standard: &Standard, bytes: u64) -> Result<AddressMap, MachineError> {
        if !bytes.is_power_of_two() || bytes < LINE_BYTES || bytes > standard.capacity() / 2 {
            let (came, most) = (format!("stretches of {bytes} B"), standard.capacity() / 2);
            let allowed = format!("a power of two from {LINE_BYTES} to {most} B");
            return Err(error(standard, came, &allowed, "half of the packet buffer, by channel"));
        }
        let tells = bytes.ilog2() as u8;
        let Some(bank) = self.fields.iter_mut().find(|f| f.part == AddressField::Bank && !f.bits.is_empty()) else {
            return Err(error(standard, "one bank a group".into(), "two or more", "take another standard"));
        };
        let parity = bank.bits[0];
        if let Some(xor) = bank.xor.first_mut() {
            *xor = 0;
        }
        let swapped = |bit: &mut u8| {
            *bit = match *bit {
                bit if bit == tells => parity,
                bit if bit == parity => tells,
                bit => bit,
            }
        };
        self.fields.iter_mut().flat_map(|f| f.bits.iter_mut().chain(&mut f.xor)).for_each(swapped);
        Decoder::new(&self, standard)?;
        Ok(self)
    }
}

fn error(standard: &Standard, came: String, allowed: &str, remedy: &str) -> MachineError {
    MachineError::new(format!("dram.{}.map", standard.name), came, allowed, remedy.into())
}

/// Stands for no address bit in a list of XORs.
const NONE: u8 = 0;

/// Moves `width` address bits from `from` to `to` of a part.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct BitSegment {
    from: u32,
    mask: u64,
    to: u32,
}

/// A checked map in the form in which addresses are decoded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decoder {
    channel: Segments,
    /// Rank, group and bank as one number.
    bank: Segments,
    row: Segments,
    column: Segments,
    capacity: u64,
}

/// Nearly all parts are one run of bits, so the first one is not looked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Segments {
    first: BitSegment,
    rest: Vec<BitSegment>,
}

impl Decoder {
    /// Checks `map` against `standard`.
    ///
    /// # Errors
    /// A part that is missing, twice there, or of the wrong width; address bits beyond the device,
    /// overlapping fields, XORs that make two addresses one place.
    pub fn new(map: &AddressMap, standard: &Standard) -> Result<Decoder, MachineError> {
        standard.check()?;
        if u64::from(standard.row_bytes) < LINE_BYTES {
            return Err(error(
                standard,
                format!("row_bytes = {}", standard.row_bytes),
                "rows of at least 64 B",
                "a line lies in one row",
            ));
        }
        let capacity = standard.capacity();
        let (low, high) = (LINE_BYTES.ilog2() as u8, capacity.ilog2() as u8);
        let mut owner: Vec<Option<AddressField>> = vec![None; 64];
        let mut matrix: Vec<u64> = Vec::new();
        let mut decoder = Decoder {
            channel: Segments::default(),
            bank: Segments::default(),
            row: Segments::default(),
            column: Segments::default(),
            capacity,
        };
        for part in AddressField::ALL {
            let width = part.count(standard).ilog2() as usize;
            let fields: Vec<&AddressBits> = map.fields.iter().filter(|f| f.part == part).collect();
            let (bits, xor) = match fields[..] {
                [] => (&[][..], &[][..]),
                [field] => (&field.bits[..], &field.xor[..]),
                _ => {
                    return Err(error(
                        standard,
                        format!("{} {} fields", fields.len(), part.name()),
                        "one field per part",
                        "put all its bits into one list",
                    ));
                }
            };
            if bits.len() != width || xor.len() > width {
                return Err(error(
                    standard,
                    format!("{} of {} bits, XORed with {}", part.name(), bits.len(), xor.len()),
                    &format!("{width} bits, XORed with as many or fewer"),
                    &format!("the device has {} of them", part.count(standard)),
                ));
            }
            for &bit in bits.iter().chain(xor.iter().filter(|&&bit| bit != NONE)) {
                if bit < low || bit >= high {
                    return Err(error(
                        standard,
                        format!("{} from address bit {bit}", part.name()),
                        &format!("bits {low} to {}", high - 1),
                        &format!("lines are 64 B and the device holds {capacity} B"),
                    ));
                }
            }
            for &bit in bits {
                if let Some(other) = owner[bit as usize] {
                    return Err(error(
                        standard,
                        format!("address bit {bit} in {} and {}", other.name(), part.name()),
                        "each bit in one field",
                        "fields overlap: two addresses would be one place",
                    ));
                }
                owner[bit as usize] = Some(part);
            }
            for (i, &bit) in bits.iter().enumerate() {
                matrix.push(1 << bit ^ xor.get(i).filter(|&&x| x != NONE).map_or(0, |&x| 1 << x));
            }
            let above = match part {
                AddressField::Rank => (standard.groups * standard.banks).ilog2(),
                AddressField::Group => standard.banks.ilog2(),
                _ => 0,
            };
            let into = match part {
                AddressField::Channel => &mut decoder.channel,
                AddressField::Rank | AddressField::Group | AddressField::Bank => &mut decoder.bank,
                AddressField::Row => &mut decoder.row,
                AddressField::Column => &mut decoder.column,
            };
            for list in [bits, xor] {
                push_runs(list, above, into);
            }
        }
        if rank(&mut matrix) < usize::from(high - low) {
            let apart = one_place(&matrix, low..high);
            let bits: Vec<String> =
                (low..high).filter(|bit| apart >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
            return Err(error(
                standard,
                format!(
                    "XORs that cancel: addresses 0x0 and {apart:#x}, which differ in bits {}, are one place",
                    bits.join(", ")
                ),
                "a map that is one to one",
                "XOR a bank bit only with row bits that no other field is XORed with in a circle",
            ));
        }
        Ok(decoder)
    }

    /// The same places with one row a bank that is as wide as all of its rows.
    pub(super) fn with_one_row(mut self, standard: &Standard) -> Decoder {
        let columns = AddressField::Column.count(standard).ilog2();
        let Segments { first, rest } = std::mem::take(&mut self.row);
        for segment in std::iter::once(first).chain(rest).filter(|s| s.mask != 0) {
            let segment = BitSegment { to: segment.to + columns, ..segment };
            match self.column.first.mask {
                0 => self.column.first = segment,
                _ => self.column.rest.push(segment),
            }
        }
        self
    }

    /// Bytes that may be addressed.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The place of an address within the device.
    #[inline(always)]
    pub fn decode(&self, addr: u64) -> DramLocation {
        DramLocation {
            channel: gather(&self.channel, addr),
            bank: gather(&self.bank, addr),
            row: gather(&self.row, addr),
            column: gather(&self.column, addr),
        }
    }
}

#[inline(always)]
fn gather(segments: &Segments, addr: u64) -> u32 {
    let of = |s: &BitSegment| ((addr >> s.from & s.mask) << s.to) as u32;
    segments.rest.iter().fold(of(&segments.first), |value, s| value ^ of(s))
}

/// Splits a list of bits into runs of consecutive ones.
fn push_runs(bits: &[u8], above: u32, into: &mut Segments) {
    let mut start = 0;
    for end in 1..=bits.len() {
        if end == bits.len() || bits[end] != bits[end - 1] + 1 {
            let width = end - start;
            if bits[start] == NONE {
                start = end;
                continue;
            }
            let segment = BitSegment { from: u32::from(bits[start]), mask: (1 << width) - 1, to: above + start as u32 };
            if into.first.mask == 0 {
                into.first = segment;
            } else {
                into.rest.push(segment);
            }
            start = end;
        }
    }
}

/// Address bits that change no part together, of those in `bits`; `rows` are the parts' bits after [`rank`], which is
/// less than the number of bits.
fn one_place(rows: &[u64], bits: Range<u8>) -> u64 {
    // Each row that is left has its own lowest bit, which no other one has.
    let own = |row: u64| 1u64 << row.trailing_zeros();
    let left: Vec<u64> = rows.iter().copied().filter(|&row| row != 0).collect();
    let taken = left.iter().fold(0, |mask, &row| mask | own(row));
    let Some(free) = bits.into_iter().find(|bit| taken >> bit & 1 == 0) else { return 0 };
    left.iter().filter(|&&row| row >> free & 1 == 1).fold(1 << free, |mask, &row| mask | own(row))
}

/// Rank over GF(2); `rows` are reduced by it.
fn rank(rows: &mut [u64]) -> usize {
    let mut rank = 0;
    for bit in 0..64 {
        let Some(pivot) = (rank..rows.len()).find(|&i| rows[i] >> bit & 1 == 1) else { continue };
        rows.swap(rank, pivot);
        for i in 0..rows.len() {
            if i != rank && rows[i] >> bit & 1 == 1 {
                rows[i] ^= rows[rank];
            }
        }
        rank += 1;
    }
    rank
}
