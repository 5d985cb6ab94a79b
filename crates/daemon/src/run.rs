//! The loop: observe, decide, apply, with the values from before on the disk first, and a way back at every step.

use std::any::Any;
use std::collections::BTreeMap;

use control::{Actuator, Allocation, Observation, Policy};
use host::resctrl::IoAlloc;
use host::{CounterSource, HostError, HostMachine, IoBackend};
use policy::baseline::Isolated;
use policy::{Allocator, AllocatorSpec, Steering, StepOutcome};
use tracing::Level;
use units::Ps;

use crate::config::DaemonPolicyKind;
use crate::restore::{RestoreReport, restore};
use crate::undecided::{Undecided, UndecidedNews, UndecidedNotice};
use crate::{
    Circumstances, DaemonConfig, DaemonError, DaemonSetup, Effect, Journal, JournalEntry, Metrics, Parts, StateFolder,
    Verified, VerifySpec,
};

/// A machine that journals before it is set.
pub struct Guarded {
    machine: HostMachine,
    parts: Parts,
    state: StateFolder,
    journal: Journal,
    /// Nothing may be written.
    dry: bool,
}

impl Guarded {
    /// The machine.
    pub fn machine(&self) -> &HostMachine {
        &self.machine
    }

    /// Puts an entry on the disk, if its thing is not there yet.
    fn note(&mut self, entry: JournalEntry) -> Result<(), DaemonError> {
        if self.journal.has(&entry) {
            return Ok(());
        }
        let mut next = self.journal.clone();
        next.entries.push(entry);
        self.state.keep(&next)?;
        self.journal = next;
        Ok(())
    }

    /// What settings will change, as it is now.
    fn note_all(&mut self, allocation: &Allocation) -> Result<(), DaemonError> {
        for (clos, _) in &allocation.classes {
            let Some(class) = self.machine.classes().iter().find(|c| c.clos == *clos).cloned() else { continue };
            let made = JournalEntry::Made { group: class.group.clone() };
            if !self.journal.has(&made) {
                let domains = class.placement.domains();
                // Domains that are offline may come between this and the write.
                if domains.as_ref().is_none_or(|domains| !domains.is_empty()) {
                    let masks = class.placement.own(&self.machine.resctrl().masks(&class.group)?);
                    self.note(JournalEntry::Masks { group: class.group, masks, domains })?;
                }
            }
        }
        if allocation.io_ways.is_some() {
            match self.machine.io() {
                IoBackend::Register(register) => {
                    let values = register.read_all()?;
                    self.note(JournalEntry::Register { values })?;
                }
                IoBackend::Kernel(domains) => {
                    let domains = domains.clone();
                    let masks = match self.machine.resctrl().io_alloc()? {
                        IoAlloc::Enabled(masks) => Some(host::within(&masks, &domains)),
                        IoAlloc::Disabled | IoAlloc::Unsupported => None,
                    };
                    self.note(JournalEntry::IoAlloc { masks, domains })?;
                }
                IoBackend::Fixed(_) | IoBackend::Unknown => {}
            }
        }
        Ok(())
    }

    /// Makes the groups that are missing, and gives them their processors.
    fn make(&mut self, setup: &DaemonSetup) -> Result<(), DaemonError> {
        let _lock = setup.resctrl.lock()?;
        for (group, cpus) in &setup.missing {
            self.note(JournalEntry::Made { group: group.clone() })?;
            if let Err(why) = setup.resctrl.create(group) {
                if why.is_taken() {
                    // Somebody was faster: it is not ours to remove.
                    self.journal.entries.retain(|e| !matches!(e, JournalEntry::Made { group: g } if g == group));
                    self.state.keep(&self.journal)?;
                }
                return Err(why.into());
            }
            if !cpus.0.is_empty() {
                setup.resctrl.set_cpus(group, cpus)?;
            }
        }
        Ok(())
    }
}

impl Actuator for Guarded {
    type Error = DaemonError;

