//! What a run of the user plane function needs: its sessions, the function built from them, and the traffic of their
//! UEs.

use std::path::Path;
use std::sync::Arc;

use functions::upf::{Action, Capacity, Direction, Far, Pdr, PduSession, Qer, Urr, parse_sessions};
use functions::{Function, Upf};
use packet::Prefix;
use traffic::mobile::{Mobile, Subscriber, read_sessions};
use traffic::{Blueprint, SourceSpec, Stop};

use crate::load::{Loaded, Routing, files, traffic_notes};
use crate::scenario::files::file_name;
use crate::scenario::{Scenario, ScenarioError, UserPlaneSpec};

/// The function with its sessions, and their traffic.
#[derive(Debug)]
pub(crate) struct UserPlane {
    function: Function,
    blueprint: Arc<Blueprint>,
    routing: Arc<Routing>,
    content: Option<String>,
}

impl UserPlane {
    /// Reads or makes sessions, and makes traffic of their UEs; or reads a capture, whose UEs get a session each where there is no
    /// file of sessions.
    ///
    /// # Errors
    /// A file that cannot be read or used, sessions or traffic that cannot be.
    pub(crate) fn load(spec: &UserPlaneSpec, source: &SourceSpec, stop: &Stop) -> Result<UserPlane, ScenarioError> {
        let capture = match &source.capture {
            Some(path) => Some(Blueprint::mobile_capture(source, path, stop)?),
            None => None,
        };
        let mut subscribers = Vec::new();
        let (mut content, mut remotes) = (None, Vec::new());
        let upf = match (&spec.sessions, &capture) {
            (Some(path), _) => {
                let (text, hash) = read_sessions(path)?;
                let sessions = parse_sessions(&text, &file_name(path)).map_err(ScenarioError::UserPlane)?.sessions;
                content = Some(hash);
                remotes = far_ends(&sessions);
                build(spec, Capacity::of(&sessions), sessions.into_iter(), &mut subscribers)?
            }
            (None, Some(capture)) => {
                let sessions: Vec<_> = (1..).zip(capture.subscribers()).map(|(seid, s)| learnt(seid, s)).collect();
                build(spec, Capacity::of(&sessions), sessions.into_iter(), &mut subscribers)?
            }
            (None, None) => {
                remotes = spec.load.remotes();
                build(spec, spec.load.capacity(), spec.load.sessions(), &mut subscribers)?
            }
        };
        let blueprint = match capture {
            Some(capture) => capture,
            None => {
                let address = spec.processing.address;
                Blueprint::mobile(source, Mobile::new(subscribers, address, spec.uplink, remotes, "function.upf")?)?
            }
        };
        let (sessions, rules) = (upf.sessions(), upf.pdrs());
        let made = match (&spec.sessions, &source.capture) {
            (Some(path), _) => file_name(path),
            (None, Some(_)) => "learnt from the capture".into(),
            (None, None) => "made".into(),
        };
        Ok(UserPlane {
            function: Function::Upf(upf),
            blueprint: Arc::new(blueprint),
            routing: Arc::new(Routing::none(format!("no routes: {sessions} sessions with {rules} PDRs, {made}"))),
            content,
        })
    }

    pub(crate) fn loaded(&self, scenario: &Scenario) -> Loaded {
        let path: Option<&Path> = scenario.function.upf.sessions.as_deref();
        Loaded {
            function: self.function.clone(),
            blueprint: self.blueprint.clone(),
            routing: self.routing.clone(),
            notes: traffic_notes(scenario, &self.blueprint),
            inputs: files(scenario, &self.blueprint, ("sessions", path, self.content.as_deref())),
        }
    }
}

/// Registers sessions one by one, and keeps what their traffic needs.
fn build(
    spec: &UserPlaneSpec,
    room: Capacity,
    sessions: impl Iterator<Item = PduSession>,
    subscribers: &mut Vec<Subscriber>,
) -> Result<Upf, ScenarioError> {
    let mut upf = Upf::new(&spec.processing, room).map_err(ScenarioError::UserPlane)?;
    for session in sessions {
        upf.establish(&session).map_err(ScenarioError::UserPlane)?;
        let access = session.fars.iter().find_map(|far| match far.action {
            Action::ToAccess { peer, teid, qfi } => Some((peer, teid, qfi)),
            _ => None,
        });
        // A session that has no tunnel to a base station still has one from it.
        let (peer, downlink_teid, qfi) = access.unwrap_or((spec.processing.address, 0, 0));
        subscribers.push(Subscriber {
            v4: session.ue_v4,
            v6: session.ue_v6,
            uplink_teid: session.uplink_teid,
            peer,
            downlink_teid,
            qfi,
        });
    }
    Ok(upf)
}

/// Where the rules of sessions point to, each network once.
fn far_ends(sessions: &[PduSession]) -> Vec<Prefix> {
    let filters = sessions.iter().flat_map(|s| &s.pdrs).flat_map(|p| &p.filters);
    let mut all: Vec<Prefix> = filters.filter_map(|f| f.remote).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A session that lets everything pass, for a UE of a capture.
fn learnt(seid: u64, of: &Subscriber) -> PduSession {
    let rule = |id: u16, direction: Direction| Pdr {
        id,
        precedence: 255,
        direction,
        filters: Vec::new(),
        qfi: None,
        far: id.into(),
        qers: vec![1],
        urrs: vec![1],
    };
    let to_access = Action::ToAccess { peer: of.peer, teid: of.downlink_teid, qfi: of.qfi };
    PduSession {
        seid,
        ue_v4: of.v4,
        ue_v6: of.v6,
        uplink_teid: of.uplink_teid,
        pdrs: vec![rule(1, Direction::Uplink), rule(2, Direction::Downlink)],
        fars: vec![Far { id: 1, action: Action::ToCore }, Far { id: 2, action: to_access }],
        qers: vec![Qer { id: 1, ..Qer::default() }],
        urrs: vec![Urr { id: 1, ..Urr::default() }],
    }
}
