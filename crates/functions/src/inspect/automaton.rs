//! An Aho-Corasick automaton whose states take 16 bytes.

use std::collections::VecDeque;

use probe::{Probe, Ref, RegionId, RegionSpec, Sharing};

use super::{InspectTables, METHOD, Pattern, PatternMatch, Patterns, Text, cost, lower, site, size_word};
use crate::FunctionError;
use crate::tape::Tape;

const ROOT_TABLE: RegionId = METHOD;
const STATES: RegionId = RegionId(METHOD.0 + 1);
const WIDE: RegionId = RegionId(METHOD.0 + 2);
const OUTPUTS: RegionId = RegionId(METHOD.0 + 3);
const LISTS: RegionId = RegionId(METHOD.0 + 4);
const STATE_BYTES: u64 = size_of::<AutomatonState>() as u64;
const WIDE_BYTES: u64 = size_of::<WideState>() as u64;
const WIDE_READ: u16 = 40;
const OUTPUT_BYTES: u64 = size_of::<StateOutput>() as u64;
const LISTED_BYTES: u64 = size_of::<Listed>() as u64;
const ROOT: u32 = 0;
/// Children whose bytes a state holds itself.
const NARROW: usize = 4;
/// Of `info`: children in the first bits, a kind for those without and those with many; the rest is the output plus 1.
const KIND_BITS: u32 = 2;
const CHILDLESS: u32 = 0;
const FEW: u32 = 1;
const MANY: u32 = 2;

/// An Aho-Corasick automaton with states of 16 bytes.
#[derive(Clone, Debug)]
pub struct Automaton {
    patterns: Patterns,
    /// The state that each byte leads to from the root.
    root: Vec<u32>,
    states: Vec<AutomatonState>,
    wide: Vec<WideState>,
    outputs: Vec<StateOutput>,
    lists: Vec<Listed>,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct AutomatonState {
    /// Its first child: children lie next to each other, in the order of their bytes.
    first: u32,
    /// The state of the longest proper suffix.
    fail: u32,
    info: u32,
    /// The bytes of up to 4 children, the last one again in what is left; of more children the number of a [`WideState`].
    bytes: u32,
}

/// The children of a state that has many.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct WideState {
    /// A bit for each byte that leads to a child.
    bits: [u64; 4],
    /// How many bits there are in the words before each.
    before: [u8; 4],
}

/// The patterns that end in a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct StateOutput {
    /// The first one of its list, and how many.
    first: u32,
    count: u32,
    /// The output of the longest proper suffix that has one, plus 1; 0 for none.
    next: u32,
}

/// A pattern of an output, with what a comparison needs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Listed {
    pattern: u32,
    /// Where its bytes are, how many, and whether case counts.
    at: u32,
    bytes: u16,
    nocase: bool,
}

/// A node of the trie of all patterns. It has 16 bytes, since there is one for each byte of a large set.
#[derive(Clone, Copy, Debug, Default)]
struct TrieNode {
    /// Its first child, which has the lowest byte, and what is beside it under its own parent; 0 for none.
    child: u32,
    beside: u32,
    /// Of the patterns that end here the first place in their order, and how many.
    first: u32,
    count: u32,
}

/// All patterns as a trie: in the order of their bytes they make it from left to right.
struct Trie {
    nodes: Vec<TrieNode>,
    /// The byte that leads to each node.
    bytes: Vec<u8>,
    /// Numbers of patterns, in the order of their bytes in lower case, then of their numbers.
    order: Vec<u32>,
}

