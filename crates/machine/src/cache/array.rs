//! The tag array of a set-associative cache, without time.

use serde::{Deserialize, Serialize};
use units::{Cbm, Line};

use super::replacement::{AnyPolicy, Lru, Replacement, ReplacementPolicy};
use crate::divisor::Divisor;

/// The tag array of a set-associative cache: which lines are there, which have to go first, which
/// are dirty. It knows no time.
///
/// Ways are physical, so a way mask limits which of them a fill may take; hits are anywhere.
/// Line numbers must be below 2^32 - 1 (256 GiB of simulated memory), which the layout of a machine
/// guarantees. Replacement is true LRU, or with [`AnyPolicy`] what is chosen at run time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TagArray<P = Lru> {
    count: Divisor,
    ways: u32,
    sets: Sets,
    policy: P,
}

/// All that is known of a set lies together: on one line of the host's cache for 8 ways, on two
/// for up to 24.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(align(64))]
struct Set<const N: usize> {
    /// Line numbers, [`EMPTY`] where there is none.
    #[serde(with = "units::arrays")]
    tags: [u32; N],
    /// What the policy remembers of each way.
    #[serde(with = "units::arrays")]
    state: [u8; N],
    /// Who filled each way, as a number of the caller's.
    #[serde(with = "units::arrays")]
    owner: [u8; N],
    /// A bit a way.
    dirty: u32,
    /// A bit a way: no other private cache has the line.
    exclusive: u32,
}

/// Ways rounded up to what is compared at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Sets {
    Upto8(Vec<Set<8>>),
    Upto16(Vec<Set<16>>),
    Upto24(Vec<Set<24>>),
    Upto32(Vec<Set<32>>),
}

macro_rules! with_sets {
    ($sets:expr, $name:ident => $body:expr) => {
        match $sets {
            Sets::Upto8($name) => $body,
            Sets::Upto16($name) => $body,
            Sets::Upto24($name) => $body,
            Sets::Upto32($name) => $body,
        }
    };
}

const EMPTY: u32 = u32::MAX;

/// Where a line lies in a [`TagArray`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    set: u32,
    way: u32,
}

impl Slot {
    pub(crate) fn set(self) -> usize {
        self.set as usize
    }

    pub(crate) fn way(self) -> u32 {
        self.way
    }
}

/// `count` of the `round` sets from `base` on, the first of them `first`, where the last is followed by the one at `base`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowOfSets {
    pub base: usize,
    pub round: u32,
    pub first: u32,
    pub count: u32,
}

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// Which.
    pub line: Line,
    /// Whether memory does not have its latest data.
    pub dirty: bool,
    /// Who filled it, as the filler said; 0 where nobody says.
    pub owner: u8,
}

/// A line that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Which.
    pub line: Line,
    /// Whether memory does not have its latest data.
    pub dirty: bool,
    /// Who filled it.
    pub owner: u8,
    /// Its age, of a policy that keeps one.
    pub age: Option<u8>,
    /// Where it lies.
    pub way: u32,
}

/// A mask allows no way of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWay;

/// What [`TagArray::use_or_fill`] or [`TagArray::write_or_fill`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The line was there.
    InPlace,
    /// The line came in, and what had to go for it; or there was no way for it.
    Filled(Result<Option<Victim>, NoWay>),
}

impl<const N: usize> Set<N> {
    fn empty<P: ReplacementPolicy>() -> Set<N> {
        Set { tags: [EMPTY; N], state: P::initial(), owner: [0; N], dirty: 0, exclusive: 0 }
    }

    #[inline(always)]
    fn find(&self, line: u32) -> Option<u32> {
        let found = equal_tags(&self.tags, line);
        (found != 0).then(|| found.trailing_zeros())
    }

    #[inline(always)]
    fn fill<P: ReplacementPolicy>(
        &mut self,
        policy: &mut P,
        ways: u32,
        line: u32,
        fill: FillState,
    ) -> Result<Option<Victim>, NoWay> {
        let allowed = fill.mask.0 & Cbm::low(ways).0;
        let tags = &self.tags;
        let way = policy.victim(&mut self.state, ways, allowed, || equal_tags(tags, EMPTY)).ok_or(NoWay)?;
        let bit = 1u32 << way;
        let old = std::mem::replace(&mut self.tags[way as usize], line);
        let owner = std::mem::replace(&mut self.owner[way as usize], fill.owner);
        let victim = (old != EMPTY).then(|| Victim { line: Line(u64::from(old)), dirty: self.dirty & bit != 0, owner });
        set_bit(&mut self.dirty, way, fill.dirty);
        set_bit(&mut self.exclusive, way, fill.exclusive);
        policy.fill(&mut self.state, way, fill.age);
        Ok(victim)
    }

