//! The task FIFO and commits where they are software's: a warp of a kernel that stays polls words in the host's memory, round after
//! round, and publishes what it finds on the GPU; the host sees over the same bus what is done.
//!
//! A round asks for the words of several tasks at once, none of which waits for another. It sees what is in the host's memory half the way
//! there and back after it has asked. What it finds is published at its end, after a fence, and then the next round begins. A round
//! that finds all asks for twice as many tasks the next time, one that finds no more than half for half.
//!
//! **Left out**: the host's time to post, what workers' own traffic over the bus takes from a round, who polls the ring on the GPU.
//!
//! **Source**: the kernel of `crates/router` (`kernels/router.cu`), and what `router-bench link` measures of a bus.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Frequency, Ps, Span};

use crate::MachineError;

/// No bus takes longer, and sums of rounds stay far from the end of the clock.
const LONGEST: Ps = Ps(1_000_000_000);

/// A warp that polls the host's memory for tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatcherSpec {
    /// Tasks that a round asks for at least.
    pub least: u32,
    /// And at most.
    pub most: u32,
    /// A word of the host's memory, there and back.
    pub word: Span,
    /// What each further task makes a round longer.
    pub task: Span,
    /// What follows a find: a fence, and entries on the GPU.
    pub publish: Span,
    /// From a commit on the GPU until the host sees it.
    pub tell: Span,
}

impl DispatcherSpec {
    /// What a round takes that finds as many tasks as it asks for at most.
    pub fn full_round(&self) -> Ps {
        self.word.ps() + Ps(self.task.ps().0 * u64::from(self.most.saturating_sub(1))) + self.publish.ps()
    }

    /// Checks it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self) -> Result<(), MachineError> {
        let DispatcherSpec { least, most, word, .. } = self;
        if *least == 0 || least > most || *most > 1 << 16 {
            let (came, remedy) = (format!("{least} to {most}"), "the router has 32 to 128".into());
            return Err(MachineError::new(
                "hermes.dispatcher.most",
                came,
                "least to 65536, and least 1 or more",
                remedy,
            ));
        }
        let times = [("word", self.word), ("task", self.task), ("publish", self.publish), ("tell", self.tell)];
        if let Some((name, time)) = times.into_iter().find(|(_, time)| time.ps() > LONGEST) {
            let remedy = "over PCIe all of them are microseconds or less".into();
            return Err(MachineError::new(
                format!("hermes.dispatcher.{name}"),
                time.to_string(),
                "at most 1 ms",
                remedy,
            ));
        }
        if word.ps().0 == 0 {
            let remedy = "over PCIe it is about a microsecond: `router-bench link` measures it".into();
            return Err(MachineError::new("hermes.dispatcher.word", word.to_string(), "above 0", remedy));
        }
        Ok(())
    }
}

/// The dispatcher of a run; times are clocks of the GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dispatcher {
    least: u32,
    most: u32,
    word: u64,
    publish: u64,
    tell: u64,
    /// Picoseconds of a further task, and of a clock.
    task: u64,
    period: u64,
    /// Packets of a task, and when it was posted: in the host's memory, and on the GPU from a time on.
    posted: VecDeque<(u32, u64)>,
    found: VecDeque<(u64, (u32, u64))>,
    /// When the next round begins, and how many tasks it asks for.
    begins: u64,
    asks: u32,
    /// Warps of which the host hears, and when.
    telling: VecDeque<(u64, u32)>,
}

impl Dispatcher {
    /// One that has found nothing yet, of a GPU at `frequency`.
    pub fn new(spec: &DispatcherSpec, frequency: Frequency) -> Dispatcher {
        let period = frequency.period().0;
        let clocks = |span: Span| span.ps().0.div_ceil(period);
        Dispatcher {
            least: spec.least,
            most: spec.most,
            word: clocks(spec.word),
            publish: clocks(spec.publish),
            tell: clocks(spec.tell),
            task: spec.task.ps().0,
            period,
            posted: VecDeque::new(),
            found: VecDeque::new(),
            begins: 0,
            asks: spec.least,
            telling: VecDeque::new(),
        }
    }

    /// Tasks that are not on the GPU yet.
    pub fn waiting(&self) -> usize {
        self.posted.len() + self.found.len()
    }

    /// The host posts a task of `packets` packets at `now`.
    pub fn post(&mut self, packets: u32, now: u64) {
        self.posted.push_back((packets, now));
    }

    /// A warp is committed at `now`: the host hears of it later.
    pub fn tell(&mut self, warp: u32, now: u64) {
        self.telling.push_back((now + self.tell, warp));
    }

    /// Clocks of a round that finds nothing.
    fn round(&self, asks: u32) -> u64 {
        self.word + (u64::from(asks - 1) * self.task).div_ceil(self.period)
    }

    /// When the round that begins next sees what is in the host's memory.
    fn sees(&self) -> u64 {
        self.begins + self.word / 2
    }