impl Trie {
    fn new(patterns: &Patterns) -> Trie {
        let mut order: Vec<u32> = (0..patterns.at.len() as u32).collect();
        let bytes = |number: u32| {
            let (at, bytes, _) = patterns.at[number as usize];
            patterns.text[at as usize..][..usize::from(bytes)].iter().map(|&byte| lower(byte))
        };
        order.sort_by(|&a, &b| bytes(a).cmp(bytes(b)));
        let (mut nodes, mut named) = (vec![TrieNode::default()], vec![0]);
        // The path to the latest pattern's node, without the root.
        let mut path: Vec<u32> = Vec::new();
        for (place, &number) in (0..).zip(&order) {
            let shared =
                path.iter().zip(bytes(number)).take_while(|&(&node, byte)| named[node as usize] == byte).count();
            // What is beside a new node comes before it: the last one on this level.
            let mut before = path.get(shared).copied();
            path.truncate(shared);
            for byte in bytes(number).skip(shared) {
                let node = nodes.len() as u32;
                let parent = path.last().copied().unwrap_or(ROOT);
                match before.take() {
                    Some(before) => nodes[before as usize].beside = node,
                    None => nodes[parent as usize].child = node,
                }
                nodes.push(TrieNode::default());
                named.push(byte);
                path.push(node);
            }
            let end = &mut nodes[path.last().copied().unwrap_or(ROOT) as usize];
            if end.count == 0 {
                end.first = place;
            }
            end.count += 1;
        }
        Trie { nodes, bytes: named, order }
    }

    /// The children of a node, by the bytes that lead to them.
    fn children(&self, node: TrieNode) -> impl Iterator<Item = (u8, u32)> {
        let some = |node: u32| Some(node).filter(|&node| node != ROOT);
        let next = move |&node: &u32| some(self.nodes[node as usize].beside);
        std::iter::successors(some(node.child), next).map(|node| (self.bytes[node as usize], node))
    }

    fn patterns(&self, node: TrieNode) -> &[u32] {
        &self.order[node.first as usize..][..node.count as usize]
    }
}

impl Automaton {
    /// An automaton of all `patterns`.
    ///
    /// # Errors
    /// Too many patterns or bytes of them, or one that is empty or longer than 65,535 bytes.
    pub fn new(patterns: &[Pattern]) -> Result<Automaton, FunctionError> {
        let patterns = Patterns::new(patterns)?;
        let trie = Trie::new(&patterns);
        Ok(Automaton::numbered(patterns, &trie))
    }

    /// Numbers the states of `trie` level by level, which puts children next to each other and suffixes before what they
    /// are suffixes of.
    fn numbered(patterns: Patterns, trie: &Trie) -> Automaton {
        let mut automaton = Automaton {
            patterns,
            root: vec![ROOT; 256],
            states: Vec::with_capacity(trie.nodes.len()),
            wide: Vec::new(),
            outputs: Vec::new(),
            lists: Vec::new(),
        };
        let mut queue = VecDeque::from([(ROOT, ROOT)]);
        let (mut next, mut children) = (1u32, Vec::with_capacity(256));
        while let Some((node, fail)) = queue.pop_front() {
            let state = automaton.states.len() as u32;
            let node = trie.nodes[node as usize];
            children.clear();
            children.extend(trie.children(node));
            let inherited = if state == ROOT { 0 } else { automaton.states[fail as usize].info >> KIND_BITS };
            let output = match node.count {
                0 => inherited,
                count => {
                    let first = automaton.lists.len() as u32;
                    automaton.lists.extend(trie.patterns(node).iter().map(|&pattern| {
                        let (at, bytes, nocase) = automaton.patterns.at[pattern as usize];
                        Listed { pattern, at, bytes, nocase }
                    }));
                    automaton.outputs.push(StateOutput { first, count, next: inherited });
                    automaton.outputs.len() as u32
                }
            };
            let (kind, bytes) = automaton.children(children.iter().map(|&(byte, _)| byte));
            automaton.states.push(AutomatonState { first: next, fail, info: output << KIND_BITS | kind, bytes });
            for &(byte, child) in &children {
                let suffix = if state == ROOT {
                    automaton.root[usize::from(byte)] = next;
                    ROOT
                } else {
                    automaton.step(fail, byte)
                };
                queue.push_back((child, suffix));
                next += 1;
            }
        }
        automaton
    }

