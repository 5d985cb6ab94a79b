//! Poptrie: a trie of 64-way nodes whose children and leaves are found by counting bits.
//!
//! **Computes** the longest-prefix match of an address. A table has an entry for each value of the first 18 bits: a next
//! hop, or a node. A node takes 6 bits more: of its 64 places some are nodes again (a bit each in `vector`), the others
//! leaves, of which equal neighbours share one (`leafvec` has a bit where a run begins). Nodes below one node lie next
//! to each other, and so do its leaves, so that a count of the bits up to a place gives the index.
//!
//! **References per lookup**: IPv4 best 1 (the table), worst 5 (3 nodes and a leaf more); IPv6 best 1, worst 21 (19 nodes
//! and a leaf more), each depending on the one before.
//!
//! **Regions**: the table (4 bytes an entry, 1 MiB), nodes (24 bytes), leaves (2 bytes).
//!
//! Routes are kept in an ordered map beside the trie (the RIB). An update rewrites the nodes on the way to its prefix,
//! and builds again what lies below it; nodes beside the way stay as they are. Blocks of nodes and leaves have sizes
//! that are powers of two, and those given back are used again.
//!
//! Left out: concurrent readers during an update (the authors replace a node by an atomic write); next hops above
//! 65,534; the authors' own trie of routes, in place of which the map is asked.
//!
//! **Source**: H. Asai, Y. Ohara, "Poptrie: A Compressed Trie with Population Count for Fast and Scalable Software IP
//! Routing Table Lookup", ACM SIGCOMM 2015, sections 3.1 to 3.5 (with leaf compression and direct pointing, k = 6,
//! s = 18).
//!
//! **See also** `dir24`.

use std::collections::BTreeMap;

use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};

use super::NextHop;
use super::dir24::IpAddress;
use crate::FunctionError;
use crate::tape::{Tape, TapeMark};

/// Bits that the table takes.
const DIRECT_BITS: u8 = 18;
/// Bits that a node takes.
const NODE_BITS: u8 = 6;
const PLACES: usize = 1 << NODE_BITS;
/// In an entry of the table: the rest is a next hop, not a node.
const IS_LEAF: u32 = 1 << 31;
const DIRECT_BYTES: u64 = 4;
const NODE_BYTES: u64 = size_of::<PoptrieNode>() as u64;
const LEAF_BYTES: u64 = 2;

/// Instructions of each part as compiled for x86-64 without a population count; see `tests/instructions.rs`.
mod cost {
    pub(super) const DIRECT: u32 = 8;
    pub(super) const NODE: u32 = 39;
    /// More for addresses that take two registers.
    pub(super) const WIDE: u32 = 3;
    pub(super) const LEAF: u32 = 15;
}

/// A longest-prefix-match table over addresses `A`, `u32` or `u128`.
#[derive(Clone, Debug)]
pub struct Poptrie<A> {
    direct: Vec<u32>,
    nodes: Blocks<PoptrieNode>,
    leaves: Blocks<u16>,
    rib: BTreeMap<(A, u8), u16>,
}

/// A node as it lies in memory: 24 bytes, none of them padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PoptrieNode {
    /// A bit for each place that is a node.
    vector: u64,
    /// A bit for each place where a run of equal leaves begins.
    leafvec: u64,
    /// The first of its leaves, and the first of its nodes.
    leaves: u32,
    children: u32,
}

/// A place of a node that is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodePlace {
    Leaf(u16),
    Node(PoptrieNode),
}

/// Memory in blocks of powers of two up to 64 items.
#[derive(Clone, Debug)]
struct Blocks<T> {
    items: Vec<T>,
    free: [Vec<u32>; 7],
}

impl<T: Copy + Default> Blocks<T> {
    fn new() -> Blocks<T> {
        Blocks { items: Vec::new(), free: Default::default() }
    }