    fn observe(&mut self) -> Result<Observation, DaemonError> {
        Ok(self.machine.observe()?)
    }

    fn apply(&mut self, allocation: &Allocation) -> Result<(), DaemonError> {
        if self.dry {
            return Ok(());
        }
        self.note_all(allocation)?;
        Ok(self.machine.apply(allocation)?)
    }
}

/// How the loop ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// It was asked to.
    Asked,
    /// A group of ours is gone, settings fail, counters stay away, or somebody else keeps setting what we set.
    GaveUp(String),
}

/// What one interval did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntervalStep {
    /// The loop goes on.
    GoOn,
    /// It must end.
    End(LoopEnd),
}

/// The daemon.
pub struct Daemon {
    guarded: Guarded,
    steering: Steering<Verified<Box<dyn Policy + Send>>>,
    config: DaemonConfig,
    setup: DaemonSetup,
    /// What was applied last.
    applied: Option<Allocation>,
    blind: u32,
    refused: u32,
    contended: u32,
    metrics: Metrics,
    /// Names of classes by number.
    names: BTreeMap<u8, String>,
    told: Option<Allocation>,
    /// What the last interval saw.
    seen: Option<Observation>,
    effect_told: bool,
    notice: UndecidedNotice,
    /// No other daemon sets this machine meanwhile.
    _claim: Option<Box<dyn Any + Send>>,
}

/// The policy of a configuration.
pub(crate) fn policy_of(config: &DaemonConfig, setup: &DaemonSetup) -> Result<Box<dyn Policy + Send>, DaemonError> {
    let floors = setup.floors.clone();
    let is_fixed = matches!(setup.io, IoBackend::Fixed(_));
    let start = if is_fixed { floors.io } else { setup.start_io };
    Ok(match config.policy.kind {
        DaemonPolicyKind::Allocator if !is_fixed => {
            let spec = AllocatorSpec { floors, start_io: start, rx_class: 1, ..AllocatorSpec::default() };
            Box::new(Allocator::new(spec)?)
        }
        // There is nothing to move: the ways that devices do not fill are the cores'.
        DaemonPolicyKind::Allocator | DaemonPolicyKind::Isolated => Box::new(Isolated::new(floors, start)),
    })
}

/// That policy, beginning with a measurement where one is wanted.
fn verified<P: Policy>(
    inner: P,
    config: &DaemonConfig,
    setup: &DaemonSetup,
    known: Option<Effect>,
    apply: bool,
) -> Verified<P> {
    let floors = setup.floors.clone();
    match (&setup.io, known) {
        (IoBackend::Register(_), Some(effect @ (Effect::Measured | Effect::None))) => {
            Verified::known(inner, floors, effect)
        }
        (IoBackend::Register(_), _) if apply && config.io.verify => {
            let measurement = VerifySpec { intervals: config.io.verify_intervals, loss: config.io.verify_loss };
            let policy = Verified::new(inner, floors, measurement);
            let [fewest, most] = policy.io_ways();
            let (intervals, loss) = (measurement.intervals, measurement.loss);
            tracing::warn!(
                event = "measurement",
                most,
                fewest,
                intervals,
                loss,
                "device writes get the most ways and then the fewest, cores the fewest, on live traffic; that ends early when \
                 such a share of packets more is lost (io.verify = false omits it)"
            );
            policy
        }
        _ => Verified::known(inner, floors, Effect::Unknown),
    }
}

/// Names of classes as the configuration has them.
fn names_of(config: &DaemonConfig, classes: &[host::ServiceClass]) -> BTreeMap<u8, String> {
    let named = config.numbers().into_iter().map(|(clos, class)| (clos, class.name.clone()));
    let root = classes.iter().any(|c| c.clos.0 == 0).then(|| (0, "default".to_string()));
    named.chain(root).collect()
}

