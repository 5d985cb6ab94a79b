//! Machines that are drawn, warmed in time and without: the same state, and what comes after is the same.

use probe::Access;
use proptest::prelude::*;
use serde_json::Value;
use stats::Reason;
use units::{CoreId, Line, Ps, Span};

use super::Hierarchy;
use super::together_tests::{Features, any_op, features, machine};
use super::twin_tests::{Op, request, use_by_agent, write_to};
use crate::{Memory, Served};

/// What keeps time, and what counts it.
const OF_TIME: [&str; 32] = [
    "slices",
    "links",
    "in_flight",
    "pending",
    "untimed",
    "latest",
    "bus_free",
    "posted",
    "accepted",
    "next_posted",
    "open",
    "open_until",
    "quiet",
    "ready",
    "precharge_from",
    "free",
    "bus",
    "draw",
    "interleaved",
    "requests",
    "busy",
    "waited",
    "heard",
    "reached",
    "supplier",
    "walkers",
    "walking",
    "wait",
    // The refresh interval in which a channel was used last: rows tell what it did.
    "epoch",
    // What an IOMMU was asked to invalidate, and copies that an engine is at.
    "invalidated",
    "under_way",
    "waits",
];

fn without_time(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // Of what a stack counts its reads and writes take no time.
            if let Some(Value::Array(counters)) = fields.get_mut("Stack").and_then(|stack| stack.get_mut("counters")) {
                counters.truncate(2);
            }
            // Of what an IOMMU counts the walks and their loads do.
            if let Some(Value::Array(counters)) = fields.get_mut("iommu").and_then(|iommu| iommu.get_mut("counters")) {
                counters.truncate(3);
            }
            // Of what snooping counts all but the last, which is what broadcasts waited.
            if let Some(Value::Array(counters)) = fields.get_mut("Snoop").and_then(|snoop| snoop.get_mut("counters")) {
                counters.truncate(4);
            }
            fields.retain(|name, _| !OF_TIME.contains(&name.as_str()));
            fields.values_mut().for_each(without_time);
        }
        Value::Array(all) => all.iter_mut().for_each(without_time),
        _ => {}
    }
}

fn all_of(memory: &Hierarchy) -> Value {
    serde_json::from_str(&serde_json::to_string(memory).unwrap()).unwrap()
}

fn state(memory: &Hierarchy) -> Value {
    let mut value = all_of(memory);
    without_time(&mut value);
    value
}