    fn children(&mut self, keys: impl ExactSizeIterator<Item = u8>) -> (u32, u32) {
        match keys.len() {
            0 => (CHILDLESS, 0),
            1..=NARROW => {
                let mut bytes = [0; NARROW];
                let mut last = 0;
                let n = keys.len();
                for (i, key) in keys.enumerate() {
                    (bytes[i], last) = (key, key);
                }
                bytes[n..].fill(last);
                (FEW, u32::from_le_bytes(bytes))
            }
            _ => {
                let mut wide = WideState::default();
                for key in keys {
                    wide.bits[usize::from(key >> 6)] |= 1 << (key & 63);
                }
                for i in 1..4 {
                    wide.before[i] = wide.before[i - 1] + wide.bits[i - 1].count_ones() as u8;
                }
                self.wide.push(wide);
                (MANY, self.wide.len() as u32 - 1)
            }
        }
    }

    /// The child of `state` by `byte`.
    #[inline(always)]
    fn child<P: Probe>(&self, state: &AutomatonState, byte: u8, tape: &mut Tape<'_, P>) -> Option<u32> {
        match state.info & ((1 << KIND_BITS) - 1) {
            FEW => {
                tape.work(site::WIDE, cost::FEW);
                // The lowest byte of `same` that is 0 has its top bit set in `zero`, and none below it has.
                let same = state.bytes ^ (u32::from(byte) * 0x0101_0101);
                let zero = same.wrapping_sub(0x0101_0101) & !same & 0x8080_8080;
                (zero != 0).then(|| state.first + zero.trailing_zeros() / 8)
            }
            MANY => {
                let at = u64::from(state.bytes) * WIDE_BYTES;
                tape.touch(Ref::load(WIDE, at, WIDE_READ, site::WIDE));
                tape.work(site::WIDE, cost::WIDE);
                let wide = &self.wide[state.bytes as usize];
                let (word, bit) = (usize::from(byte >> 6), 1u64 << (byte & 63));
                let below = u32::from(wide.before[word]) + (wide.bits[word] & (bit - 1)).count_ones();
                (wide.bits[word] & bit != 0).then_some(state.first + below)
            }
            _ => None,
        }
    }

    /// The state after `byte`, while states are being made.
    fn step(&self, mut state: u32, byte: u8) -> u32 {
        let mut null = probe::Null;
        let mut tape = Tape::new(&mut null);
        loop {
            if state == ROOT {
                return self.root[usize::from(byte)];
            }
            if let Some(child) = self.child(&self.states[state as usize], byte, &mut tape) {
                return child;
            }
            state = self.states[state as usize].fail;
        }
    }

    #[inline(always)]
    pub(super) fn search<P: Probe>(
        &self,
        text: &Text<'_>,
        first_only: bool,
        tape: &mut Tape<'_, P>,
        mut tell: impl FnMut(PatternMatch),
    ) {
        let load = |state: u32, site| Ref::load(STATES, u64::from(state) * STATE_BYTES, STATE_BYTES as u16, site);
        let mut id = ROOT;
        let mut state = self.states[0];
        let mut mark = text.from;
        for (w, word) in text.bytes.chunks(8).enumerate() {
            let at = w * 8;
            tape.touch_after(
                text.from,
                Ref::load(RegionId::PACKET, (text.at + at) as u64, word.len() as u16, site::PAYLOAD),
            );
            for (i, &byte) in word.iter().enumerate() {
                let byte = lower(byte);
                let next = loop {
                    if id == ROOT {
                        let root = Ref::load(ROOT_TABLE, u64::from(byte) * 4, 4, site::ROOT);
                        mark = tape.touch(root);
                        break self.root[usize::from(byte)];
                    }
                    if let Some(child) = self.child(&state, byte, tape) {
                        break child;
                    }
                    id = state.fail;
                    if id != ROOT {
                        mark = tape.touch_after(mark, load(id, site::FAIL));
                        tape.work(site::FAIL, cost::DEEPER);
                        state = self.states[id as usize];
                    }
                    tape.work(site::FAIL_LATCH, cost::FAIL);
                    tape.latch(site::FAIL_LATCH);
                };
                id = next;
                if id != ROOT {
                    mark = tape.touch_after(mark, load(id, site::STATE));
                    tape.work(site::STATE, cost::STEP);
                    state = self.states[id as usize];
                    let output = state.info >> KIND_BITS;
                    if output != 0 && self.report(output, text, at + i + 1, first_only, tape, &mut tell) {
                        return;
                    }
                }
                tape.work(site::BYTE_LATCH, cost::BYTE);
                tape.latch(site::BYTE_LATCH);
            }
            tape.work(site::WORD_LATCH, cost::WORD);
            tape.latch(site::WORD_LATCH);
        }
    }

