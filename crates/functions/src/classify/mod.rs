//! Classification: the first of many rules that a packet matches.
//!
//! **Computes** for IPv4 packets the class, which is the number of the first rule that matches source, destination,
//! ports, protocol and TCP flags. Two searches of the same rules: one rule after the other ([`RuleSearch::Linear`]), and by
//! tuple space ([`RuleSearch::TupleSpace`]): a hash table for each combination of prefix lengths, kinds of port ranges and
//! protocol mask that occurs among the rules, looked at in the order of the best rule each has, until no table left can have
//! a better one than what was found.
//!
//! **References per packet**: 3 mbuf loads (where the data lies, and the packet's type), 2 header loads (16 and 4
//! bytes), 1 load of ports, 1 of TCP flags, 1 mbuf store of the class. Linear: a load of 16 bytes a rule up to the one
//! that matches, and one of 16 bytes more where the addresses do. Tuple space: for each table that is looked at a load of 32
//! bytes, a load of 4 bytes of its buckets, and a load of 64 bytes for each rule of the bucket up to one that
//! matches, each behind the other. Best 3 (not IP).
//!
//! **Regions**: rules (32 bytes each); or tuples (32 bytes each), buckets (4 bytes each, twice as many as rules or more)
//! and entries (64 bytes a rule); shared by the cores; the packet and its mbuf.
//!
//! IPv6 packets have no class, since rules are of IPv4; options are passed over; fragments after the first have ports
//! of 0. The class lies in the mbuf where DPDK has the number of a filter that matched (`hash.fdir.hi`, DPDK 22.11).
//!
//! Left out: adding rules one by one; trees and bit vectors (see `firewall` for the latter).
//!
//! **Source**: Zhu, Deng, Chen, "Hermes: An Integrated CPU/GPU Microarchitecture for IP Routing", DAC 2011, section 4
//! (linear search over ClassBench rules); Srinivasan, Suri, Varghese, "Packet Classification using Tuple Space Search", ACM
//! SIGCOMM 1999, sections 2 and 3; the order of tables with early exit is that of Pfaff et al., "The Design and
//! Implementation of Open vSwitch", USENIX NSDI 2015, section 5.2 (tuple priority sorting).
//!
//! **See also** `firewall`.

mod linear;
mod tuples;

use packet::{L3, PROTO_TCP, PROTO_UDP, Packet, Rule, RuleFields};
use probe::{Probe, Ref, RegionId, RegionSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PortId, Ps};

use self::linear::Linear;
use self::tuples::TupleSpace;
use crate::check::{data_address, mbuf};
use crate::tape::Tape;
use crate::verdict::across;
use crate::{DropReason, FunctionError, PacketFunction, Verdict};

/// More rules are a mistake: 4,194,304 take 256 MiB by tuple space.
const MOST: usize = 1 << 22;
/// `hash.fdir.hi` of `struct rte_mbuf` (DPDK 22.11 `lib/mbuf/rte_mbuf_core.h`).
const MBUF_CLASS: u64 = 48;

/// Places of references, in program order.
mod site {
    pub(super) const BUF_ADDR: u16 = 0;
    pub(super) const DATA_OFF: u16 = 1;
    pub(super) const PACKET_TYPE: u16 = 2;
    pub(super) const HEADER: u16 = 3;
    pub(super) const DESTINATION: u16 = 4;
    pub(super) const PORTS: u16 = 5;
    pub(super) const FLAGS: u16 = 6;
    pub(super) const FIELDS: u16 = 7;
    pub(super) const RULE: u16 = 8;
    pub(super) const RULE_REST: u16 = 9;
    pub(super) const RULE_LATCH: u16 = 10;
    pub(super) const TUPLE: u16 = 11;
    pub(super) const BUCKET: u16 = 12;
    pub(super) const ENTRY: u16 = 13;
    pub(super) const ENTRY_LATCH: u16 = 14;
    pub(super) const TUPLE_LATCH: u16 = 15;
    pub(super) const CLASS: u16 = 16;
    pub(super) const DONE: u16 = 17;
    pub(super) const LATCH: u16 = 18;
}

