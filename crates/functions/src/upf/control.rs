//! What the control plane asks for: sessions and rules come, change and go, and usage is reported.

use std::collections::HashMap;
use std::sync::Arc;

use packet::Packet;

use super::lines::{FarLine, HAS_V4, HAS_V6, PdrLine, QerLine, SessionLine, UrrLine};
use super::{Action, Capacity, Direction, Known, Pdr, PduSession, SdfFilter, Trigger, Upf, UsageReport, Volume};
use crate::FunctionError;

impl Upf {
    /// Takes up a session (PFCP session establishment).
    ///
    /// # Errors
    /// Rules that contradict each other ([`PduSession::check`]), an identifier or address that another session
    /// has, no room. Nothing has happened then.
    pub fn establish(&mut self, session: &PduSession) -> Result<(), FunctionError> {
        session.check()?;
        let error = |what: &str, came: String, allowed: &str| {
            let path = format!("session[seid = {}].{what}", session.seid);
            Err(FunctionError::Value { path, came, allowed: allowed.into() })
        };
        let need = Capacity::of(std::slice::from_ref(session));
        let rules = &self.rules;
        if rules.known.contains_key(&session.seid) {
            return error(
                "seid",
                session.seid.to_string(),
                "there is such a session (release it, or number them apart)",
            );
        }
        if rules.teids.get(session.uplink_teid.into()).is_some() {
            return error("uplink_teid", session.uplink_teid.to_string(), "another session has it: give each its own");
        }
        let v4 = session.ue_v4.map(|a| u64::from(u32::from(a)));
        let v6 = session.ue_v6.map(|a| (u128::from(a) >> 64) as u64);
        if let Some(a) = session.ue_v4.filter(|_| v4.is_some_and(|a| rules.ue_v4.get(a).is_some())) {
            return error("ue", a.to_string(), "another session has it: give each its own");
        }
        if let Some(a) = session.ue_v6.filter(|_| v6.is_some_and(|a| rules.ue_v6.get(a).is_some())) {
            return error("ue", a.to_string(), "another session has it: give each its own");
        }
        let fits = |used: usize, free: &HashMap<u32, Vec<u32>>, n: u32, room: u32| {
            n == 0 || free.get(&n).is_some_and(|f| !f.is_empty()) || used as u64 + u64::from(n) <= u64::from(room)
        };
        let lists = expand(session);
        let [up, down] = lists.each_ref().map(|l| l.len() as u32);
        let space = [
            rules.sessions.len() < self.room.sessions as usize || !rules.free.sessions.is_empty(),
            // Two lists, each in a place of its own.
            fits(rules.pdrs.len(), &rules.free.pdrs, up, self.room.pdrs.saturating_sub(down))
                && fits(rules.pdrs.len(), &rules.free.pdrs, down, self.room.pdrs.saturating_sub(up)),
            fits(rules.fars.len(), &rules.free.fars, need.fars, self.room.fars),
            fits(self.qers.len(), &rules.free.qers, need.qers, self.room.qers),
            fits(self.urrs.len(), &rules.free.urrs, need.urrs, self.room.urrs),
        ];
        for (has_room, (what, room)) in space.into_iter().zip([
            ("sessions", self.room.sessions),
            ("pdrs", self.room.pdrs),
            ("fars", self.room.fars),
            ("qers", self.room.qers),
            ("urrs", self.room.urrs),
        ]) {
            if !has_room {
                return error(what, "too many".into(), &format!("there is room for {room} in all (reserve more)"));
            }
        }
        let rules = Arc::make_mut(&mut self.rules);
        let fars = put(&mut rules.fars, &mut rules.free.fars, session.fars.iter().map(FarLine::from));
        let qers = put(&mut self.qers, &mut rules.free.qers, session.qers.iter().map(QerLine::from));
        let urrs = put(&mut self.urrs, &mut rules.free.urrs, session.urrs.iter().map(UrrLine::from));
        let [up, down] = lists.map(|list| {
            let lines = list.iter().map(|(pdr, filter)| PdrLine::new(pdr, filter, session, fars.0, qers.0, urrs.0));
            put(&mut rules.pdrs, &mut rules.free.pdrs, lines)
        });
        let free = rules.free.sessions.last().and_then(|&at| rules.sessions.get(at as usize));
        let line = SessionLine {
            generation: free.map_or(0, |line| line.generation),
            seid: session.seid,
            ue_v6: v6.unwrap_or(0),
            ue_v4: session.ue_v4.map_or(0, u32::from),
            has: v4.map_or(0, |_| HAS_V4) | v6.map_or(0, |_| HAS_V6),
            pdrs: [up, down],
            uplink_teid: session.uplink_teid,
            fars,
            qers,
        };
        let at = match rules.free.sessions.pop() {
            Some(at) => {
                rules.sessions[at as usize] = line;
                at
            }
            None => {
                rules.sessions.push(line);
                rules.sessions.len() as u32 - 1
            }
        };
        rules.teids.insert(session.uplink_teid.into(), at);
        if let Some(v4) = v4 {
            rules.ue_v4.insert(v4, at);
        }
        if let Some(v6) = v6 {
            rules.ue_v6.insert(v6, at);
        }
        let known = Known {
            at,
            fars: session.fars.iter().map(|f| f.id).collect(),
            urrs: session.urrs.iter().map(|u| u.id).collect(),
            first_urr: urrs.0,
        };
        rules.known.insert(session.seid, known);
        Ok(())
    }

