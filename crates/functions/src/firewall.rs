//! Packet filter: ordered templates, of which the first that matches decides.
//!
//! **Computes** whether a packet may pass, by its IPv4 addresses, protocol and ports. Two forms of the same list: as
//! a linked list that is walked ([`FirewallForm::List`]), and compiled to a bit vector for each interval of each
//! field ([`FirewallForm::Compiled`]), the first common bit of which is the template.
//!
//! **References per packet**: 6 to check the header (see `check`), 1 load of ports, 2 for time to live. The list: 1
//! load of a template each up to the one that matches, every one behind the other. Compiled: a binary search in each
//! of 5 fields (up to log2 of its intervals loads of 8 bytes) and 5 loads of 8 bytes of bit vector for each 64
//! templates up to the one that matches. Best 6 (dropped by the check).
//!
//! **Regions**: templates (32 bytes each), or bounds (8 bytes an interval) and vectors (an interval times a bit for
//! each template, in words of 8 bytes), shared by the cores; the packet and its mbuf.
//!
//! Left out: state (see `nat`), IPv6 (passes by the default), options, fragments after the first (ports count as 0).
//!
//! **Source**: Hasan, Chandra, Vijaykumar, ISCA 2003, section 5.2 (templates in SRAM as a linked list); Lakshman and
//! Stiliadis, "High-speed policy-based packet forwarding using efficient multi-dimensional range matching", SIGCOMM
//! 1998 (bit vectors); Taylor and Turner, "ClassBench", INFOCOM 2005 (text form of filters).
//!
//! **See also** `nat`, `forward`.

use packet::{L3, PROTO_TCP, PROTO_UDP, Packet, Rule};
use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PortId, Ps};

use crate::check::{self, Checked};
use crate::forward::ChecksumCheck;
use crate::tape::Tape;
use crate::ttl;
use crate::{DropReason, FunctionError, PacketFunction, Verdict};

const TEMPLATES: RegionId = RegionId(RegionId::FIRST_TABLE.0);
const BOUNDS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 1);
const VECTORS: RegionId = RegionId(RegionId::FIRST_TABLE.0 + 2);
const TEMPLATE_BYTES: u64 = size_of::<TemplateNode>() as u64;
const FIELDS: usize = 5;
/// The largest value of each field.
const MOST_OF: [u32; FIELDS] = [u32::MAX, u32::MAX, 65535, 65535, 255];
/// Vectors of more templates take more memory than any cache has: 8,192 templates may take 80 MiB.
const MOST_COMPILED: usize = 8192;
const MOST: usize = 1 << 20;
const NONE: u32 = u32::MAX;

mod site {
    pub(super) const PORTS: u16 = 22;
    pub(super) const TEMPLATE: u16 = 23;
    pub(super) const TEMPLATE_LATCH: u16 = 24;
    pub(super) const SEARCH: u16 = 25;
    pub(super) const BOUND: u16 = 26;
    pub(super) const BOUND_LATCH: u16 = 27;
    pub(super) const SEARCH_LATCH: u16 = 28;
    pub(super) const VECTOR: u16 = 29;
    pub(super) const VECTOR_LATCH: u16 = 30;
    pub(super) const TTL_LOAD: u16 = 31;
    pub(super) const TTL_STORE: u16 = 32;
    pub(super) const DONE: u16 = 33;
    pub(super) const LATCH: u16 = 34;
}

/// Instructions of each part as compiled for x86-64; see `tests/instructions.rs`.
mod cost {
    pub(super) const FIELDS: u32 = 85;
    pub(super) const TEMPLATE: u32 = 13;
    pub(super) const SEARCH: u32 = 21;
    pub(super) const BOUND: u32 = 12;
    pub(super) const VECTOR: u32 = 59;
    pub(super) const DONE: u32 = 35;
}

/// How templates are looked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirewallForm {
    /// One behind the other.
    #[default]
    List,
    /// By bit vectors.
    Compiled,
}