    /// `line` takes the place of what is in `way`, which is returned.
    #[inline(always)]
    fn replace<P: ReplacementPolicy>(&mut self, policy: &mut P, way: u32, line: u32, dirty: bool) -> Option<Victim> {
        let bit = 1u32 << way;
        let old = std::mem::replace(&mut self.tags[way as usize], line);
        let owner = std::mem::take(&mut self.owner[way as usize]);
        let victim = (old != EMPTY).then(|| Victim { line: Line(u64::from(old)), dirty: self.dirty & bit != 0, owner });
        set_bit(&mut self.dirty, way, dirty);
        self.exclusive &= !bit;
        policy.fill(&mut self.state, way, 0);
        victim
    }

    #[inline(always)]
    fn remove<P: ReplacementPolicy>(&mut self, policy: &mut P, ways: u32, line: u32) -> Option<Victim> {
        let way = self.find(line)?;
        self.tags[way as usize] = EMPTY;
        policy.remove(&mut self.state, ways, way);
        let (dirty, owner) = (self.dirty >> way & 1 == 1, self.owner[way as usize]);
        Some(Victim { line: Line(u64::from(line)), dirty, owner })
    }
}

/// How a line comes in.
#[derive(Clone, Copy)]
struct FillState {
    mask: Cbm,
    dirty: bool,
    exclusive: bool,
    age: u8,
    owner: u8,
}

impl TagArray {
    /// An empty LRU array of `sets` sets (1 to 2^32 - 1) of `ways` ways (1 to 32).
    pub fn new(sets: u64, ways: u32) -> TagArray {
        TagArray::with_policy(sets, ways, Lru)
    }

    /// Which line goes if `line` comes in next, or [`None`] for an empty way.
    ///
    /// # Errors
    /// Where `line` is, if it is there already.
    #[inline(always)]
    pub(crate) fn goes_for(&self, line: Line) -> Result<Option<Line>, Slot> {
        let at = self.set_of(line);
        with_sets!(&self.sets, sets => {
            let set = &sets[at];
            if let Some(way) = set.find(line.0 as u32) {
                return Err(Slot { set: at as u32, way });
            }
            let mut state = set.state;
            let way = Lru.victim(&mut state, self.ways, Cbm::low(self.ways).0, || 0).unwrap_or(0);
            let out = set.tags[way as usize];
            Ok((out != EMPTY).then(|| Line(u64::from(out))))
        })
    }

    /// The way that `slot` names.
    pub fn way(slot: Slot) -> u32 {
        slot.way
    }
}

impl TagArray<AnyPolicy> {
    /// An empty array of `sets` sets (1 to 2^32 - 1) of `ways` ways (1 to 32). `seed` is for random
    /// replacement.
    pub fn with_replacement(sets: u64, ways: u32, replacement: Replacement, seed: u64) -> TagArray<AnyPolicy> {
        TagArray::with_policy(sets, ways, AnyPolicy::new(replacement, seed))
    }

    /// As [`TagArray::find`], where a line may be in several ways: the copy that goes last.
    pub(super) fn find_first_of_copies(&self, line: Line) -> Option<Slot> {
        let set = self.set_of(line);
        let way = with_sets!(&self.sets, sets => {
            let found = equal_tags(&sets[set].tags, line.0 as u32);
            let copies = (0..self.ways).filter(|way| found >> way & 1 == 1);
            let state = &sets[set].state;
            copies.min_by_key(|&way| if self.policy.is_ordered() { state[way as usize] } else { 0 })?
        });
        Some(Slot { set: set as u32, way })
    }
}

impl<P: ReplacementPolicy> TagArray<P> {
    fn with_policy(sets: u64, ways: u32, policy: P) -> TagArray<P> {
        let n = sets as usize;
        TagArray {
            count: Divisor::new(sets as u32),
            ways,
            sets: match ways {
                1..=8 => Sets::Upto8(vec![Set::empty::<P>(); n]),
                9..=16 => Sets::Upto16(vec![Set::empty::<P>(); n]),
                17..=24 => Sets::Upto24(vec![Set::empty::<P>(); n]),
                _ => Sets::Upto32(vec![Set::empty::<P>(); n]),
            },
            policy,
        }
    }

    /// How many ways a set has.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// How many sets there are.
    pub fn sets(&self) -> u64 {
        u64::from(self.count.divisor())
    }

    /// Lines that fit in.
    pub fn lines(&self) -> u64 {
        self.sets() * u64::from(self.ways())
    }

    #[inline(always)]
    fn set_of(&self, line: Line) -> usize {
        self.count.remainder(line.0 as u32) as usize
    }

    /// Where `line` is, without counting as a use.
    #[inline]
    pub fn find(&self, line: Line) -> Option<Slot> {
        self.find_at(self.set_of(line), line)
    }

    /// As [`TagArray::find`], of a line whose set the caller knows; so are the others of this name.
    #[inline(always)]
    pub(crate) fn find_at(&self, set: usize, line: Line) -> Option<Slot> {
        let way = with_sets!(&self.sets, sets => sets[set].find(line.0 as u32))?;
        Some(Slot { set: set as u32, way })
    }