/// Instructions of each part as compiled for x86-64; see `tests/instructions.rs`.
mod cost {
    pub(super) const NOT_IP: u32 = 35;
    pub(super) const FIELDS: u32 = 97;
    pub(super) const RULE: u32 = 16;
    pub(super) const RULE_REST: u32 = 23;
    pub(super) const TUPLE: u32 = 48;
    pub(super) const ENTRY: u32 = 30;
    pub(super) const DONE: u32 = 13;
}

/// How rules are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleSearch {
    /// One after the other.
    Linear,
    /// By tuple space.
    #[default]
    TupleSpace,
}

/// How packets are classified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClassifySpec {
    /// How rules are searched.
    pub search: RuleSearch,
    /// Whether packets that no rule matches are dropped.
    pub drop_unmatched: bool,
}

/// A classifier.
#[derive(Clone, Debug)]
pub struct Classify {
    form: Form,
    drop_unmatched: bool,
    ports: u16,
    classes: Vec<Option<u32>>,
}

state::state!(Classify { values: [classes], arrays: [], parts: [], built: [form, drop_unmatched, ports] });

#[derive(Clone, Debug)]
enum Form {
    Linear(Linear),
    TupleSpace(TupleSpace),
}

/// A classifier's tables as words of 4 bytes, as kernels of GPUs read them: entries have the sizes and places that the
/// references tell.
#[derive(Clone, Debug)]
pub enum ClassifyTables {
    /// Rules of 8 words: source and mask, destination and mask; then pairs of halves, the first one in the lower: source
    /// ports, destination ports, flags and mask, protocol and mask (bytes).
    Linear {
        /// The rules.
        rules: Vec<u32>,
    },
    /// A tuple space.
    TupleSpace {
        /// 8 words each: masks of source, destination, ports (halves) and protocol; the number of its first rule, its first
        /// bucket, how many buckets it has less 1, 0.
        tuples: Vec<u32>,
        /// The first entry of each, or all ones.
        buckets: Vec<u32>,
        /// 16 words each: the rule, its number, the next entry, and 0 in the rest.
        entries: Vec<u32>,
    },
}

impl Classify {
    /// A classifier by `rules`, the first of which goes first, on a machine of `ports` ports.
    ///
    /// # Errors
    /// More rules than 4,194,304.
    pub fn new(rules: &[Rule], spec: &ClassifySpec, ports: u16) -> Result<Classify, FunctionError> {
        if rules.len() > MOST {
            return Err(FunctionError::Spec {
                path: "classify.rules",
                came: rules.len().to_string(),
                allowed: format!("up to {MOST} rules"),
                remedy: "take fewer",
            });
        }
        let form = match spec.search {
            RuleSearch::Linear => Form::Linear(Linear::new(rules)),
            RuleSearch::TupleSpace => Form::TupleSpace(TupleSpace::new(rules)),
        };
        Ok(Classify { form, drop_unmatched: spec.drop_unmatched, ports, classes: Vec::new() })
    }

    /// The first rule that matches `fields`.
    pub fn class(&self, fields: &RuleFields) -> Option<u32> {
        let mut null = probe::Null;
        self.search(fields, &mut Tape::new(&mut null))
    }

    /// The classes of the packets of the latest burst, in its order; [`None`] where no rule matches or the packet has no
    /// fields to match.
    pub fn classes(&self) -> &[Option<u32>] {
        &self.classes
    }

    /// Its tables, in the form that kernels of GPUs read.
    pub fn tables(&self) -> ClassifyTables {
        match &self.form {
            Form::Linear(rules) => ClassifyTables::Linear { rules: rules.words() },
            Form::TupleSpace(space) => {
                let [tuples, buckets, entries] = space.words();
                ClassifyTables::TupleSpace { tuples, buckets, entries }
            }
        }
    }

