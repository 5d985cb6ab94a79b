//! Made work: so many instructions and loads a packet over so much memory, to vary what a function costs.
//!
//! **Computes** for each packet `rounds` numbers of a generator, then follows a chain of `accesses` loads through an
//! array: where each goes is made from the last number and the word that was loaded before, so no load can start
//! before the one before it has its data. With no rounds every packet follows the same chain. The packet
//! itself is not touched.
//!
//! **References per packet**: `accesses` loads of 4 bytes, before each of them `chain` loads of one hot word; each after
//! the one before.
//!
//! **Regions**: the array, shared by the cores; a line of each core for the hot word.
//!
//! Instructions are parameters, not counted: they stand for those of the function that is imitated.
//!
//! **Source**: the `WorkPackage` element of FastClick, as PacketMill (Farshin et al., ASPLOS 2021, section 4.4) uses it; the
//! chain is made alike, with a generator of our own.

use packet::Packet;
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ps, Size};

use crate::verdict::across;
use crate::{FunctionError, PacketFunction, Verdict};

const ARRAY: RegionId = RegionId::FIRST_TABLE;
const HOT: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const WORD_BYTES: u64 = 4;

/// Places of references, in program order.
mod site {
    pub(super) const CHAIN: u16 = 0;
    pub(super) const ACCESS: u16 = 1;
    pub(super) const DONE: u16 = 2;
    pub(super) const LATCH: u16 = 3;
}

/// How much work a packet makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkSpec {
    /// The array: 64 B to 4 GiB.
    pub footprint: Size,
    /// Loads of a packet, each after the one before; 0 to 200.
    pub accesses: u32,
    /// Numbers drawn before the first load; 0 to 1000000. Without any, every packet makes the same loads.
    pub rounds: u32,
    /// Instructions of a packet, besides those below; up to 1000000.
    pub packet_instructions: u32,
    /// Instructions of a round; up to 1000.
    pub round_instructions: u32,
    /// Instructions between a load and the next one; up to 1000.
    pub access_instructions: u32,
    /// Loads of a hot word that stand between a load and the next one, each after the one before: the time that making
    /// the next address takes, in hits of the first cache; up to 100.
    pub chain: u32,
}

impl Default for WorkSpec {
    fn default() -> WorkSpec {
        WorkSpec {
            footprint: Size::from_bytes(4 << 20),
            accesses: 1,
            rounds: 4,
            packet_instructions: 20,
            // A call of std::mt19937, and a division and some shifts.
            round_instructions: 19,
            access_instructions: 40,
            chain: 0,
        }
    }
}

impl WorkSpec {
    /// Checks the ranges. `path` is where the specification stands in the scenario.
    ///
    /// # Errors
    /// A value outside its range.
    pub fn check(&self, path: &str) -> Result<(), FunctionError> {
        let error = |field: &str, came: String, allowed: &str| {
            Err(FunctionError::Value {
                path: format!("{path}.{field}"),
                came,
                allowed: format!("allowed are {allowed}"),
            })
        };
        if !(64..=4 << 30).contains(&self.footprint.bytes()) {
            return error("footprint", self.footprint.to_string(), "64 B to 4 GiB");
        }
        for (field, value, most) in [
            ("accesses", self.accesses, 200),
            ("rounds", self.rounds, 1_000_000),
            ("packet_instructions", self.packet_instructions, 1_000_000),
            ("round_instructions", self.round_instructions, 1000),
            ("access_instructions", self.access_instructions, 1000),
            ("chain", self.chain, 100),
        ] {
            if value > most {
                return error(field, value.to_string(), &format!("0 to {most}"));
            }
        }
        Ok(())
    }
}

/// Makes work. See the module header.
#[derive(Clone, Debug)]
pub struct Work {
    spec: WorkSpec,
    array: std::sync::Arc<[u32]>,
    generator: Generator,
    /// What the chains have come to, so that no load is in vain.
    sum: u32,
    ports: u16,
}

state::state!(Work { values: [generator, sum], arrays: [], parts: [], built: [spec, array, ports] });

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Generator(u64);

impl Generator {
    #[inline(always)]
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as u32
    }
}

impl Work {
    /// Work as `spec` has it, on a machine of `ports` ports. The array's words are the same each time.
    ///
    /// # Errors
    /// A value of `spec` outside its range.
    pub fn new(spec: &WorkSpec, ports: u16) -> Result<Work, FunctionError> {
        spec.check("function.work")?;
        let mut words = Generator(1);
        let array = (0..spec.footprint.bytes() / WORD_BYTES).map(|_| words.next()).collect();
        Ok(Work { spec: spec.clone(), array, generator: Generator(2), sum: 0, ports })
    }