impl Daemon {
    /// Looks at the machine and prepares; with `apply`, puts back first what a daemon that died has left, then makes groups.
    ///
    /// # Errors
    /// The configuration does not fit the machine; what was made is undone then.
    pub fn new(
        config: DaemonConfig,
        parts: Parts,
        sources: Vec<Box<dyn CounterSource>>,
        metrics: Metrics,
        apply: bool,
        wait: &mut dyn FnMut(u32),
        clock: impl FnMut() -> Ps + Send + 'static,
    ) -> Result<Daemon, DaemonError> {
        let state = if apply { StateFolder::lock(&config.state)? } else { StateFolder::read_only(&config.state) };
        let claim = if apply { parts.claim()? } else { None };
        if apply {
            let report = restore(&state, &parts, wait)?;
            if report != RestoreReport::default() {
                tracing::warn!(event = "recovered", restored = ?report.restored, safe = ?report.safe);
            }
        }
        let setup = DaemonSetup::new(&config, &parts)?;
        for note in &setup.notes {
            tracing::info!(event = "note", note = note.as_str());
        }
        // All that can be wrong with the configuration is found before anything is made.
        let inner = policy_of(&config, &setup)?;
        let classes = if apply { setup.classes.clone() } else { setup.readable() };
        let names = names_of(&config, &classes);
        let machine = setup.machine(classes, sources, clock)?;
        let journal = Journal { boot: parts.boot(), ..Journal::default() };
        let mut guarded = Guarded { machine, parts, state, journal, dry: !apply };
        if apply && let Err(why) = guarded.make(&setup) {
            restore(&guarded.state, &guarded.parts, wait)?;
            return Err(why);
        }
        let known = guarded.state.effect(&setup.name());
        let policy = verified(inner, &config, &setup, known, apply);
        let effect = policy.effect();
        let steering = if apply { Steering::new(policy) } else { Steering::dry_run(policy) };
        let mut daemon = Daemon {
            guarded,
            steering,
            config,
            setup,
            applied: None,
            blind: 0,
            refused: 0,
            contended: 0,
            metrics,
            names,
            told: None,
            seen: None,
            effect_told: false,
            notice: UndecidedNotice::default(),
            _claim: claim,
        };
        if let Some(Effect::None) = effect
            && let Err(why) = daemon.mark_without_effect(wait)
        {
            daemon.end(wait)?;
            return Err(why);
        }
        Ok(daemon)
    }

    /// What is known of the effect of changing the ways of devices.
    pub fn effect(&self) -> Option<Effect> {
        self.steering.policy().effect()
    }

    /// What the last interval saw of the machine; nothing where it could not be read.
    pub fn seen(&self) -> Option<&Observation> {
        self.seen.as_ref()
    }

    /// The machine.
    pub fn guarded(&self) -> &Guarded {
        &self.guarded
    }

    /// One interval.
    pub fn step(&mut self, wait: &mut dyn FnMut(u32)) -> IntervalStep {
        let outcome = self.steering.step(&mut self.guarded);
        self.seen = outcome.seen().cloned();
        let lost_pps = outcome.seen().and_then(|seen| seen.lost_pps).map(|s| s.value);
        let undecided = self.steering.policy().lacks().map(|lack| Undecided { lack, lost_pps });
        let experiment_loses = outcome.seen().and_then(|seen| self.steering.policy().loses(seen));
        let faults = self.guarded.machine.faults();
        let masks = self.guarded.machine.masks();
        let of =
            Circumstances { faults, effect: self.effect(), undecided, experiment_loses, classes: &self.names, masks };
        self.metrics.interval(&outcome, &of);
        match self.notice.news(undecided, outcome.seen()) {
            Some(UndecidedNews::Begins(undecided)) => {
                let (reason, faults) = (crate::undecided::reason(undecided.lack), faults.join("; "));
                tracing::warn!(event = "undecided", reason, lost_pps, faults, "{undecided}");
            }
            Some(UndecidedNews::Ends) => tracing::info!(event = "decides", "the policy has what it decides by again"),
            None => {}
        }
        let step = self.judge(outcome);
        if step == IntervalStep::GoOn && !self.effect_told && !self.guarded.dry {
            match self.effect() {
                Some(Effect::None) => {
                    if let Err(why) = self.mark_without_effect(wait) {
                        return IntervalStep::End(LoopEnd::GaveUp(why.to_string()));
                    }
                }
                Some(effect) => {
                    self.effect_told = true;
                    if let Some(stopped) = self.steering.policy().stopped() {
                        let (before, during, io_ways) = (stopped.before, stopped.during, stopped.io_ways);
                        tracing::warn!(
                            event = "measurement",
                            before,
                            during,
                            io_ways,
                            "it ended early: it lost packets"
                        );
                    }
                    tracing::info!(event = "effect", io_ways = ?effect);
                    if effect == Effect::Measured
                        && let Err(why) = self.guarded.state.keep_effect(&self.setup.name(), effect)
                    {
                        tracing::warn!(event = "state", error = %why);
                    }
                }
                None => {}
            }
        }
        step
    }