    /// Hash tables of the tuple space; none of a linear search.
    pub fn tuples(&self) -> usize {
        match &self.form {
            Form::Linear(_) => 0,
            Form::TupleSpace(space) => space.tuples(),
        }
    }

    #[inline(always)]
    fn search<P: Probe>(&self, fields: &RuleFields, tape: &mut Tape<'_, P>) -> Option<u32> {
        match &self.form {
            Form::Linear(rules) => rules.search(fields, tape),
            Form::TupleSpace(space) => space.search(fields, tape),
        }
    }

    #[inline(always)]
    fn one<P: Probe>(&self, packet: &Packet, tape: &mut Tape<'_, P>) -> Result<Option<u32>, DropReason> {
        let data = data_address(tape, site::BUF_ADDR, site::DATA_OFF);
        tape.touch(Ref::load(RegionId::MBUF, mbuf::RX_FIELDS, 4, site::PACKET_TYPE));
        let at = usize::from(packet.l3_offset);
        let fail = |reason, tape: &mut Tape<'_, P>| {
            tape.work(site::FIELDS, cost::NOT_IP);
            Err(reason)
        };
        match packet.l3 {
            L3::V4 => {}
            L3::V6 => {
                tape.work(site::FIELDS, cost::NOT_IP);
                return Ok(None);
            }
            L3::Other => return fail(DropReason::NotIp, tape),
        }
        let Some(header) = packet.data.get(at..).and_then(|rest| rest.first_chunk::<20>()) else {
            return fail(DropReason::Truncated, tape);
        };
        tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64, 16, site::HEADER));
        tape.touch_after(data, Ref::load(RegionId::PACKET, at as u64 + 16, 4, site::DESTINATION));
        if header[0] & 15 < 5 {
            return fail(DropReason::BadHeaderLength, tape);
        }
        let l4 = at + usize::from(header[0] & 15) * 4;
        let proto = header[9];
        let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
        let word = |i: usize| u32::from_be_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let mut fields = RuleFields { src: word(12), dst: word(16), proto, ..RuleFields::default() };
        if first && (proto == PROTO_TCP || proto == PROTO_UDP) {
            let Some(&[a, b, c, d]) = packet.data.get(l4..).and_then(|rest| rest.first_chunk::<4>()) else {
                return fail(DropReason::Truncated, tape);
            };
            tape.touch_after(data, Ref::load(RegionId::PACKET, l4 as u64, 4, site::PORTS));
            (fields.src_port, fields.dst_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            if proto == PROTO_TCP
                && let Some(&flags) = packet.data.get(l4 + 13)
            {
                tape.touch_after(data, Ref::load(RegionId::PACKET, l4 as u64 + 13, 1, site::FLAGS));
                fields.flags = u16::from(flags) << 8;
            }
        }
        tape.work(site::FIELDS, cost::FIELDS);
        let class = self.search(&fields, tape);
        tape.touch(Ref::store(RegionId::MBUF, MBUF_CLASS, 4, site::CLASS));
        tape.work(site::DONE, cost::DONE);
        Ok(class)
    }

    #[inline(always)]
    fn verdict(&self, port: PortId, class: Option<u32>) -> Verdict {
        if class.is_none() && self.drop_unmatched {
            return Verdict::Drop(DropReason::Unclassified);
        }
        Verdict::Forward { port: across(port, self.ports) }
    }
}

impl PacketFunction for Classify {
    fn name(&self) -> &'static str {
        "classify"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        match &self.form {
            Form::Linear(rules) => rules.regions(),
            Form::TupleSpace(space) => space.regions(),
        }
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        self.classes.clear();
        for packet in burst {
            tape.begin(packet.id);
            let class = self.one(packet, &mut tape);
            out.push(match class {
                Ok(class) => self.verdict(packet.port, class),
                Err(reason) => Verdict::Drop(reason),
            });
            self.classes.push(class.unwrap_or(None));
            tape.end(packet.id);
            tape.latch(site::LATCH);
        }
    }
}