/// How packets are filtered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FirewallSpec {
    /// How templates are looked through.
    pub form: FirewallForm,
    /// Whether packets that no template matches are dropped.
    pub deny_by_default: bool,
    /// Ports of the firewall: a packet leaves by the other one of a pair (0 and 1, 2 and 3).
    pub ports: u16,
}

/// What a template matches, each range with both ends, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// Source addresses.
    pub src: (u32, u32),
    /// Destination addresses.
    pub dst: (u32, u32),
    /// Source ports.
    pub src_port: (u16, u16),
    /// Destination ports.
    pub dst_port: (u16, u16),
    /// The protocol; any if none.
    pub proto: Option<u8>,
    /// Whether what matches passes.
    pub permit: bool,
}

impl Template {
    /// A template of ClassBench's text form, `@src/len dst/len low : high low : high proto/mask flags`, which
    /// permits unless it is said to deny.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str, permit: bool) -> Result<Template, FunctionError> {
        let error = |came: &str, allowed: &str| FunctionError::Spec {
            path: "firewall.templates",
            came: format!("{came:?}"),
            allowed: allowed.into(),
            remedy: "ClassBench: @192.0.2.0/24 198.51.100.0/24 0 : 65535 80 : 80 0x06/0xFF",
        };
        let body = text.trim().strip_prefix('@').ok_or_else(|| error(text.trim(), "a line that begins with @"))?;
        let words: Vec<&str> = body.split_whitespace().collect();
        let &[src, dst, s0, ":", s1, d0, ":", d1, proto, ..] = &words[..] else {
            return Err(error(text.trim(), "two prefixes, two port ranges, and a protocol with its mask"));
        };
        let prefix = |text: &str| -> Option<(u32, u32)> {
            let (addr, len) = text.split_once('/')?;
            let addr: std::net::Ipv4Addr = addr.parse().ok()?;
            let len: u32 = len.parse().ok().filter(|&len| len <= 32)?;
            let rest = u32::MAX.checked_shr(len).unwrap_or(0);
            Some((u32::from(addr) & !rest, u32::from(addr) | rest))
        };
        let range = |low: &str, high: &str| -> Option<(u16, u16)> {
            let (low, high) = (low.parse().ok()?, high.parse().ok()?);
            (low <= high).then_some((low, high))
        };
        let hex = |text: &str| u8::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
        let (value, mask) = proto.split_once('/').ok_or_else(|| error(proto, "a protocol with its mask"))?;
        let proto = match (hex(value), hex(mask)) {
            (Some(_), Some(0)) => None,
            (Some(value), Some(0xff)) => Some(value),
            _ => return Err(error(proto, "a protocol with mask 0x00 or 0xFF")),
        };
        Ok(Template {
            src: prefix(src).ok_or_else(|| error(src, "an IPv4 prefix"))?,
            dst: prefix(dst).ok_or_else(|| error(dst, "an IPv4 prefix"))?,
            src_port: range(s0, s1).ok_or_else(|| error(&format!("{s0} : {s1}"), "ports, the lower first"))?,
            dst_port: range(d0, d1).ok_or_else(|| error(&format!("{d0} : {d1}"), "ports, the lower first"))?,
            proto,
            permit,
        })
    }

    /// The template of a rule whose protocol is one or any. Flags are not looked at: a filter without state tells no more
    /// by them than who has begun.
    ///
    /// # Errors
    /// A rule that looks at some bits of the protocol only.
    pub fn from_rule(rule: &Rule, permit: bool) -> Result<Template, FunctionError> {
        let error = |came: String, allowed: &str| FunctionError::Spec {
            path: "firewall.rules",
            came,
            allowed: allowed.into(),
            remedy: "the classifier knows such rules: function.kind = \"classify\"",
        };
        let range = |(network, len): (u32, u8)| (network, network | u32::MAX.checked_shr(len.into()).unwrap_or(0));
        let proto = match rule.proto {
            (_, 0) => None,
            (value, 0xff) => Some(value),
            (value, mask) => {
                return Err(error(format!("{value:#04x}/{mask:#04x}"), "a protocol with mask 0x00 or 0xFF"));
            }
        };
        Ok(Template {
            src: range(rule.src),
            dst: range(rule.dst),
            src_port: rule.src_port,
            dst_port: rule.dst_port,
            proto,
            permit,
        })
    }

    /// Whether it matches.
    #[inline]
    pub fn matches(&self, fields: &[u32; FIELDS]) -> bool {
        self.ranges().iter().zip(fields).all(|(&(low, high), &field)| low <= field && field <= high)
    }

    fn ranges(&self) -> [(u32, u32); FIELDS] {
        let wide = |(low, high): (u16, u16)| (u32::from(low), u32::from(high));
        let proto = self.proto.map_or((0, 255), |proto| (u32::from(proto), u32::from(proto)));
        [self.src, self.dst, wide(self.src_port), wide(self.dst_port), proto]
    }
}