    fn judge(&mut self, outcome: StepOutcome<DaemonError>) -> IntervalStep {
        match outcome {
            StepOutcome::Held(seen) => {
                (self.blind, self.refused) = (0, 0);
                if self.changed_by_others(&seen) {
                    return self.count_contention();
                }
                let io_ways = seen.in_force.io_ways.map(|w| format!("{:x}", w.0));
                if self.guarded.dry && self.told.take().is_some() {
                    tracing::info!(event = "decision", decision = "hold", io_ways, "nothing would be changed any more");
                } else {
                    tracing::debug!(event = "decision", decision = "hold", io_ways);
                }
                IntervalStep::GoOn
            }
            StepOutcome::Applied(seen, allocation) => {
                (self.blind, self.refused) = (0, 0);
                let by_others = self.changed_by_others(&seen);
                // A dry run wants the same in each interval.
                let is_news = !self.guarded.dry || self.told.as_ref() != Some(&allocation);
                let decision = if self.guarded.dry { "would_apply" } else { "apply" };
                self.tell(if is_news { Level::INFO } else { Level::DEBUG }, decision, &seen, &allocation, None);
                self.told = Some(allocation.clone());
                if !self.guarded.dry {
                    self.applied = Some(allocation);
                }
                if by_others { self.count_contention() } else { IntervalStep::GoOn }
            }
            StepOutcome::Refused(seen, allocation, why) => {
                self.refused += 1;
                self.tell(Level::INFO, "refused", &seen, &allocation, Some(&why));
                // What is in force is not what is wanted: the next interval tries again.
                let is_half = matches!(why, DaemonError::Host(HostError::HalfApplied { .. }));
                let is_own = matches!(why, DaemonError::File { .. } | DaemonError::Journal { .. });
                if is_half || is_own || self.refused >= self.config.patience {
                    return IntervalStep::End(LoopEnd::GaveUp(format!("settings cannot be applied: {why}")));
                }
                IntervalStep::GoOn
            }
            StepOutcome::Blind(why) => {
                self.blind += 1;
                tracing::warn!(event = "decision", decision = "blind", error = %why);
                let gone = matches!(&why, DaemonError::Host(e) if e.is_gone());
                if gone || self.blind >= self.config.patience {
                    return IntervalStep::End(LoopEnd::GaveUp(format!("the machine cannot be read: {why}")));
                }
                IntervalStep::GoOn
            }
        }
    }

    /// Whether what we applied is not in force any more.
    fn changed_by_others(&mut self, seen: &Observation) -> bool {
        let Some(applied) = &self.applied else { return false };
        let differs = |(clos, mask): &(units::Clos, units::Cbm)| {
            seen.in_force.classes.iter().any(|(c, m)| c == clos && m != mask)
        };
        let io = applied.io_ways.zip(seen.in_force.io_ways).is_some_and(|(a, b)| a != b);
        let changed = io || applied.classes.iter().any(differs);
        if changed {
            // Counted once, whether or not the policy sets it again.
            self.applied = None;
        }
        changed
    }