    /// Finds `line` and, if it is there, makes it count as used.
    #[inline]
    pub fn use_line(&mut self, line: Line) -> Option<Slot> {
        self.use_line_at(self.set_of(line), line)
    }

    #[inline(always)]
    pub(crate) fn use_line_at(&mut self, set: usize, line: Line) -> Option<Slot> {
        let way = with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let way = set.find(line.0 as u32)?;
            self.policy.hit(&mut set.state, way);
            way
        });
        Some(Slot { set: set as u32, way })
    }

    /// As [`TagArray::use_line`], and marks the line dirty if it is to `write`: whether it may be written without asking
    /// others, without which nothing happens; [`None`] if it is not there.
    #[inline(always)]
    pub(crate) fn use_own(&mut self, line: Line, write: bool) -> Option<bool> {
        let set = self.set_of(line);
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let way = set.find(line.0 as u32)?;
            if write {
                if set.exclusive >> way & 1 == 0 {
                    return Some(false);
                }
                set.dirty |= 1 << way;
            }
            self.policy.hit(&mut set.state, way);
            Some(true)
        })
    }

    /// As [`TagArray::write_line`], of a line that this cache alone has from now on.
    #[inline(always)]
    pub(crate) fn take_over(&mut self, line: Line) -> bool {
        let set = self.set_of(line);
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let Some(way) = set.find(line.0 as u32) else { return false };
            self.policy.hit(&mut set.state, way);
            set.dirty |= 1 << way;
            set.exclusive |= 1 << way;
            true
        })
    }

    /// As [`TagArray::use_line`]; says whether the line is exclusive, [`None`] if it is not there.
    #[inline(always)]
    pub(crate) fn use_shared(&mut self, line: Line) -> Option<bool> {
        let set = self.set_of(line);
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let way = set.find(line.0 as u32)?;
            self.policy.hit(&mut set.state, way);
            Some(set.exclusive >> way & 1 == 1)
        })
    }

    /// [`TagArray::fill`] into any way, if a dirty line that has to go finds room by `below`; or else nothing happens.
    #[inline(always)]
    pub(crate) fn fill_if(
        &mut self,
        line: Line,
        dirty: bool,
        exclusive: bool,
        below: impl FnOnce(Line) -> bool,
    ) -> bool {
        let set = self.set_of(line);
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let all = Cbm::low(self.ways).0;
            let tags = &set.tags;
            let Some(way) = self.policy.victim(&mut set.state, self.ways, all, || equal_tags(tags, EMPTY)) else {
                return false;
            };
            let old = set.tags[way as usize];
            if old != EMPTY && set.dirty >> way & 1 == 1 && !below(Line(u64::from(old))) {
                return false;
            }
            set.tags[way as usize] = line.0 as u32;
            set.owner[way as usize] = 0;
            set_bit(&mut set.dirty, way, dirty);
            set_bit(&mut set.exclusive, way, exclusive);
            self.policy.fill(&mut set.state, way, 0);
            true
        })
    }

    /// As [`TagArray::use_line`], and marks the line dirty; says whether it is there.
    #[inline]
    pub fn write_line(&mut self, line: Line) -> bool {
        self.write_line_at(self.set_of(line), line)
    }

    #[inline(always)]
    pub(crate) fn write_line_at(&mut self, set: usize, line: Line) -> bool {
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let Some(way) = set.find(line.0 as u32) else { return false };
            self.policy.hit(&mut set.state, way);
            set.dirty |= 1 << way;
            true
        })
    }

    /// [`TagArray::use_line`], and if the line is not there [`TagArray::fill`] with a clean line into any way.
    #[inline]
    pub fn use_or_fill(&mut self, line: Line) -> WriteOutcome {
        let at = self.set_of(line);
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[at];
            if let Some(way) = set.find(line.0 as u32) {
                self.policy.hit(&mut set.state, way);
                return WriteOutcome::InPlace;
            }
            let fill = FillState { mask: Cbm(u32::MAX), dirty: false, exclusive: false, age: 0, owner: 0 };
            WriteOutcome::Filled(set.fill(&mut self.policy, self.ways, line.0 as u32, fill))
        })
    }

    /// [`TagArray::write_line`], and if the line is not there [`TagArray::fill_owned`] with a dirty line.
    #[inline]
    pub fn write_or_fill(&mut self, line: Line, mask: Cbm, age: u8, owner: u8) -> WriteOutcome {
        self.write_or_fill_at(self.set_of(line), line, mask, age, owner)
    }

    #[inline(always)]
    pub(crate) fn write_or_fill_at(&mut self, at: usize, line: Line, mask: Cbm, age: u8, owner: u8) -> WriteOutcome {
        self.use_or_fill_at(at, line, mask, true, age, owner)
    }

    /// As [`TagArray::write_or_fill_at`]; the line becomes dirty only if it is `dirty`.
    #[inline(always)]
    pub(crate) fn use_or_fill_at(
        &mut self,
        at: usize,
        line: Line,
        mask: Cbm,
        dirty: bool,
        age: u8,
        owner: u8,
    ) -> WriteOutcome {
        with_sets!(&mut self.sets, sets => {
            let set = &mut sets[at];
            if let Some(way) = set.find(line.0 as u32) {
                self.policy.hit(&mut set.state, way);
                set.dirty |= u32::from(dirty) << way;
                return WriteOutcome::InPlace;
            }
            let fill = FillState { mask, dirty, exclusive: false, age, owner };
            WriteOutcome::Filled(set.fill(&mut self.policy, self.ways, line.0 as u32, fill))
        })
    }

    /// [`TagArray::use_or_fill`] or, of a line that is `dirty` from now on, [`TagArray::write_or_fill`] into any way; where
    /// the line is, as the number of its set times that of the ways plus its way, and what had to go if it came in.
    #[inline(always)]
    pub(crate) fn place(&mut self, line: Line, dirty: bool) -> (usize, WriteOutcome) {
        let at = self.set_of(line);
        let (way, written) = with_sets!(&mut self.sets, sets => {
            let set = &mut sets[at];
            if let Some(way) = set.find(line.0 as u32) {
                self.policy.hit(&mut set.state, way);
                set.dirty |= u32::from(dirty) << way;
                (way, WriteOutcome::InPlace)
            } else {
                let all = Cbm::low(self.ways).0;
                let tags = &set.tags;
                // There is a way, as all are allowed.
                let way = self.policy.victim(&mut set.state, self.ways, all, || equal_tags(tags, EMPTY)).unwrap_or(0);
                (way, WriteOutcome::Filled(Ok(set.replace(&mut self.policy, way, line.0 as u32, dirty))))
            }
        });
        (at * self.ways as usize + way as usize, written)
    }

    /// As [`TagArray::place`] of a line that is not written: where it is, whether it is exclusive if it was there, and what had to
    /// go if it was not.
    #[inline(always)]
    pub(crate) fn find_or_place(&mut self, line: Line) -> (Slot, Result<bool, Option<Victim>>) {
        let at = self.set_of(line);
        let (way, found) = with_sets!(&mut self.sets, sets => {
            let set = &mut sets[at];
            if let Some(way) = set.find(line.0 as u32) {
                self.policy.hit(&mut set.state, way);
                (way, Ok(set.exclusive >> way & 1 == 1))
            } else {
                let all = Cbm::low(self.ways).0;
                let tags = &set.tags;
                // There is a way, as all are allowed.
                let way = self.policy.victim(&mut set.state, self.ways, all, || equal_tags(tags, EMPTY)).unwrap_or(0);
                (way, Err(set.replace(&mut self.policy, way, line.0 as u32, false)))
            }
        });
        (Slot { set: at as u32, way }, found)
    }

    /// [`TagArray::write_or_fill`] of `line` in each of `sets`; `each` gets how many came before, and what happened.
    #[inline(always)]
    pub(crate) fn write_or_fill_row(
        &mut self,
        line: Line,
        sets: RowOfSets,
        mask: Cbm,
        age: u8,
        owner: u8,
        mut each: impl FnMut(u32, WriteOutcome),
    ) {
        let line = line.0 as u32;
        let fill = FillState { mask, dirty: true, exclusive: false, age, owner };
        with_sets!(&mut self.sets, all => {
            let row = &mut all[sets.base..sets.base + sets.round as usize];
            let mut at = sets.first;
            for i in 0..sets.count {
                let set = &mut row[at as usize];
                let written = match set.find(line) {
                    Some(way) => {
                        self.policy.hit(&mut set.state, way);
                        set.dirty |= 1 << way;
                        WriteOutcome::InPlace
                    }
                    None => WriteOutcome::Filled(set.fill(&mut self.policy, self.ways, line, fill)),
                };
                each(i, written);
                at = if at + 1 == sets.round { 0 } else { at + 1 };
            }
        });
    }

    /// [`TagArray::find`] of `line` in each of `sets`; `each` gets how many came before, and whether it is there.
    #[inline(always)]
    pub(crate) fn find_row(&self, line: Line, sets: RowOfSets, mut each: impl FnMut(u32, bool)) {
        with_sets!(&self.sets, all => {
            let row = &all[sets.base..sets.base + sets.round as usize];
            let mut at = sets.first;
            for i in 0..sets.count {
                each(i, row[at as usize].find(line.0 as u32).is_some());
                at = if at + 1 == sets.round { 0 } else { at + 1 };
            }
        });
    }

    /// Makes the line at `slot` count as used.
    #[inline]
    pub fn use_slot(&mut self, slot: Slot) {
        with_sets!(&mut self.sets, sets => self.policy.hit(&mut sets[slot.set as usize].state, slot.way));
    }

    /// Puts `line`, which must not be there, into an empty way that `mask` allows or into the way of
    /// those whose line goes first, which is returned.
    ///
    /// # Errors
    /// [`NoWay`], and nothing has happened.
    #[inline]
    pub fn fill(&mut self, line: Line, mask: Cbm, dirty: bool, exclusive: bool) -> Result<Option<Victim>, NoWay> {
        let set = self.set_of(line);
        let fill = FillState { mask, dirty, exclusive, age: 0, owner: 0 };
        with_sets!(&mut self.sets, sets => sets[set].fill(&mut self.policy, self.ways, line.0 as u32, fill))
    }

    /// As [`TagArray::fill`]; under [`Replacement::Age`] the line comes in at `age`, 0 to 3.
    #[inline]
    pub fn fill_aged(&mut self, line: Line, mask: Cbm, dirty: bool, age: u8) -> Result<Option<Victim>, NoWay> {
        self.fill_owned(line, mask, dirty, age, 0)
    }

    /// As [`TagArray::fill_aged`], and remembers `owner`.
    #[inline]
    pub fn fill_owned(
        &mut self,
        line: Line,
        mask: Cbm,
        dirty: bool,
        age: u8,
        owner: u8,
    ) -> Result<Option<Victim>, NoWay> {
        self.fill_owned_at(self.set_of(line), line, mask, dirty, age, owner)
    }

    #[inline(always)]
    pub(crate) fn fill_owned_at(
        &mut self,
        set: usize,
        line: Line,
        mask: Cbm,
        dirty: bool,
        age: u8,
        owner: u8,
    ) -> Result<Option<Victim>, NoWay> {
        let fill = FillState { mask, dirty, exclusive: false, age, owner };
        with_sets!(&mut self.sets, sets => sets[set].fill(&mut self.policy, self.ways, line.0 as u32, fill))
    }

    /// Takes `line` out; says whether it was dirty, [`None`] if it was not there.
    #[inline]
    pub fn remove(&mut self, line: Line) -> Option<bool> {
        self.take(line).map(|victim| victim.dirty)
    }

    /// Takes `line` out; [`None`] if it was not there.
    #[inline]
    pub fn take(&mut self, line: Line) -> Option<Victim> {
        self.take_at(self.set_of(line), line)
    }

    #[inline(always)]
    pub(crate) fn take_at(&mut self, set: usize, line: Line) -> Option<Victim> {
        with_sets!(&mut self.sets, sets => sets[set].remove(&mut self.policy, self.ways, line.0 as u32))
    }

    /// Whether the line at `slot` is dirty.
    #[inline]
    pub fn is_dirty(&self, slot: Slot) -> bool {
        with_sets!(&self.sets, sets => sets[slot.set as usize].dirty) >> slot.way & 1 == 1
    }

    /// Marks the line at `slot` dirty or clean.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot, dirty: bool) {
        with_sets!(&mut self.sets, sets => set_bit(&mut sets[slot.set as usize].dirty, slot.way, dirty));
    }

    /// Whether the line at `slot` is known to be in no other private cache.
    #[inline]
    pub fn is_exclusive(&self, slot: Slot) -> bool {
        with_sets!(&self.sets, sets => sets[slot.set as usize].exclusive) >> slot.way & 1 == 1
    }

    /// Marks `line`, if it is there, as in no other private cache, or not; says where it is.
    #[inline]
    pub fn set_exclusive(&mut self, line: Line, exclusive: bool) -> Option<Slot> {
        let set = self.set_of(line);
        let way = with_sets!(&mut self.sets, sets => {
            let set = &mut sets[set];
            let way = set.find(line.0 as u32)?;
            set_bit(&mut set.exclusive, way, exclusive);
            way
        });
        Some(Slot { set: set as u32, way })
    }

    /// Marks the line at `slot` as in no other private cache.
    #[inline(always)]
    pub(crate) fn make_exclusive(&mut self, slot: Slot) {
        with_sets!(&mut self.sets, sets => sets[slot.set as usize].exclusive |= 1 << slot.way);
    }

    /// The number of the set of `slot` times that of the ways plus its way.
    #[inline(always)]
    pub(crate) fn number_of(&self, slot: Slot) -> usize {
        slot.set() * self.ways as usize + slot.way() as usize
    }

    /// Lines present, over all sets.
    pub fn occupancy(&self) -> u64 {
        let present = |tags: &[u32]| tags.iter().filter(|&&t| t != EMPTY).count() as u64;
        with_sets!(&self.sets, sets => sets.iter().map(|s| present(&s.tags)).sum())
    }

    /// Who has the line at `slot`, as [`TagArray::fill_owned`] and [`TagArray::set_owner`] say.
    pub(crate) fn owner(&self, slot: Slot) -> u8 {
        with_sets!(&self.sets, sets => sets[slot.set as usize].owner[slot.way as usize])
    }

    /// Who filled the line at `slot`, or was written there since.
    #[inline]
    pub(crate) fn set_owner(&mut self, slot: Slot, owner: u8) {
        with_sets!(&mut self.sets, sets => sets[slot.set as usize].owner[slot.way as usize] = owner);
    }

    /// Takes out all lines that `goes` names, with the numbers of their sets.
    pub(crate) fn drain(&mut self, goes: impl Fn(usize, Line) -> bool, mut gone: impl FnMut(usize, Victim)) {
        with_sets!(&mut self.sets, sets => for (number, set) in sets.iter_mut().enumerate() {
            for line in set.tags {
                if line != EMPTY
                    && goes(number, Line(u64::from(line)))
                    && let Some(victim) = set.remove(&mut self.policy, self.ways, line)
                {
                    gone(number, victim);
                }
            }
        });
    }

    /// The lines of all sets, with the number of the set: of each those that were used longest ago before the others, where
    /// the policy keeps their order, and all sets' first ones before any second one.
    pub(crate) fn residents(&self, mut seen: impl FnMut(usize, Resident)) {
        let ordered = self.policy.is_ordered();
        with_sets!(&self.sets, sets => for turn in (0..self.ways).rev() {
            for (number, set) in sets.iter().enumerate() {
                let state = &set.state[..self.ways as usize];
                let way = if ordered { state.iter().position(|&rank| u32::from(rank) == turn) } else { Some(turn as usize) };
                let Some(way) = way.filter(|&way| set.tags[way] != EMPTY) else { continue };
                seen(number, Resident {
                    line: Line(u64::from(set.tags[way])),
                    dirty: set.dirty >> way & 1 == 1,
                    owner: set.owner[way],
                    age: (!ordered).then_some(set.state[way]),
                    way: way as u32,
                });
            }
        });
    }

    /// Whether `way` of set `set` has no line.
    pub(crate) fn is_empty_at(&self, set: usize, way: u32) -> bool {
        way < self.ways && with_sets!(&self.sets, sets => sets[set].tags[way as usize] == EMPTY)
    }

    /// As [`TagArray::prefetch_at`], of the sets of `lines`.
    #[inline(always)]
    pub(crate) fn prefetch_sets(&self, lines: impl Iterator<Item = Line>) {
        with_sets!(&self.sets, sets => lines.for_each(|line| prefetch(&sets[self.set_of(line)])));
    }

    /// Asks the host to bring set `set` into its own cache.
    #[inline(always)]
    pub(crate) fn prefetch_at(&self, set: usize) {
        with_sets!(&self.sets, sets => prefetch(&sets[set]));
    }
}