/// A template as it lies in memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct TemplateNode {
    src: (u32, u32),
    dst: (u32, u32),
    src_port: (u16, u16),
    dst_port: (u16, u16),
    next: u32,
    proto: u8,
    any_proto: bool,
    permit: bool,
}

impl TemplateNode {
    #[inline(always)]
    fn matches(&self, fields: &[u32; FIELDS]) -> bool {
        let &[src, dst, src_port, dst_port, proto] = fields;
        self.src.0 <= src
            && src <= self.src.1
            && self.dst.0 <= dst
            && dst <= self.dst.1
            && u32::from(self.src_port.0) <= src_port
            && src_port <= u32::from(self.src_port.1)
            && u32::from(self.dst_port.0) <= dst_port
            && dst_port <= u32::from(self.dst_port.1)
            && (self.any_proto || u32::from(self.proto) == proto)
    }
}

/// Intervals of a field: where each begins, and which templates cover it.
#[derive(Clone, Debug)]
struct FieldIntervals {
    starts: Vec<u32>,
    vectors: Vec<u64>,
    /// Where starts and vectors of this field begin in their regions, in bytes.
    starts_at: u64,
    vectors_at: u64,
}

#[derive(Clone, Debug)]
enum Form {
    List { nodes: Vec<TemplateNode>, head: u32 },
    Compiled { fields: Vec<FieldIntervals>, words: usize, permits: Vec<bool> },
}

/// A packet filter.
#[derive(Clone, Debug)]
pub struct Firewall {
    form: Form,
    deny_by_default: bool,
    ports: u16,
}

state::state!(Firewall { values: [], arrays: [], parts: [], built: [form, deny_by_default, ports] });

impl Firewall {
    /// A filter of `templates`, the first of which goes first.
    ///
    /// # Errors
    /// More templates than the form holds; a number of ports that is odd or 0.
    pub fn new(templates: &[Template], spec: &FirewallSpec) -> Result<Firewall, FunctionError> {
        let ports = if spec.ports == 0 { 2 } else { spec.ports };
        if !ports.is_multiple_of(2) {
            return Err(FunctionError::Spec {
                path: "firewall.ports",
                came: ports.to_string(),
                allowed: "an even number".into(),
                remedy: "packets leave by the other port of a pair",
            });
        }
        let most = if spec.form == FirewallForm::Compiled { MOST_COMPILED } else { MOST };
        if templates.len() > most {
            return Err(FunctionError::Spec {
                path: "firewall.templates",
                came: templates.len().to_string(),
                allowed: format!("up to {most} in this form"),
                remedy: "take the form `list`, or fewer templates",
            });
        }
        let form = match spec.form {
            FirewallForm::List => list(templates),
            FirewallForm::Compiled => compile(templates),
        };
        Ok(Firewall { form, deny_by_default: spec.deny_by_default, ports })
    }