    fn count_contention(&mut self) -> IntervalStep {
        self.contended += 1;
        tracing::warn!(event = "contention", times = self.contended, "somebody else has set what we had set");
        if self.contended >= self.config.contention {
            let why = format!("somebody else has set our groups {} times: only one may", self.contended);
            return IntervalStep::End(LoopEnd::GaveUp(why));
        }
        IntervalStep::GoOn
    }

    fn tell(
        &self,
        level: Level,
        decision: &str,
        seen: &Observation,
        allocation: &Allocation,
        error: Option<&DaemonError>,
    ) {
        let value = |c: control::Counter| c.map(|s| s.value);
        let rx = seen.classes.iter().find(|c| c.clos.0 == 1);
        let masks = allocation.classes.iter().map(|(c, m)| format!("{}={:x}", c.0, m.0)).collect::<Vec<_>>().join(";");
        // A level is part of what a place in the source says.
        macro_rules! line {
            ($say:ident) => {
                tracing::$say!(
                    event = "decision",
                    decision,
                    io_ways = allocation.io_ways.map(|w| format!("{:x}", w.0)),
                    io_ways_before = seen.in_force.io_ways.map(|w| format!("{:x}", w.0)),
                    classes = masks,
                    received_pps = value(seen.received_pps),
                    lost_pps = value(seen.lost_pps),
                    ddio_write_miss_rate = value(seen.ddio_write_miss_rate),
                    llc_miss_rate = rx.and_then(|c| value(c.llc_miss_rate)),
                    busy = rx.and_then(|c| value(c.busy)),
                    error = error.map(ToString::to_string),
                )
            };
        }
        if level == Level::DEBUG { line!(debug) } else { line!(info) }
    }

    /// The register changes nothing: it is put back, left alone from now on, and that is remembered.
    fn mark_without_effect(&mut self, wait: &mut dyn FnMut(u32)) -> Result<(), DaemonError> {
        self.effect_told = true;
        tracing::warn!(
            event = "effect",
            io_ways = "none",
            "changes of the ways of device writes have no effect: they are left alone"
        );
        if !self.guarded.dry {
            self.guarded.state.keep_effect(&self.setup.name(), Effect::None)?;
        }
        let register = self.guarded.journal.entries.iter().find_map(|e| match e {
            JournalEntry::Register { values } => Some(values.clone()),
            _ => None,
        });
        let ways = match (&self.guarded.machine.io(), register) {
            (IoBackend::Register(device), Some(values)) => {
                let mut tries = 0;
                while let Err(why) = device.write(&values) {
                    tries += 1;
                    if !why.may_pass() || tries > 5 {
                        return Err(why.into());
                    }
                    wait(tries);
                }
                values.first().map(|(_, ways)| *ways)
            }
            (IoBackend::Register(device), None) => Some(device.read()?),
            _ => None,
        };
        let Some(ways) = ways else { return Ok(()) };
        self.guarded.machine.fix_io(ways);
        self.setup.io = IoBackend::Fixed(ways);
        crate::setup::fix(&mut self.setup.floors, ways)?;
        let inner = policy_of(&self.config, &self.setup)?;
        let policy = Verified::known(inner, self.setup.floors.clone(), Effect::None);
        self.steering = if self.guarded.dry { Steering::dry_run(policy) } else { Steering::new(policy) };
        self.applied = None;
        Ok(())
    }

    /// Ends: everything is as it was.
    ///
    /// # Errors
    /// As [`restore()`].
    pub fn end(self, wait: &mut dyn FnMut(u32)) -> Result<RestoreReport, DaemonError> {
        if self.guarded.dry {
            return Ok(RestoreReport::default());
        }
        restore(&self.guarded.state, &self.guarded.parts, wait)
    }
}
