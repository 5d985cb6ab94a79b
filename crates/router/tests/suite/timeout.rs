//! How long a batch waits to be full, where nobody says: an estimate that the router's own waits do not drive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use functions::Verdict;
use packet::Packet;
use router::sink::{FrameSink, Nowhere};
use router::source::{FrameSource, NextFrame};
use router::{Backend, Committed, RouteOptions, RouteReport, RouterError, route};
use units::PortId;

use crate::made;

const SLOTS: u64 = 1 << 10;
/// What the made backend takes for a task.
const SERVICE: Duration = Duration::from_micros(20);

/// A backend that commits each task so long after it was posted.
struct Serving {
    packets: Vec<Packet>,
    posted: VecDeque<(Instant, Committed)>,
}

impl Serving {
    fn new() -> Serving {
        Serving { packets: vec![Packet::default(); SLOTS as usize], posted: VecDeque::new() }
    }
}

impl Backend for Serving {
    fn name(&self) -> &'static str {
        "made"
    }
    fn slots(&self) -> u64 {
        SLOTS
    }
    fn put(&mut self, number: u64, packet: &mut Packet) {
        std::mem::swap(&mut self.packets[(number % SLOTS) as usize], packet);
    }
    fn post(&mut self, first: u64, count: u32) -> Result<bool, RouterError> {
        self.posted.push_back((Instant::now() + SERVICE, Committed { first, count }));
        Ok(true)
    }
    fn room(&self) -> u64 {
        SLOTS
    }
    fn poll(&mut self, out: &mut Vec<Committed>) -> Result<(), RouterError> {
        while self.posted.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            out.extend(self.posted.pop_front().map(|(_, done)| done));
        }
        Ok(())
    }
    fn take(&mut self, number: u64, packet: &mut Packet) -> Result<Verdict, RouterError> {
        std::mem::swap(&mut self.packets[(number % SLOTS) as usize], packet);
        Ok(Verdict::Forward { port: PortId(0) })
    }
    fn stop(&mut self) -> Result<(), RouterError> {
        Ok(())
    }
}

/// Somebody at an interface who has `window` packets on their way and sends the next once one has come back.
struct Answered {
    window: u64,
    sent: u64,
    back: Arc<AtomicU64>,
}

impl FrameSource for Answered {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        if self.sent - self.back.load(Ordering::Relaxed) >= self.window {
            return Ok(NextFrame::NotYet);
        }
        *packet = made::packet(self.sent);
        self.sent += 1;
        Ok(NextFrame::Packet)
    }
    fn is_live(&self) -> bool {
        true
    }
}

/// Counts what comes back.
struct Back(Arc<AtomicU64>);

impl FrameSink for Back {
    fn send(&mut self, _: &Packet, _: PortId) -> Result<(), RouterError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn answered(window: u64, packets: u64) -> RouteReport {
    let back = Arc::new(AtomicU64::new(0));
    let mut source = Answered { window, sent: 0, back: back.clone() };
    let options =
        RouteOptions { packets: Some(packets), time: Some(Duration::from_secs(20)), ..RouteOptions::default() };
    route(&mut source, &mut Serving::new(), &mut Back(back), &options).unwrap()
}

#[test]
fn who_waits_for_its_answer_is_not_held_longer_and_longer() {
    for window in [1, 5] {
        // Were a wait a part of the gap, each would be about twice as long as the one before: 13 packets in that time.
        let report = answered(window, 100);
        assert_eq!(report.packets, 100, "window {window}: it had not ended after 20 s: {:?}", report.delay);
    }
}

/// Somebody who sends one packet, and it late.
struct Late(Option<Instant>);

impl FrameSource for Late {
    fn next(&mut self, packet: &mut Packet) -> Result<NextFrame, RouterError> {
        match self.0.take_if(|due| *due <= Instant::now()) {
            Some(_) => *packet = made::packet(0),
            None => return Ok(NextFrame::NotYet),
        }
        Ok(NextFrame::Packet)
    }
    fn is_live(&self) -> bool {
        true
    }
}

#[test]
fn the_first_packet_does_not_wait_as_long_as_nobody_came_before_it() {
    let silence = Duration::from_millis(400);
    let options = RouteOptions { time: Some(4 * silence), ..RouteOptions::default() };
    let mut source = Late(Some(Instant::now() + silence));
    let report = route(&mut source, &mut Serving::new(), &mut Nowhere, &options).unwrap();
    let delay = report.delay.unwrap();
    assert_eq!(delay.packets, 1);
    assert!(delay.max_us < silence.as_micros() as f64 / 2.0, "{delay:?}");
}