    /// Whether a packet of these fields passes: source, destination, source port, destination port, protocol.
    pub fn permits(&self, fields: &[u32; FIELDS]) -> bool {
        let mut null = probe::Null;
        self.decide(fields, &mut Tape::new(&mut null))
    }

    #[inline(always)]
    fn decide<P: Probe>(&self, fields: &[u32; FIELDS], tape: &mut Tape<'_, P>) -> bool {
        match &self.form {
            Form::List { nodes, head } => {
                let (mut at, mut mark) = (*head, None);
                while let Some(node) = nodes.get(at as usize) {
                    let template =
                        Ref::load(TEMPLATES, u64::from(at) * TEMPLATE_BYTES, TEMPLATE_BYTES as u16, site::TEMPLATE);
                    // The next one's address is in this one.
                    mark = Some(match mark {
                        Some(mark) => tape.touch_after(mark, template),
                        None => tape.touch(template),
                    });
                    tape.work(site::TEMPLATE_LATCH, cost::TEMPLATE);
                    tape.latch(site::TEMPLATE_LATCH);
                    if node.matches(fields) {
                        return node.permit;
                    }
                    at = node.next;
                }
                !self.deny_by_default
            }
            Form::Compiled { fields: intervals, words, permits } => {
                let mut rows = [0usize; FIELDS];
                for ((row, field), &value) in rows.iter_mut().zip(intervals).zip(fields) {
                    *row = field.interval(value, tape) * words;
                    tape.latch(site::SEARCH_LATCH);
                }
                for word in 0..*words {
                    let mut common = u64::MAX;
                    for (field, row) in intervals.iter().zip(rows) {
                        common &= field.vectors[row + word];
                        let at = field.vectors_at + (row + word) as u64 * 8;
                        tape.touch(Ref::load(VECTORS, at, 8, site::VECTOR));
                    }
                    tape.work(site::VECTOR_LATCH, cost::VECTOR);
                    tape.latch(site::VECTOR_LATCH);
                    if common != 0 {
                        return permits[word * 64 + common.trailing_zeros() as usize];
                    }
                }
                !self.deny_by_default
            }
        }
    }

    #[inline(always)]
    fn one<P: Probe>(&self, packet: &mut Packet, tape: &mut Tape<'_, P>) -> Result<PortId, DropReason> {
        let checked = check::headers(packet, ChecksumCheck::Nic, tape)?;
        let port = PortId((packet.port.0 ^ 1) % self.ports);
        let at = usize::from(packet.l3_offset);
        let (Checked::V4(dst, from), L3::V4) = (checked, packet.l3) else {
            return if self.deny_by_default { Err(DropReason::Denied) } else { Ok(port) };
        };
        let header = packet.data.get(at..).and_then(|rest| rest.first_chunk::<20>()).ok_or(DropReason::Truncated)?;
        let l4 = at + usize::from(header[0] & 15) * 4;
        let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
        let has_ports = first && matches!(header[9], PROTO_TCP | PROTO_UDP);
        let ports = packet.data.get(l4..).and_then(|rest| rest.first_chunk::<4>()).filter(|_| has_ports);
        let [a, b, c, d] = *ports.unwrap_or(&[0; 4]);
        if has_ports {
            tape.touch_after(from, Ref::load(RegionId::PACKET, l4 as u64, 4, site::PORTS));
        }
        let src = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        let fields = [
            src,
            dst,
            u32::from(u16::from_be_bytes([a, b])),
            u32::from(u16::from_be_bytes([c, d])),
            u32::from(header[9]),
        ];
        tape.work(site::PORTS, cost::FIELDS);
        if !self.decide(&fields, tape) {
            return Err(DropReason::Denied);
        }
        let ttl =
            packet.data.get_mut(at + 8..).and_then(|rest| rest.first_chunk_mut::<4>()).ok_or(DropReason::Truncated)?;
        tape.touch(Ref::load(RegionId::PACKET, at as u64 + 8, 4, site::TTL_LOAD));
        *ttl = ttl::decrement(*ttl).ok_or(DropReason::TtlExpired)?;
        tape.touch(Ref::store(RegionId::PACKET, at as u64 + 8, 4, site::TTL_STORE));
        tape.work(site::DONE, cost::DONE);
        Ok(port)
    }
}