/// Where two states differ, and in what.
fn difference(one: &Value, other: &Value, path: &str) -> Option<String> {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            a.iter().find_map(|(name, value)| difference(value, b.get(name)?, &format!("{path}.{name}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| difference(a, b, &format!("{path}[{i}]")))
        }
        _ => (one != other).then(|| format!("{path}: {one} and {other}")),
    }
}

/// What no more than an ordinary machine does is done by [`super::Warming`] where time stands still.
fn in_time(memory: &mut Hierarchy, features: &Features, op: Op, now: Ps) -> Option<Served> {
    // Nothing that came before is under way.
    memory.advance(now, &mut Vec::new());
    match op {
        Op::Read(core, line) if features.agent() != Some(core) => {
            Some(memory.access(&request(core, line, Access::Load), now).served)
        }
        Op::Write(core, line) if features.agent() != Some(core) => {
            Some(memory.access(&request(core, line, Access::Store), now).served)
        }
        Op::Copy(core, src, dst) => {
            let (src, dst) = (request(core, src, Access::Load), request(core, dst, Access::Store));
            memory.takes_copy(&src, &dst).then(|| {
                let reply = memory.copy(&src, &dst, now);
                memory.answered(reply, now).served
            })
        }
        Op::DeviceWrite(line) if !features.is_in_nic(line) => {
            memory.dma_write_packet((line % 2) as usize, Line(line), 1, now);
            None
        }
        Op::DeviceRead(line) => {
            memory.dma_read(Line(line), 1, now);
            None
        }
        _ => either_way(memory, features, op, now),
    }
}

fn without(memory: &mut Hierarchy, features: &Features, op: Op, now: Ps) -> Option<Served> {
    if let Op::Copy(core, src, dst) = op {
        let (src, dst) = (request(core, src, Access::Load), request(core, dst, Access::Store));
        return memory.takes_copy(&src, &dst).then(|| memory.warm().copy(&src, &dst, now));
    }
    let mut warm = memory.warm();
    match op {
        Op::Read(core, line) if features.agent() != Some(core) => {
            return Some(warm.access(&request(core, line, Access::Load), now));
        }
        Op::Write(core, line) if features.agent() != Some(core) => {
            return Some(warm.access(&request(core, line, Access::Store), now));
        }
        Op::DeviceWrite(line) if !features.is_in_nic(line) => {
            warm.write_packet((line % 2) as usize, Line(line), 1, now);
        }
        Op::DeviceRead(line) => warm.dma_read(Line(line), 1, now),
        _ => {
            drop(warm);
            memory.set_untimed(true);
            let served = either_way(memory, features, op, now);
            memory.set_untimed(false);
            return served;
        }
    }
    None
}

/// What the functional way calls as it is called in time.
fn either_way(memory: &mut Hierarchy, features: &Features, op: Op, now: Ps) -> Option<Served> {
    match op {
        Op::Read(core, line) => return Some(use_by_agent(memory, core, line, false, now).0),
        Op::Write(core, line) => return Some(use_by_agent(memory, core, line, true, now).0),
        Op::DeviceWrite(line) | Op::DeviceWriteTo(.., line) if features.is_in_nic(line) => {
            memory.forget(Line(line), 1, now)
        }
        Op::DeviceWriteTo(target, core, line) => _ = write_to(memory, target, core, line, now),
        Op::GiveUp(core, line) => _ = memory.give_up(CoreId(core), Line(line), 1, now),
        Op::Unmap(core, line) => _ = memory.unmap_for_device(core.into(), [(Line(line), 1)].into_iter(), now),
        Op::Copy(..) | Op::DeviceWrite(_) | Op::DeviceRead(_) => unreachable!("each way has its own"),
    }
    None
}

fn check(features: &Features, ops: &[Op]) -> Result<(), TestCaseError> {
    // Whether a row is closed by a refresh before it is used again depends on how long what came before takes.
    let seldom = Span::from_ns(1e9);
    let (mut timed, mut warmed) = (machine(features, seldom), machine(features, seldom));
    let ops: Vec<Op> = ops.iter().copied().filter(|&op| features.takes(op)).collect();
    let at = |i: usize| Ps::from_ns(500) * (i as u64 + 1);
    let half = ops.len() / 2;
    for (i, &op) in ops[..half].iter().enumerate() {
        let (one, other) = (in_time(&mut timed, features, op, at(i)), without(&mut warmed, features, op, at(i)));
        prop_assert_eq!(one, other, "{} {:?} of {:?}", i, op, features);
    }
    // Whose turn it was last is of no interest.
    for memory in [&mut timed, &mut warmed] {
        memory.enter_socket(0);
    }
    let differs = difference(&state(&timed), &state(&warmed), "memory");
    prop_assert_eq!(differs, None, "{:?}", features);
    // Written down and read, it goes on as it would have.
    let mut read: Hierarchy = serde_json::from_str(&serde_json::to_string(&warmed).unwrap()).unwrap();
    for (i, &op) in ops.iter().enumerate().skip(half) {
        let one = in_time(&mut timed, features, op, at(i));
        prop_assert_eq!(one, in_time(&mut warmed, features, op, at(i)), "{} {:?} of {:?}", i, op, features);
        prop_assert_eq!(one, in_time(&mut read, features, op, at(i)), "{} {:?} of {:?}", i, op, features);
    }
    for memory in [&warmed, &read] {
        prop_assert_eq!(timed.counters(), memory.counters());
        prop_assert_eq!(timed.copy_counters(), memory.copy_counters());
        prop_assert_eq!(timed.tails(), memory.tails());
    }
    prop_assert_eq!(difference(&all_of(&read), &all_of(&warmed), "memory"), None, "{:?}", features);
    Ok(())
}

/// With the usual refresh: what was used last before one that has not come yet is found as if it had been used in time.
#[test]
fn rows_that_were_touched_are_open_until_the_next_refresh() {
    for controllers in [false, true] {
        let features = Features::plain(controllers);
        let found = |is_warm: bool, line: u64, at: u64| {
            let mut memory = machine(&features, Span::from_ns(7800.0));
            // Twelve refresh intervals have gone, and 6.4 us of the next.
            let (first, then) = (request(0, 0, Access::Load), Ps::from_ns(100_000));
            if is_warm {
                memory.warm().access(&first, then);
            } else {
                memory.access(&first, then);
            }
            let answer = memory.access(&request(1, line, Access::Load), Ps::from_ns(at));
            answer.path.iter().map(|(reason, _)| reason).filter(|reason| OF_ROWS.contains(reason)).collect::<Vec<_>>()
        };
        // Another line of the row.
        let near = (1..4096).find(|&line| found(false, line, 100_100) == [Reason::RowHit]).unwrap();
        assert_eq!(found(true, near, 100_100), [Reason::RowHit], "controllers: {controllers}");
        for is_warm in [false, true] {
            assert_eq!(found(is_warm, near, 110_000), [Reason::RowMiss], "controllers: {controllers}");
        }
    }
}

const OF_ROWS: [Reason; 3] = [Reason::RowHit, Reason::RowMiss, Reason::RowConflict];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn without_time_a_machine_comes_to_the_state_that_it_comes_to_in_time(
        features in features(),
        ops in prop::collection::vec(any_op(), 1..400),
    ) {
        check(&features, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    #[ignore = "slow: 5,000 sets, for `make test-slow`"]
    fn without_time_many_machines_come_to_the_state_that_they_come_to_in_time(
        features in features(),
        ops in prop::collection::vec(any_op(), 1..400),
    ) {
        check(&features, &ops)?;
    }
}