    /// Puts `items`, at most 64, into a block, and returns where it begins; 0 if there are none.
    fn put(&mut self, items: &[T]) -> u32 {
        if items.is_empty() {
            return 0;
        }
        let class = items.len().next_power_of_two().trailing_zeros() as usize;
        let at = self.free[class].pop().unwrap_or_else(|| {
            let at = self.items.len();
            self.items.resize(at + (1 << class), T::default());
            at as u32
        });
        self.items[at as usize..][..items.len()].copy_from_slice(items);
        at
    }

    /// Takes back a block of `n` items.
    fn take_back(&mut self, at: u32, n: u32) {
        if n > 0 {
            self.free[n.next_power_of_two().trailing_zeros() as usize].push(at);
        }
    }

    /// Items in use, those that fill blocks up included.
    fn used(&self) -> usize {
        self.items.len() - self.free.iter().enumerate().map(|(class, free)| free.len() << class).sum::<usize>()
    }
}

/// A route with what its entry holds: the next hop's number plus 1.
type PoptrieRoute<A> = (A, u8, u16);

impl<A: IpAddress> Poptrie<A> {
    /// A table of `routes`, each an address, a prefix length and a next hop. Bits after the length are ignored, a length
    /// above the address's bits means all of them, and of equal prefixes the last counts.
    ///
    /// # Errors
    /// A next hop above 65,534.
    pub fn new(routes: impl IntoIterator<Item = (A, u8, NextHop)>) -> Result<Poptrie<A>, FunctionError> {
        let checked = routes.into_iter().map(|(addr, len, next_hop)| {
            let len = len.min(A::BITS);
            payload(next_hop).map(|payload| ((addr.network(len), len), payload))
        });
        let rib: BTreeMap<(A, u8), u16> = checked.collect::<Result<Vec<_>, _>>()?.into_iter().collect();
        let mut trie = Poptrie {
            direct: vec![IS_LEAF; 1 << DIRECT_BITS],
            nodes: Blocks::new(),
            leaves: Blocks::new(),
            rib: BTreeMap::new(),
        };
        let routes: Vec<PoptrieRoute<A>> = rib.iter().map(|(&(addr, len), &payload)| (addr, len, payload)).collect();
        for &(addr, len, payload) in routes.iter().filter(|route| route.1 <= DIRECT_BITS) {
            trie.direct[slots(addr, len)].fill(IS_LEAF | u32::from(payload));
        }
        for group in routes.chunk_by(|a, b| a.0.bits(0, DIRECT_BITS) == b.0.bits(0, DIRECT_BITS)) {
            let long = &group[group.partition_point(|route| route.1 <= DIRECT_BITS)..];
            if let Some(first) = long.first() {
                let slot = first.0.bits(0, DIRECT_BITS);
                let node = trie.build(long, DIRECT_BITS, trie.direct[slot] as u16);
                trie.direct[slot] = trie.nodes.put(&[node]);
            }
        }
        trie.rib = rib;
        Ok(trie)
    }

    /// Adds or replaces the route to `addr`/`len`, and returns the next hop it replaced.
    ///
    /// # Errors
    /// A next hop above 65,534; the table is then unchanged.
    pub fn add(&mut self, addr: A, len: u8, next_hop: NextHop) -> Result<Option<NextHop>, FunctionError> {
        let len = len.min(A::BITS);
        let addr = addr.network(len);
        let replaced = self.rib.insert((addr, len), payload(next_hop)?);
        self.refresh(addr, len);
        Ok(replaced.and_then(|payload| NextHop::from_payload(payload.into())))
    }

    /// Removes the route to `addr`/`len`, gives its addresses to the longest shorter prefix that covers it, and returns
    /// its next hop; [`None`] if there was no such route.
    pub fn remove(&mut self, addr: A, len: u8) -> Option<NextHop> {
        let len = len.min(A::BITS);
        let addr = addr.network(len);
        let removed = self.rib.remove(&(addr, len))?;
        self.refresh(addr, len);
        NextHop::from_payload(removed.into())
    }