    /// Tells what ends before `end`; whether that was all that is wanted.
    #[inline(never)]
    fn report<P: Probe>(
        &self,
        mut output: u32,
        text: &Text<'_>,
        end: usize,
        first_only: bool,
        tape: &mut Tape<'_, P>,
        tell: &mut impl FnMut(PatternMatch),
    ) -> bool {
        while output != 0 {
            let at = u64::from(output - 1) * OUTPUT_BYTES;
            tape.touch(Ref::load(OUTPUTS, at, OUTPUT_BYTES as u16, site::OUTPUT));
            let StateOutput { first, count, next } = self.outputs[output as usize - 1];
            for i in first..first + count {
                let at = u64::from(i) * LISTED_BYTES;
                tape.touch(Ref::load(LISTS, at, LISTED_BYTES as u16, site::LISTED));
                let Listed { pattern, at, bytes, nocase } = self.lists[i as usize];
                let sites = (site::OUTPUT_PATTERN, site::OUTPUT_TEXT);
                // Its lower case is known to be there.
                let confirmed = nocase || self.patterns.same(at, usize::from(bytes), false, text, end, sites, tape);
                tape.work(site::LISTED_LATCH, cost::LISTED);
                tape.latch(site::LISTED_LATCH);
                if confirmed {
                    tell(PatternMatch { end: end as u32, pattern });
                    if first_only {
                        return true;
                    }
                }
            }
            tape.work(site::OUTPUT_LATCH, cost::OUTPUT);
            tape.latch(site::OUTPUT_LATCH);
            output = next;
        }
        false
    }

    /// How many states there are, and how many of them have more than 4 children.
    pub fn states(&self) -> (usize, usize) {
        (self.states.len(), self.wide.len())
    }

    pub(super) fn tables(&self) -> InspectTables {
        let wide = |wide: &WideState| {
            let mut words = [0; 16];
            for (i, bits) in wide.bits.iter().enumerate() {
                (words[2 * i], words[2 * i + 1]) = (*bits as u32, (bits >> 32) as u32);
            }
            words[8] = u32::from_le_bytes(wide.before);
            words
        };
        InspectTables::Automaton {
            text: self.patterns.words(),
            root: self.root.clone(),
            states: self.states.iter().flat_map(|s| [s.first, s.fail, s.info, s.bytes]).collect(),
            wide: self.wide.iter().flat_map(wide).collect(),
            outputs: self.outputs.iter().flat_map(|o| [o.first, o.count, o.next]).collect(),
            lists: self.lists.iter().flat_map(|l| [l.pattern, l.at, size_word(l.bytes, l.nocase)]).collect(),
        }
    }

    pub(super) fn regions(&self) -> Vec<RegionSpec> {
        let region = |id, name: &str, items: usize, each: u64| RegionSpec {
            id,
            name: name.into(),
            bytes: (items as u64 * each).max(each),
            sharing: Sharing::Shared,
        };
        vec![
            self.patterns.region(),
            region(ROOT_TABLE, "inspect_root", 256, 4),
            region(STATES, "inspect_states", self.states.len(), STATE_BYTES),
            region(WIDE, "inspect_wide_states", self.wide.len(), WIDE_BYTES),
            region(OUTPUTS, "inspect_outputs", self.outputs.len(), OUTPUT_BYTES),
            region(LISTS, "inspect_lists", self.lists.len(), LISTED_BYTES),
        ]
    }
}