#[inline(always)]
fn set_bit(word: &mut u32, bit: u32, to: bool) {
    *word = *word & !(1 << bit) | u32::from(to) << bit;
}

/// Asks the host to bring all lines of `value`.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of::<T>()).step_by(64) {
        // SAFETY: prefetching has no effect on memory, and the address is within `value`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().add(at));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A bit for each of `tags` that is `wanted`. The length is a multiple of 8, at most 32.
#[inline(always)]
pub(crate) fn equal_tags(tags: &[u32], wanted: u32) -> u32 {
    let mut found = 0u32;
    for (group, chunk) in tags.as_chunks::<8>().0.iter().enumerate() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is part of x86-64, and a chunk has 8 elements of 4 bytes.
        let bits = unsafe {
            use std::arch::x86_64::*;
            let wanted = _mm_set1_epi32(wanted as i32);
            let low = _mm_cmpeq_epi32(_mm_loadu_si128(chunk.as_ptr().cast()), wanted);
            let high = _mm_cmpeq_epi32(_mm_loadu_si128(chunk.as_ptr().add(4).cast()), wanted);
            _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128())) as u32
        };
        #[cfg(not(target_arch = "x86_64"))]
        let bits = chunk.iter().enumerate().fold(0, |bits, (i, &tag)| bits | u32::from(tag == wanted) << i);
        found |= bits << (group * 8);
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy)]
    struct Entry {
        line: u64,
        dirty: bool,
        filled: usize,
        used: usize,
        age: u8,
    }

    /// A set as a list of ways, with the time of each event; trees as maps from ranges of ways.
    #[derive(Clone, Default)]
    struct NaiveSet {
        ways: Vec<Option<Entry>>,
        points_at_second: HashMap<(u32, u32), bool>,
    }

    impl NaiveSet {
        fn used(&mut self, way: u32, now: usize) {
            self.ways[way as usize].as_mut().unwrap().used = now;
            let (mut first, mut size) = (0, 32);
            while size > 1 {
                let in_second = way >= first + size / 2;
                self.points_at_second.insert((first, size), !in_second);
                first += if in_second { size / 2 } else { 0 };
                size /= 2;
            }
        }

        /// The way that goes, of those `allowed`, which are all full.
        fn victim(&mut self, replacement: Replacement, allowed: &[u32]) -> u32 {
            let entry = |way: u32| self.ways[way as usize].unwrap();
            match replacement {
                Replacement::Lru => *allowed.iter().min_by_key(|&&w| entry(w).used).unwrap(),
                Replacement::Fifo => *allowed.iter().min_by_key(|&&w| entry(w).filled).unwrap(),
                Replacement::Mru => *allowed.iter().max_by_key(|&&w| entry(w).used).unwrap(),
                Replacement::TreePlru => {
                    let mut left = allowed.to_vec();
                    let (mut first, mut size) = (0, 32);
                    while size > 1 {
                        let middle = first + size / 2;
                        let wants_second = self.points_at_second.get(&(first, size)).copied().unwrap_or(false);
                        let (a, b): (Vec<_>, Vec<_>) = left.iter().partition(|&&w| w < middle);
                        let second = if wants_second { !b.is_empty() } else { a.is_empty() };
                        (left, first) = if second { (b, middle) } else { (a, first) };
                        size /= 2;
                    }
                    first
                }
                Replacement::Srrip | Replacement::Age => loop {
                    if let Some(way) = allowed.iter().find(|&&w| self.ways[w as usize].unwrap().age == 3) {
                        return *way;
                    }
                    allowed.iter().for_each(|&w| self.ways[w as usize].as_mut().unwrap().age += 1);
                },
                Replacement::Random | Replacement::AgeRandom => unreachable!("the array's word is taken"),
            }
        }
    }

    fn check(replacement: Replacement, ways: u32, sets: u64, ops: &[(u64, bool, u32)], masked: bool) {
        let mut array = TagArray::with_replacement(sets, ways, replacement, 7);
        let mut naive = vec![NaiveSet { ways: vec![None; ways as usize], ..NaiveSet::default() }; sets as usize];
        for (now, &(line, write, word)) in ops.iter().enumerate() {
            let set = &mut naive[(line % sets) as usize];
            let at = (0..ways).find(|&w| set.ways[w as usize].is_some_and(|e| e.line == line));
            assert_eq!(array.find(Line(line)).map(|s| s.way), at);
            // Now and then a line is taken out instead.
            if word % 7 == 0 {
                let was = at.and_then(|w| set.ways[w as usize].take()).map(|e| e.dirty);
                assert_eq!(array.remove(Line(line)), was);
                continue;
            }
            if let Some(way) = at {
                let entry = set.ways[way as usize].as_mut().unwrap();
                entry.dirty |= write;
                entry.age = 0;
                set.used(way, now);
                if write {
                    assert!(array.write_line(Line(line)));
                } else {
                    assert!(array.use_line(Line(line)).is_some());
                }
                continue;
            }
            let mask = if masked { Cbm(word >> 3) } else { Cbm::low(ways) };
            let age = (word >> 1 & 3) as u8;
            let allowed: Vec<u32> = (0..ways).filter(|&w| mask.allows(w)).collect();
            let filled = array.fill_aged(Line(line), mask, write, age);
            if allowed.is_empty() {
                assert_eq!(filled, Err(NoWay));
                continue;
            }
            let way = array.find(Line(line)).unwrap().way;
            assert!(mask.allows(way));
            if allowed.iter().all(|&w| set.ways[w as usize].is_some()) {
                match replacement {
                    Replacement::Random => {}
                    Replacement::AgeRandom => {
                        // Any of the oldest; the others age by as much as it does.
                        let age = |w: u32| set.ways[w as usize].unwrap().age;
                        let missing = 3 - allowed.iter().map(|&w| age(w)).max().unwrap();
                        assert_eq!(age(way) + missing, 3);
                        allowed.iter().for_each(|&w| set.ways[w as usize].as_mut().unwrap().age += missing);
                    }
                    _ => assert_eq!(way, set.victim(replacement, &allowed), "{replacement:?}"),
                }
            }
            let old = set.ways[way as usize].map(|e| Victim { line: Line(e.line), dirty: e.dirty, owner: 0 });
            assert_eq!(filled, Ok(old));
            let age = if replacement == Replacement::Srrip { 2 } else { age };
            set.ways[way as usize] = Some(Entry { line, dirty: write, filled: now, used: now, age });
            set.used(way, now);
        }
        let left = naive.iter().flat_map(|s| &s.ways).flatten().count();
        assert_eq!(array.occupancy(), left as u64);
    }

    fn accesses() -> impl Strategy<Value = Vec<(u64, bool, u32)>> {
        prop::collection::vec((0u64..200, any::<bool>(), any::<u32>()), 1..600)
    }

    /// Ways, sets, accesses, and whether fills are masked.
    fn cases() -> impl Strategy<Value = (u32, u64, Vec<(u64, bool, u32)>, bool)> {
        (1u32..=32, 1u64..=6, accesses(), any::<bool>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn lru_with_way_masks_matches_naive((ways, sets, ops, masked) in cases()) {
            check(Replacement::Lru, ways, sets, &ops, masked);
        }

        #[test]
        fn fifo_with_way_masks_matches_naive((ways, sets, ops, masked) in cases()) {
            check(Replacement::Fifo, ways, sets, &ops, masked);
        }

        #[test]
        fn mru_with_way_masks_matches_naive((ways, sets, ops, masked) in cases()) {
            check(Replacement::Mru, ways, sets, &ops, masked);
        }

        #[test]
        fn tree_plru_with_way_masks_matches_naive((ways, sets, ops, masked) in cases()) {
            check(Replacement::TreePlru, ways, sets, &ops, masked);
        }

        #[test]
        fn random_with_way_masks_stays_in_the_mask((ways, sets, ops, masked) in cases()) {
            check(Replacement::Random, ways, sets, &ops, masked);
        }

        #[test]
        fn srrip_with_way_masks_matches_naive((ways, sets, ops, masked) in cases()) {
            check(Replacement::Srrip, ways, sets, &ops, masked);
        }

        #[test]
        fn ages_with_way_masks_match_naive((ways, sets, ops, masked) in cases()) {
            check(Replacement::Age, ways, sets, &ops, masked);
        }

        #[test]
        fn ages_with_random_victims_and_way_masks_match_naive((ways, sets, ops, masked) in cases()) {
            check(Replacement::AgeRandom, ways, sets, &ops, masked);
        }
    }

    proptest! {
        #[test]
        fn lru_is_the_same_whether_chosen_at_compile_or_run_time(
            ways in 1u32..=32,
            sets in 1u64..=6,
            ops in accesses(),
        ) {
            let mut fixed = TagArray::new(sets, ways);
            let mut chosen = TagArray::with_replacement(sets, ways, Replacement::Lru, 0);
            for (line, write, word) in ops {
                let line = Line(line);
                if word % 7 == 0 {
                    prop_assert_eq!(fixed.remove(line), chosen.remove(line));
                    continue;
                }
                let slot = fixed.use_line(line);
                prop_assert_eq!(slot, chosen.use_line(line));
                if slot.is_none() {
                    let mask = Cbm(word >> 3);
                    prop_assert_eq!(fixed.fill(line, mask, write, false), chosen.fill(line, mask, write, false));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_line_that_is_placed_is_used_or_filled(
            ways in 1u32..=32,
            sets in 1u64..5,
            ops in prop::collection::vec((0u64..100, 0u8..3), 0..300),
        ) {
            let (mut one, mut two) = (TagArray::new(sets, ways), TagArray::new(sets, ways));
            for (line, what) in ops {
                let (line, dirty) = (Line(line), what == 1);
                if what == 2 {
                    prop_assert_eq!(one.take(line), two.take(line));
                    continue;
                }
                let there = if dirty { two.write_line(line) } else { two.use_line(line).is_some() };
                let expected = match there {
                    true => WriteOutcome::InPlace,
                    false => WriteOutcome::Filled(two.fill(line, Cbm::low(ways), dirty, false)),
                };
                let (at, written) = one.place(line, dirty);
                prop_assert_eq!(written, expected);
                let slot = two.find(line).unwrap();
                prop_assert_eq!(at, slot.set() * ways as usize + slot.way() as usize);
                prop_assert_eq!(one.find(line), Some(slot));
                prop_assert_eq!(one.is_dirty(slot), two.is_dirty(slot));
            }
        }
    }

    #[test]
    fn random_victims_are_uniform_over_the_mask_and_repeat_with_the_seed() {
        let victims = |seed| {
            let mut array = TagArray::with_replacement(1, 16, Replacement::Random, seed);
            let mask = Cbm(0b0111_0000_1100);
            (0..10_005u64)
                .map(|line| {
                    array.fill(Line(line), mask, false, false).unwrap();
                    array.find(Line(line)).unwrap().way
                })
                .skip(5)
                .collect::<Vec<u32>>()
        };
        let first = victims(1);
        assert_eq!(first, victims(1));
        assert_ne!(first, victims(2));
        for way in [2, 3, 8, 9, 10] {
            let n = first.iter().filter(|&&w| w == way).count();
            // Five standard deviations of a binomial with p = 1/5.
            assert!(n.abs_diff(2000) < 200, "way {way}: {n}");
        }
    }

    #[test]
    fn a_mask_limits_fills_but_hits_are_anywhere() {
        let mut array = TagArray::new(1, 4);
        assert_eq!(array.fill(Line(1), Cbm(0b1000), false, false), Ok(None));
        assert_eq!(array.use_line(Line(1)).map(TagArray::way), Some(3));
        for line in 2..10 {
            array.fill(Line(line), Cbm(0b0011), false, false).unwrap();
        }
        assert!(array.find(Line(1)).is_some());
        assert_eq!(array.occupancy(), 3);
        assert_eq!(array.fill(Line(99), Cbm(0b1_0000), false, false), Err(NoWay));
    }
}