    /// What all chains have come to.
    pub fn sum(&self) -> u32 {
        self.sum
    }
}

impl PacketFunction for Work {
    fn name(&self) -> &'static str {
        "work"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let bytes = self.array.len() as u64 * WORD_BYTES;
        vec![
            RegionSpec { id: ARRAY, name: "array".into(), bytes, sharing: Sharing::Shared },
            RegionSpec { id: HOT, name: "hot word".into(), bytes: 64, sharing: Sharing::PerCore },
        ]
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let spec = &self.spec;
        for packet in burst {
            probe.begin(packet.id);
            let mut word = 0u32;
            for _ in 0..spec.rounds {
                word = self.generator.next();
            }
            probe.work(site::ACCESS, spec.packet_instructions + spec.rounds * spec.round_instructions);
            let mut first = true;
            let mut after = |load: Ref| if std::mem::take(&mut first) { load } else { load.after(1) };
            for _ in 0..spec.accesses {
                for _ in 0..spec.chain {
                    probe.touch(after(Ref::load(HOT, 0, WORD_BYTES as u16, site::CHAIN)));
                }
                let at = (u64::from(word) * self.array.len() as u64) >> 32;
                probe.touch(after(Ref::load(ARRAY, at * WORD_BYTES, WORD_BYTES as u16, site::ACCESS)));
                probe.work(site::ACCESS, spec.access_instructions);
                word = self.array[at as usize] ^ word << 24 ^ word << 16 ^ word << 8 ^ word >> 16;
            }
            self.sum ^= word;
            probe.work(site::DONE, 0);
            out.push(Verdict::Forward { port: across(packet.port, self.ports) });
            probe.end(packet.id);
            probe.latch(site::LATCH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::{Count, Null, ProbeEvent, Record};

    fn loads(spec: &WorkSpec, packets: usize) -> Vec<(u64, u8)> {
        let mut record = Record::default();
        let mut burst = vec![Packet::default(); packets];
        Work::new(spec, 2).unwrap().process_burst(Ps::ZERO, &mut burst, &mut record, &mut Vec::new());
        let (mut at, mut loads) = (0, Vec::new());
        while let Some((event, next)) = record.event(at) {
            if let ProbeEvent::Touch(r) = event {
                loads.push((r.offset, r.dep));
            }
            at = next;
        }
        loads
    }

    #[test]
    fn a_packet_makes_its_loads_in_a_chain_that_covers_the_array() {
        let spec = WorkSpec { accesses: 3, footprint: Size::from_bytes(4096), ..WorkSpec::default() };
        let all = loads(&spec, 2000);
        assert_eq!(all.len(), 6000);
        assert!(all.chunks(3).all(|c| [c[0].1, c[1].1, c[2].1] == [0, 1, 1]));
        let lines: std::collections::HashSet<u64> = all.iter().map(|(offset, _)| offset / 64).collect();
        assert_eq!(lines.len(), 64);
        assert!(all.iter().all(|(offset, _)| *offset < 4096));
    }

    #[test]
    fn without_rounds_every_packet_makes_the_same_loads() {
        let spec = WorkSpec { accesses: 4, rounds: 0, ..WorkSpec::default() };
        let all = loads(&spec, 10);
        assert!(all.chunks(4).all(|c| c == &all[..4]));
    }

    #[test]
    fn instructions_are_what_the_parameters_say() {
        let spec = WorkSpec { accesses: 5, rounds: 7, ..WorkSpec::default() };
        let mut count = Count::default();
        let mut work = Work::new(&spec, 2).unwrap();
        work.process_burst(Ps::ZERO, &mut [Packet::default()], &mut count, &mut Vec::new());
        assert_eq!(count.instructions, 20 + 7 * 19 + 5 * 40);
        let mut again = Work::new(&spec, 2).unwrap();
        again.process_burst(Ps::ZERO, &mut [Packet::default()], &mut Null, &mut Vec::new());
        assert_eq!(again.sum(), work.sum());
    }

    #[test]
    fn values_out_of_range_are_named() {
        let spec = WorkSpec { footprint: Size::from_bytes(8), ..WorkSpec::default() };
        let error = Work::new(&spec, 2).unwrap_err().to_string();
        assert!(error.contains("function.work.footprint") && error.contains("64 B to 4 GiB"), "{error}");
    }
}