    /// Lets a session go (PFCP session deletion), with what it has buffered. Its usage is reported.
    /// `false` if there is no such session.
    pub fn release(&mut self, seid: u64) -> bool {
        let rules = Arc::make_mut(&mut self.rules);
        let Some(known) = rules.known.remove(&seid) else { return false };
        let at = known.at;
        let line = rules.sessions[at as usize];
        for (&id, place) in known.urrs.iter().zip(known.first_urr as usize..) {
            self.reports.push(self.urrs[place].report(seid, id, Trigger::Release));
        }
        rules.teids.remove(line.uplink_teid.into());
        if line.has & HAS_V4 != 0 {
            rules.ue_v4.remove(line.ue_v4.into());
        }
        if line.has & HAS_V6 != 0 {
            rules.ue_v6.remove(line.ue_v6);
        }
        for (first, n) in line.pdrs {
            give(&mut rules.free.pdrs, first, n);
        }
        give(&mut rules.free.fars, line.fars.0, line.fars.1);
        give(&mut rules.free.qers, line.qers.0, line.qers.1);
        give(&mut rules.free.urrs, known.first_urr, known.urrs.len() as u32);
        rules.sessions[at as usize] =
            SessionLine { generation: line.generation.wrapping_add(1), ..SessionLine::default() };
        rules.free.sessions.push(at);
        for (slot, kept) in self.buffer.iter_mut().enumerate() {
            if kept.as_ref().is_some_and(|k| k.session == at) {
                *kept = None;
                self.free_buffers.push(slot as u32);
            }
        }
        true
    }

    /// Changes a forwarding action rule (PFCP session modification), as when a UE becomes idle or comes
    /// back. Packets that were buffered for it and may go now are given back in the order in which they
    /// came, to be processed again; `None` if there is no such session or rule.
    pub fn set_action(&mut self, seid: u64, far: u32, action: Action) -> Option<Vec<Packet>> {
        let known = self.rules.known.get(&seid)?;
        let (at, place) = (known.at, known.fars.iter().position(|id| *id == far)?);
        let rules = Arc::make_mut(&mut self.rules);
        let first = rules.sessions[at as usize].fars.0;
        rules.fars[first as usize + place].action = action.into();
        let generation = &mut rules.sessions[at as usize].generation;
        *generation = generation.wrapping_add(1);
        if action == Action::Buffer {
            return Some(Vec::new());
        }
        let mut kept = Vec::new();
        for (slot, place) in self.buffer.iter_mut().enumerate() {
            if place.as_ref().is_some_and(|k| k.session == at)
                && let Some(k) = place.take()
            {
                kept.push(k.packet);
                self.free_buffers.push(slot as u32);
            }
        }
        kept.sort_by_key(|p| p.id);
        Some(kept)
    }

    /// Usage reports that were triggered since the last call.
    pub fn take_reports(&mut self) -> Vec<UsageReport> {
        std::mem::take(&mut self.reports)
    }

    /// Bytes and packets that a usage reporting rule has counted since its last report, uplink and downlink.
    pub fn usage(&self, seid: u64, urr: u32) -> Option<[Volume; 2]> {
        let known = self.rules.known.get(&seid)?;
        let place = known.urrs.iter().position(|id| *id == urr)?;
        let line = &self.urrs[known.first_urr as usize + place];
        Some([0, 1].map(|i| Volume { bytes: line.bytes[i], packets: line.packets[i].into() }))
    }
}

/// A session's rules of each direction by precedence and id, one for each filter.
fn expand(session: &PduSession) -> [Vec<(&Pdr, SdfFilter)>; 2] {
    let mut order: Vec<&Pdr> = session.pdrs.iter().collect();
    order.sort_by_key(|p| (p.precedence, p.id));
    [Direction::Uplink, Direction::Downlink].map(|direction| {
        let of = order.iter().filter(|p| p.direction == direction);
        of.flat_map(|&p| {
            let all = p.filters.is_empty().then(SdfFilter::default);
            all.into_iter().chain(p.filters.iter().copied()).map(move |f| (p, f))
        })
        .collect()
    })
}

/// Puts lines in a row, where a row of as many is free or at the end.
fn put<T>(lines: &mut Vec<T>, free: &mut HashMap<u32, Vec<u32>>, new: impl ExactSizeIterator<Item = T>) -> (u32, u32) {
    let n = new.len() as u32;
    match free.get_mut(&n).and_then(Vec::pop) {
        Some(first) => {
            for (line, new) in lines[first as usize..].iter_mut().zip(new) {
                *line = new;
            }
            (first, n)
        }
        None => {
            let first = lines.len() as u32;
            lines.extend(new);
            (first, n)
        }
    }
}

fn give(free: &mut HashMap<u32, Vec<u32>>, first: u32, n: u32) {
    if n > 0 {
        free.entry(n).or_default().push(first);
    }
}
