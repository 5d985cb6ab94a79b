//! Who works on a task on a CPU: a program's functions, burst by burst.

use std::time::{Duration, Instant};

use functions::{Function, PacketFunction, Verdict};
use packet::Packet;
use probe::Null;
use units::{PacketId, Ps};

use crate::program::MemberWork;

/// Packet functions of a program, in their interleaved and prefetching form, and what they need from burst to burst.
pub(crate) struct TaskWorker {
    function: Function,
    /// Of a chain, how long each member took.
    times: Vec<Duration>,
    /// Whether packets may become several.
    cuts: bool,
    ids: Vec<PacketId>,
}

impl TaskWorker {
    pub(crate) fn new(function: Function, cuts: bool) -> TaskWorker {
        let times = match &function {
            Function::Chain(chain) => vec![Duration::ZERO; chain.members().count()],
            _ => Vec::new(),
        };
        TaskWorker { function, times, cuts, ids: Vec::new() }
    }

    /// Does the packets of `burst`, whose verdicts are appended. `fragment` is given each fragment after the first of its packet, which is
    /// the one of that place in the burst.
    #[inline]
    pub(crate) fn process(
        &mut self,
        burst: &mut [Packet],
        verdicts: &mut Vec<Verdict>,
        mut fragment: impl FnMut(usize, Packet),
    ) {
        if self.cuts {
            // Fragments tell of their packet by its number: one that is its own.
            self.ids.clear();
            self.ids.extend(burst.iter().map(|packet| packet.id));
            (0..).zip(burst.iter_mut()).for_each(|(i, packet)| packet.id = PacketId(i));
        }
        match &mut self.function {
            // A clock is read once a member and burst, some 25 ns for up to 32 packets.
            Function::Chain(chain) => {
                let (mut latest, times) = (Instant::now(), &mut self.times);
                chain.process_in_turn(Ps::ZERO, burst, &mut Null, verdicts, |member| {
                    let now = Instant::now();
                    times[member] += now - std::mem::replace(&mut latest, now);
                });
            }
            one => one.process_burst(Ps::ZERO, burst, &mut Null, verdicts),
        }
        if self.cuts {
            for (packet, &id) in burst.iter_mut().zip(&self.ids) {
                packet.id = id;
            }
            for cut in self.function.fragments_mut() {
                let place = cut.id.0 as usize;
                cut.id = self.ids[place];
                fragment(place, std::mem::take(cut));
            }
        }
    }

    /// Goes on with another copy of the same functions; what was done until now.
    pub(crate) fn replace(&mut self, next: Function) -> Vec<MemberWork> {
        let done = self.shares();
        self.function = next;
        self.times.fill(Duration::ZERO);
        done
    }

    /// Of a chain what each member has done; of one function nothing.
    pub(crate) fn shares(&self) -> Vec<MemberWork> {
        let Function::Chain(chain) = &self.function else { return Vec::new() };
        let of_member = |(share, time): (functions::MemberTotals, &Duration)| MemberWork {
            name: share.name,
            packets: share.packets,
            dropped: share.dropped,
            time_ns: Some(time.as_nanos() as u64),
        };
        chain.shares().into_iter().zip(&self.times).map(of_member).collect()
    }
}