    /// The table of the first 18 bits, the nodes and the leaves, as they lie in memory.
    pub fn tables(&self) -> (&[u32], &[PoptrieNode], &[u16]) {
        (&self.direct, &self.nodes.items, &self.leaves.items)
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.rib.is_empty()
    }

    /// The routes, ordered by address, then length.
    pub fn routes(&self) -> impl Iterator<Item = (A, u8, NextHop)> + '_ {
        self.rib.iter().filter_map(|(&(addr, len), &p)| Some((addr, len, NextHop::from_payload(p.into())?)))
    }

    /// Bytes of the table, of nodes and of leaves in use, with what fills their blocks up.
    pub fn bytes(&self) -> [u64; 3] {
        [
            self.direct.len() as u64 * DIRECT_BYTES,
            self.nodes.used() as u64 * NODE_BYTES,
            self.leaves.used() as u64 * LEAF_BYTES,
        ]
    }

    /// The next hop of the longest prefix that contains `addr`.
    #[inline]
    pub fn lookup(&self, addr: A) -> Option<NextHop> {
        let mut null = probe::Null;
        self.walk(addr, TapeMark::default(), &mut Tape::new(&mut null), RegionId::FIRST_TABLE, 0)
    }

    /// The regions of the table, its nodes and its leaves, numbered from `first` on; `names` in that order.
    pub(crate) fn regions(&self, first: RegionId, names: [&str; 3]) -> Vec<RegionSpec> {
        let items = [self.direct.len(), self.nodes.items.len(), self.leaves.items.len()];
        let each = [DIRECT_BYTES, NODE_BYTES, LEAF_BYTES];
        (0..3)
            .map(|i| RegionSpec {
                id: RegionId(first.0 + i as u16),
                name: names[i].into(),
                bytes: (items[i] as u64 * each[i]).max(each[i]),
                sharing: Sharing::Shared,
            })
            .collect()
    }

    /// A lookup of the address that came from `from`, with its references: regions from `first` on, sites `site` to
    /// `site` + 4.
    #[inline(always)]
    pub(crate) fn walk<P: Probe>(
        &self,
        addr: A,
        from: TapeMark,
        tape: &mut Tape<'_, P>,
        first: RegionId,
        site: u16,
    ) -> Option<NextHop> {
        let table = |i: u16| RegionId(first.0 + i);
        let slot = addr.bits(0, DIRECT_BITS);
        let mut mark = tape.touch_after(from, Ref::load(first, slot as u64 * DIRECT_BYTES, DIRECT_BYTES as u16, site));
        tape.work(site, cost::DIRECT);
        let entry = self.direct[slot];
        if entry & IS_LEAF != 0 {
            return NextHop::from_payload(entry & !IS_LEAF);
        }
        let (mut at, mut depth) = (entry, DIRECT_BITS);
        loop {
            let node = &self.nodes.items[at as usize];
            let load = Ref::load(table(1), u64::from(at) * NODE_BYTES, NODE_BYTES as u16, site + 1);
            mark = tape.touch_after(mark, load);
            // Up to and with the place itself.
            let (place, upto) = {
                let place = addr.bits(depth, NODE_BITS);
                (1u64 << place, (2u64 << place).wrapping_sub(1))
            };
            tape.work(site + 2, if A::BITS > 64 { cost::NODE + cost::WIDE } else { cost::NODE });
            tape.latch(site + 2);
            if node.vector & place == 0 {
                let leaf = node.leaves + (node.leafvec & upto).count_ones() - 1;
                tape.touch_after(mark, Ref::load(table(2), u64::from(leaf) * LEAF_BYTES, LEAF_BYTES as u16, site + 3));
                tape.work(site + 3, cost::LEAF);
                return NextHop::from_payload(self.leaves.items[leaf as usize].into());
            }
            at = node.children + (node.vector & upto).count_ones() - 1;
            depth += NODE_BITS;
        }
    }

    /// Writes again what the route to `addr`/`len`, which has changed, is seen by.
    fn refresh(&mut self, addr: A, len: u8) {
        for slot in slots(addr, len) {
            let network = addr.network(DIRECT_BITS.min(len)).with_bits(0, DIRECT_BITS, slot);
            let entry = self.direct[slot];
            let is_node = entry & IS_LEAF == 0;
            if len > DIRECT_BITS && is_node && self.has_longer(network, DIRECT_BITS) {
                self.nodes.items[entry as usize] =
                    self.updated(self.nodes.items[entry as usize], DIRECT_BITS, network, addr, len);
                continue;
            }
            if is_node {
                self.give_up(self.nodes.items[entry as usize]);
                self.nodes.take_back(entry, 1);
            }
            self.direct[slot] = match self.made(network, DIRECT_BITS) {
                NodePlace::Leaf(payload) => IS_LEAF | u32::from(payload),
                NodePlace::Node(node) => self.nodes.put(&[node]),
            };
        }
    }

    /// `node`, which is `depth` bits deep at `network`, after the route to `addr`/`len` below it has changed.
    fn updated(&mut self, node: PoptrieNode, depth: u8, network: A, addr: A, len: u8) -> PoptrieNode {
        let mut places = self.places(&node);
        self.leaves.take_back(node.leaves, node.leafvec.count_ones());
        self.nodes.take_back(node.children, node.vector.count_ones());
        let below = depth + NODE_BITS;
        for i in run(addr, len, depth) {
            let under = network.with_bits(depth, NODE_BITS, i);
            places[i] = match places[i] {
                NodePlace::Node(child) if len > below && self.has_longer(under, below) => {
                    NodePlace::Node(self.updated(child, below, under, addr, len))
                }
                old => {
                    if let NodePlace::Node(child) = old {
                        self.give_up(child);
                    }
                    self.made(under, below)
                }
            };
        }
        self.put(&places)
    }

    /// What is at `network`, `depth` bits deep, by the routes alone.
    fn made(&mut self, network: A, depth: u8) -> NodePlace {
        let default = (0..=depth.min(A::BITS)).rev().find_map(|len| self.rib.get(&(network.network(len), len)));
        let default = default.copied().unwrap_or(0);
        if depth >= A::BITS {
            return NodePlace::Leaf(default);
        }
        let below = self.rib.range((network, depth + 1)..=(network.last(depth), A::BITS));
        let routes: Vec<PoptrieRoute<A>> = below.map(|(&(addr, len), &payload)| (addr, len, payload)).collect();
        if routes.is_empty() { NodePlace::Leaf(default) } else { NodePlace::Node(self.build(&routes, depth, default)) }
    }

    fn has_longer(&self, network: A, depth: u8) -> bool {
        depth < A::BITS && self.rib.range((network, depth + 1)..=(network.last(depth), A::BITS)).next().is_some()
    }

    /// A node `depth` bits deep of all `routes` below it, which are ordered by address, then length, and longer than
    /// `depth`; `default` covers the rest.
    fn build(&mut self, routes: &[PoptrieRoute<A>], depth: u8, default: u16) -> PoptrieNode {
        let mut places = [NodePlace::Leaf(default); PLACES];
        let below = depth + NODE_BITS;
        for &(addr, len, payload) in routes.iter().filter(|route| route.1 <= below) {
            places[run(addr, len, depth)].fill(NodePlace::Leaf(payload));
        }
        for group in routes.chunk_by(|a, b| a.0.bits(depth, NODE_BITS) == b.0.bits(depth, NODE_BITS)) {
            // Those that end here begin where their group does, and so come first in it.
            let long = &group[group.partition_point(|route| route.1 <= below)..];
            if let Some(first) = long.first() {
                let i = first.0.bits(depth, NODE_BITS);
                let covered = match places[i] {
                    NodePlace::Leaf(payload) => payload,
                    NodePlace::Node(_) => default,
                };
                places[i] = NodePlace::Node(self.build(long, below, covered));
            }
        }
        self.put(&places)
    }

    fn put(&mut self, places: &[NodePlace; PLACES]) -> PoptrieNode {
        let (mut node, mut leaves, mut children) = (PoptrieNode::default(), Vec::new(), Vec::new());
        for (i, place) in places.iter().enumerate() {
            match *place {
                NodePlace::Node(child) => {
                    node.vector |= 1 << i;
                    children.push(child);
                }
                NodePlace::Leaf(payload) => {
                    if leaves.last() != Some(&payload) {
                        node.leafvec |= 1 << i;
                        leaves.push(payload);
                    }
                }
            }
        }
        PoptrieNode { leaves: self.leaves.put(&leaves), children: self.nodes.put(&children), ..node }
    }

    fn places(&self, node: &PoptrieNode) -> [NodePlace; PLACES] {
        let mut places = [NodePlace::Leaf(0); PLACES];
        let (mut leaf, mut child) = (node.leaves, node.children);
        for (i, place) in places.iter_mut().enumerate() {
            if node.vector >> i & 1 == 1 {
                *place = NodePlace::Node(self.nodes.items[child as usize]);
                child += 1;
            } else {
                leaf += (node.leafvec >> i & 1) as u32;
                *place = NodePlace::Leaf(self.leaves.items[leaf as usize - 1]);
            }
        }
        places
    }

    /// Takes back all blocks below `node`.
    fn give_up(&mut self, node: PoptrieNode) {
        let n = node.vector.count_ones();
        for i in 0..n {
            self.give_up(self.nodes.items[(node.children + i) as usize]);
        }
        self.nodes.take_back(node.children, n);
        self.leaves.take_back(node.leaves, node.leafvec.count_ones());
    }
}