impl FieldIntervals {
    /// The interval that `value` lies in.
    #[inline(always)]
    fn interval<P: Probe>(&self, value: u32, tape: &mut Tape<'_, P>) -> usize {
        // The first interval begins at 0, so the answer is in [low, high).
        let (mut low, mut high) = (0, self.starts.len());
        tape.work(site::SEARCH, cost::SEARCH);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            tape.touch(Ref::load(BOUNDS, self.starts_at + middle as u64 * 8, 8, site::BOUND));
            tape.work(site::BOUND_LATCH, cost::BOUND);
            tape.latch(site::BOUND_LATCH);
            if self.starts[middle] <= value { low = middle } else { high = middle }
        }
        low
    }
}

fn list(templates: &[Template]) -> Form {
    let nodes = templates.iter().enumerate().map(|(i, t)| TemplateNode {
        src: t.src,
        dst: t.dst,
        src_port: t.src_port,
        dst_port: t.dst_port,
        next: if i + 1 < templates.len() { i as u32 + 1 } else { NONE },
        proto: t.proto.unwrap_or(0),
        any_proto: t.proto.is_none(),
        permit: t.permit,
    });
    Form::List { nodes: nodes.collect(), head: if templates.is_empty() { NONE } else { 0 } }
}

fn compile(templates: &[Template]) -> Form {
    let words = templates.len().div_ceil(64);
    let (mut starts_at, mut vectors_at) = (0, 0);
    let mut fields = Vec::with_capacity(FIELDS);
    for (number, most) in MOST_OF.into_iter().enumerate() {
        let mut starts = vec![0];
        for template in templates {
            let (low, high) = template.ranges()[number];
            starts.push(low);
            starts.extend((high < most).then(|| high + 1));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut vectors = vec![0u64; starts.len() * words];
        for (t, template) in templates.iter().enumerate() {
            let (low, high) = template.ranges()[number];
            let from = starts.partition_point(|&start| start < low);
            let to = starts.partition_point(|&start| start <= high);
            for interval in from..to {
                vectors[interval * words + t / 64] |= 1 << (t % 64);
            }
        }
        let (bounds, vector_bytes) = (starts.len() as u64 * 8, vectors.len() as u64 * 8);
        fields.push(FieldIntervals { starts, vectors, starts_at, vectors_at });
        starts_at += bounds;
        vectors_at += vector_bytes;
    }
    Form::Compiled { fields, words, permits: templates.iter().map(|template| template.permit).collect() }
}

impl PacketFunction for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }

    fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, bytes: u64| RegionSpec {
            id,
            name: name.into(),
            bytes: bytes.max(8),
            sharing: Sharing::Shared,
        };
        match &self.form {
            Form::List { nodes, .. } => {
                vec![region(TEMPLATES, "firewall_templates", nodes.len() as u64 * TEMPLATE_BYTES)]
            }
            Form::Compiled { fields, .. } => vec![
                region(BOUNDS, "firewall_bounds", fields.iter().map(|f| f.starts.len() as u64 * 8).sum()),
                region(VECTORS, "firewall_vectors", fields.iter().map(|f| f.vectors.len() as u64 * 8).sum()),
            ],
        }
    }

    fn process_burst<P: Probe>(&mut self, _: Ps, burst: &mut [Packet], probe: &mut P, out: &mut Vec<Verdict>) {
        let mut tape = Tape::new(probe);
        for packet in burst {
            tape.begin(packet.id);
            out.push(match self.one(packet, &mut tape) {
                Ok(port) => Verdict::Forward { port },
                Err(reason) => Verdict::Drop(reason),
            });
            tape.end(packet.id);
            tape.latch(site::LATCH);
        }
    }
}