    /// Goes through all rounds that have seen the host's memory by `now`.
    pub fn advance(&mut self, now: u64) {
        while let Some(&(_, first)) = self.posted.front() {
            // Rounds that saw nothing, one after the other until they ask for the least, and then as many as there were.
            while self.sees() < first && self.asks > self.least {
                self.begins += self.round(self.asks);
                self.asks = (self.asks / 2).max(self.least);
            }
            if self.sees() < first {
                let round = self.round(self.least);
                self.begins += (first - self.sees()).div_ceil(round) * round;
            }
            let seen = self.sees();
            if seen > now {
                return;
            }
            let (asked, mut tasks) = (self.asks, 0);
            let ends = self.begins + self.round(asked) + self.publish;
            while tasks < asked
                && let Some(&task) = self.posted.front().filter(|&&(_, at)| at <= seen)
            {
                self.posted.pop_front();
                self.found.push_back((ends, task));
                tasks += 1;
            }
            if tasks == asked {
                self.asks = (asked * 2).min(self.most);
            } else if tasks <= asked / 2 {
                self.asks = (asked / 2).max(self.least);
            }
            self.begins = ends;
        }
    }

    /// A task that is on the GPU by `now`.
    pub fn published(&mut self, now: u64) -> Option<(u32, u64)> {
        take_due(&mut self.found, now)
    }

    /// A warp of which the host has heard by `now`.
    pub fn told(&mut self, now: u64) -> Option<u32> {
        take_due(&mut self.telling, now)
    }

    /// When something happens next.
    pub fn next(&self) -> u64 {
        let seen = if self.posted.is_empty() { u64::MAX } else { self.sees() };
        let published = self.found.front().map_or(u64::MAX, |&(at, _)| at);
        let told = self.telling.front().map_or(u64::MAX, |&(at, _)| at);
        seen.min(published).min(told)
    }
}

/// The first of what is due at a time each, if it is.
fn take_due<T>(queue: &mut VecDeque<(u64, T)>, now: u64) -> Option<T> {
    queue.front().filter(|(at, _)| *at <= now)?;
    queue.pop_front().map(|(_, it)| it)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(least: u32, most: u32) -> DispatcherSpec {
        let ns = Span::from_ns;
        DispatcherSpec { least, most, word: ns(100.0), task: ns(1.0), publish: ns(40.0), tell: ns(70.0) }
    }

    fn dispatcher(least: u32, most: u32) -> Dispatcher {
        Dispatcher::new(&spec(least, most), Frequency::from_ghz(1.0))
    }

    #[test]
    fn a_task_is_there_a_round_after_it_was_seen() {
        let mut own = dispatcher(4, 16);
        // Rounds of 103 clocks see after 50 of them: at 50, 153, 256.
        own.post(32, 160);
        own.advance(255);
        assert_eq!((own.next(), own.published(10_000)), (256, None));
        own.advance(256);
        // It began at 206, and 103 and 40 later all is there.
        assert_eq!((own.next(), own.published(348), own.published(349)), (349, None, Some((32, 160))));
        own.tell(7, 400);
        assert_eq!((own.next(), own.told(469), own.told(470)), (470, None, Some(7)));
    }

    #[test]
    fn what_cannot_be_is_told() {
        assert!(spec(4, 16).check().is_ok());
        let with = |word: f64, task: f64| DispatcherSpec {
            word: Span::from_ns(word),
            task: Span::from_ns(task),
            ..spec(1, 1)
        };
        for wrong in [spec(0, 4), spec(8, 4), with(0.0, 1.0), with(100.0, 3e11)] {
            assert!(wrong.check().unwrap_err().to_string().contains("hermes.dispatcher"));
        }
    }

    /// Round after round, with none left out.
    fn naive(tasks: &[u64], least: u32, most: u32) -> Vec<u64> {
        let (mut next, mut begins, mut asks, mut there) = (0, 0, least, Vec::new());
        while next < tasks.len() {
            let (seen, asked) = (begins + 50, asks);
            let ready = tasks[next..].iter().take(asked as usize).take_while(|&&at| at <= seen).count();
            begins += 100 + u64::from(asked - 1) + if ready > 0 { 40 } else { 0 };
            there.extend(std::iter::repeat_n(begins, ready));
            next += ready;
            if ready == asked as usize {
                asks = (asked * 2).min(most);
            } else if ready <= asked as usize / 2 {
                asks = (asked / 2).max(least);
            }
        }
        there
    }

    proptest! {
        /// Bursts, pauses and any order of looking: as a dispatcher that is asked round after round.
        #[test]
        fn rounds_are_those_of_the_naive_twin(
            gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 2 => 1u64..60, 1 => 100u64..5000], 1..120),
            least in 1u32..6, factor in 0u32..4, step in 1u64..300,
        ) {
            let most = least << factor;
            let mut own = dispatcher(least, most);
            let tasks: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let (mut there, mut now, mut posted) = (Vec::new(), 0, 0);
            while there.len() < tasks.len() {
                while posted < tasks.len() && tasks[posted] <= now {
                    own.post(1, tasks[posted]);
                    posted += 1;
                }
                own.advance(now);
                while own.published(now).is_some() {
                    there.push(now);
                }
                let coming = tasks.get(posted).copied().unwrap_or(u64::MAX);
                // Never later than something happens, and now and then when nothing does.
                now = own.next().min(coming).min(now + step).max(now + 1);
            }
            prop_assert_eq!(there, naive(&tasks, least, most));
        }
    }
}