/// Entries of the table that `addr`/`len` covers, one if it is longer.
fn slots<A: IpAddress>(addr: A, len: u8) -> std::ops::Range<usize> {
    let first = addr.bits(0, DIRECT_BITS);
    first..first + (1 << DIRECT_BITS.saturating_sub(len))
}

/// Places of a node `depth` bits deep that `addr`/`len` covers, one if it is longer.
fn run<A: IpAddress>(addr: A, len: u8, depth: u8) -> std::ops::Range<usize> {
    let first = addr.bits(depth, NODE_BITS);
    first..first + (1 << (depth + NODE_BITS).saturating_sub(len))
}

/// What an entry holds of a next hop.
fn payload(next_hop: NextHop) -> Result<u16, FunctionError> {
    u16::try_from(next_hop.payload()).map_err(|_| FunctionError::Spec {
        path: "lookup.routes",
        came: format!("next hop {}", next_hop.id()),
        allowed: "0 to 65534 in a poptrie".into(),
        remedy: "number the next hops more densely, or take another structure",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::Naive;
    use packet::Prefix;
    use proptest::prelude::*;

    fn v6(near: bool) -> BoxedStrategy<(u128, u8)> {
        // Networks that share their first bits, so that they nest.
        let near = if near { 0x2001_0db8_u128 << 96 } else { 0 };
        (0u128..4, 0u128..4, 0u128..4, 0u8..=128)
            .prop_map(move |(a, b, c, len)| (near | a << 78 | b << 40 | c, len))
            .boxed()
    }

    proptest! {
        /// Building, adding and removing, on nested prefixes of all lengths, whatever the order.
        #[test]
        fn poptrie_v6_matches_naive(
            built in prop::collection::vec((v6(true), 0u16..5), 0..40),
            steps in prop::collection::vec((v6(true), 0u16..5, any::<bool>()), 0..60),
            more in prop::collection::vec(v6(false), 1..20),
        ) {
            let hop = |id: u16| NextHop::from(id);
            let mut naive = Naive::new();
            let routes: Vec<_> = built.iter().map(|&((addr, len), id)| (addr, len, hop(id))).collect();
            for &(addr, len, next_hop) in &routes {
                naive.insert(Prefix::v6(addr, len).unwrap(), next_hop);
            }
            let mut trie = Poptrie::<u128>::new(routes).unwrap();
            for &((addr, len), id, add) in &steps {
                let prefix = Prefix::v6(addr, len).unwrap();
                if add {
                    prop_assert_eq!(trie.add(addr, len, hop(id)).unwrap(), naive.insert(prefix, hop(id)));
                } else {
                    prop_assert_eq!(trie.remove(addr, len), naive.remove(prefix));
                }
            }
            prop_assert_eq!(trie.len(), naive.len());
            let touched = built.iter().map(|b| b.0).chain(steps.iter().map(|s| s.0)).chain(more);
            for (addr, len) in touched {
                let last = addr | u128::MAX.checked_shr(len.into()).unwrap_or(0);
                for key in [addr, last, addr.wrapping_sub(1), last.wrapping_add(1)] {
                    prop_assert_eq!(trie.lookup(key), naive.lookup(std::net::IpAddr::V6(key.into())), "{:x}", key);
                }
            }
            // What updates lead to takes the memory that building takes.
            prop_assert_eq!(Poptrie::<u128>::new(trie.routes()).unwrap().bytes(), trie.bytes());
        }

        #[test]
        fn poptrie_v4_matches_naive(
            // A short prefix is in many entries of the directory, and takes as long as all others together.
            steps in prop::collection::vec(
                (0u32..16, 0u32..8, prop_oneof![1 => 0u8..14, 12 => 14u8..=32], 0u16..5, any::<bool>()),
                0..80,
            ),
        ) {
            let (mut trie, mut naive) = (Poptrie::<u32>::new([]).unwrap(), Naive::new());
            for (a, b, len, id, add) in steps {
                let addr = a << 12 | b << 5 | b;
                let prefix = Prefix::v4(addr, len).unwrap();
                if add {
                    prop_assert_eq!(trie.add(addr, len, id.into()).unwrap(), naive.insert(prefix, id.into()));
                } else {
                    prop_assert_eq!(trie.remove(addr, len), naive.remove(prefix));
                }
                // Where the step may have gone wrong, and all over.
                let last = addr | u32::MAX.checked_shr(len.into()).unwrap_or(0);
                let edges = [addr, last, addr.wrapping_sub(1), last.wrapping_add(1)];
                for key in edges.into_iter().chain((0..1 << 16).step_by(1021)) {
                    prop_assert_eq!(trie.lookup(key), naive.lookup(std::net::IpAddr::V4(key.into())), "{:x}", key);
                }
            }
            for key in (0..1 << 16).step_by(97) {
                prop_assert_eq!(trie.lookup(key), naive.lookup(std::net::IpAddr::V4(key.into())), "{:x}", key);
            }
            prop_assert_eq!(Poptrie::<u32>::new(trie.routes()).unwrap().bytes(), trie.bytes());
        }
    }

    #[test]
    fn an_empty_table_is_its_directory() {
        let trie = Poptrie::<u32>::new([]).unwrap();
        assert!(trie.is_empty() && trie.lookup(7).is_none());
        assert_eq!(trie.bytes(), [1 << 20, 0, 0]);
    }

    #[test]
    fn next_hops_that_entries_cannot_hold_are_refused_with_what_is_allowed() {
        let error = Poptrie::<u32>::new([(0, 0, NextHop::new(65_535).unwrap())]).unwrap_err();
        assert!(error.to_string().contains("next hop 65535: allowed is 0 to 65534"), "{error}");
    }
}
