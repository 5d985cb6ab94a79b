//! Parts of a machine by name: its processor, its NIC, the driver, the program. Each is a file that lies beneath what the machine's
//! preset says itself, or over it where a program has its usual rings and bursts; one that is named in its place takes all of it away.

use std::path::Path;

use units::Rate;

use super::error::ScenarioError;
use super::overlay::{DRIVER, PROGRAM, apply_standard, get_mut, merge, open_name, refuse_counted_masks, table};
use super::own_machine::OwnFile;
use super::presets::{
    ALIASES, ARCHITECTURES, DRIVERS, MACHINES, NICS, PROCESSORS, PROGRAMS, Preset, find, known, names, nearest,
};
use super::{own_machine, own_part};

/// A kind of part.
#[derive(Clone, Copy)]
pub(super) struct PartKind {
    /// What one is called.
    noun: &'static str,
    /// The setting that names it.
    path: &'static str,
    form: PartForm,
    /// Shipped ones.
    lists: &'static [&'static [Preset]],
    /// Of a preset that names none: whether it is this part that a setting of the preset describes.
    describes: fn(&[&str]) -> bool,
    place: PartPlace,
}

/// How a part is named.
#[derive(Clone, Copy, PartialEq)]
enum PartForm {
    /// By a text, which may be a file of one's own.
    Name,
    /// By a text in place of the table of its settings, or by that table's `preset`.
    Table,
}

/// Where a part lies.
#[derive(Clone, Copy, PartialEq)]
enum PartPlace {
    /// Beneath what the preset of the machine says itself.
    Beneath,
    /// Over it.
    Over,
}

/// All of them, in the order in which they lie on each other.
pub(super) const KINDS: [PartKind; 4] = [
    PartKind {
        noun: "processor",
        path: PROCESSOR,
        form: PartForm::Name,
        lists: &[PROCESSORS, ARCHITECTURES],
        describes: |path| matches!(path, ["machine", key] if !OF_A_DEPLOYMENT.contains(key)),
        place: PartPlace::Beneath,
    },
    PartKind {
        noun: "NIC",
        path: "nic.model",
        form: PartForm::Name,
        lists: &[NICS],
        describes: |path| matches!(path, ["nic", key] if !OF_A_PROGRAM.contains(key)),
        place: PartPlace::Beneath,
    },
    driver(&[DRIVERS]),
    program(&[PROGRAMS]),
];

const PROCESSOR: &str = "machine.processor";

const fn driver(lists: &'static [&'static [Preset]]) -> PartKind {
    PartKind {
        noun: "driver",
        path: DRIVER,
        form: PartForm::Table,
        lists,
        describes: |_| false,
        place: PartPlace::Beneath,
    }
}

const fn program(lists: &'static [&'static [Preset]]) -> PartKind {
    PartKind {
        noun: "program",
        path: PROGRAM,
        form: PartForm::Table,
        lists,
        describes: |_| false,
        place: PartPlace::Over,
    }
}

/// Of `machine`: what is no processor's, but says how many are used and what is beside them.
const OF_A_DEPLOYMENT: [&str; 10] =
    ["preset", "cores", "sockets", "clos", "applications", "copy_table", "copy_engine", "stacked", "iommu", "gpu"];

/// Of `nic`: what a program or its driver sets on any.
const OF_A_PROGRAM: [&str; 7] =
    ["rx_descriptors", "tx_descriptors", "burst", "refill", "fast_free", "doorbell", "driver"];

/// Parts that stand on each other, at most: a processor on a shipped one, on an architecture, on what that is like.
const MOST_BASES: usize = 8;

/// A machine with its parts.
pub(super) struct Composed {
    /// What holds where a scenario says nothing.
    pub usual: toml::Table,
    /// Names that nobody ships; the preset's own part stands in for each, and for one of the preset's the nearest shipped one.
    pub faults: Vec<ScenarioError>,
    /// The NIC, where it is another than the preset's.
    pub nic: Option<String>,
    /// Those of one's own that it was made of, each over those before it.
    pub files: Vec<OwnFile>,
    /// Whether a part stands in for one that a machine's file names and nobody ships: what it brings is nobody's.
    pub stands_in: bool,
}

/// A machine's preset: what its file says, where that is, and the folder that its paths begin at.
pub(super) struct MachineFile<'a> {
    pub says: toml::Table,
    pub name: &'a str,
    pub folder: &'a Path,
}

/// Puts the parts that `own` names, or else the preset, beneath and over what the preset says. In `own` their names become those that
/// they are shipped by.
///
/// A part's file that cannot be read or is no TOML is among the faults.
pub(super) fn compose(preset: MachineFile, own: &mut toml::Table, origin: &str, kinds: &[PartKind]) -> Composed {
    let MachineFile { says: mut kept, name: file, folder } = preset;
    let (mut beneath, mut over) = (toml::Table::new(), toml::Table::new());
    let (mut faults, mut nic, mut stands_in) = (Vec::new(), None, false);
    let (mut files, mut files_over) = (Vec::new(), Vec::new());
    for kind in kinds {
        kind.open(&mut kept);
        kind.open(own);
        let mut of_usual = Vec::new();
        let usual = kind.usual(&mut kept, file, folder, &mut of_usual);
        let wanted = match kind.named(own, origin) {
            Ok(Some(name)) => kind.part(&name, origin, &mut Vec::new()).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let wanted = wanted.unwrap_or_else(|error| {
            faults.push(error);
            kind.forget(own);
            None
        });
        // What takes its place makes good for it.
        if wanted.is_none() {
            stands_in |= !of_usual.is_empty();
            faults.append(&mut of_usual);
        }
        let before = usual.as_ref().map(|part| part.name.clone());
        let exchanged = wanted.as_ref().is_some_and(|part| Some(&part.name) != before.as_ref());
        // Whoever names a processor wants it as it is, be it the preset's.
        if exchanged || wanted.is_some() && kind.path == PROCESSOR {
            kind.take_out(&mut kept, before.is_some());
        }
        let Some(mut part) = wanted.or(usual) else { continue };
        if let Some(named) = kind.name_in(own) {
            *named = part.name.clone().into();
        }
        if kind.path == "nic.model" {
            slower_link(&mut beneath, &mut part.says);
            nic = exchanged.then(|| part.name.clone());
        }
        kind.put_name(&mut kept, &part.name);
        let of_part = if kind.place == PartPlace::Beneath { &mut files } else { &mut files_over };
        of_part.append(&mut part.files);
        let under = if kind.place == PartPlace::Beneath { &mut beneath } else { &mut over };
        faults.extend(lay(under, part.says, &part.name).err());
    }
    if find(MACHINES, file).is_none() {
        files.push(OwnFile { name: file.into(), says: kept.clone() });
    }
    files.append(&mut files_over);
    let has_a_name = get_mut(&mut kept, &["machine", "name"]).is_some();
    let has_a_processor = beneath.contains_key("machine");
    if has_a_processor {
        faults.extend(lay(&mut beneath, kept, file).err());
    } else {
        merge(&mut beneath, kept)
    }
    merge(&mut beneath, over);
    if !has_a_name {
        count_sockets(&mut beneath);
    }
    Composed { usual: beneath, faults, nic, files, stands_in }
}

/// A part that was found.
struct Part {
    /// What it is shipped by, or its file.
    name: String,
    /// With all that it stands on.
    says: toml::Table,
    /// Those of one's own that it is made of, each over those before it.
    files: Vec<OwnFile>,
}

impl PartKind {
    fn keys(&self) -> Vec<&'static str> {
        self.path.split('.').collect()
    }

    /// Makes the table of a text that stands for it.
    fn open(&self, settings: &mut toml::Table) {
        if self.form == PartForm::Table
            && let Some(value) = get_mut(settings, &self.keys())
        {
            open_name(value);
        }
    }

    /// The value that names the part.
    fn name_in<'a>(&self, settings: &'a mut toml::Table) -> Option<&'a mut toml::Value> {
        let mut keys = self.keys();
        keys.extend((self.form == PartForm::Table).then_some("preset"));
        get_mut(settings, &keys)
    }

    /// The name that `settings` say.
    fn named(&self, settings: &mut toml::Table, origin: &str) -> Result<Option<String>, ScenarioError> {
        match self.name_in(settings) {
            None => Ok(None),
            Some(toml::Value::String(name)) => Ok(Some(name.clone())),
            // Some parts are called by a number, which `--set` reads as one.
            Some(toml::Value::Integer(number)) => Ok(Some(number.to_string())),
            Some(other) => {
                let message = format!("{other}: a name is wanted: {}", self.known(""));
                Err(ScenarioError::Value { origin: origin.into(), path: self.path.into(), message })
            }
        }
    }

    /// The part that a preset names in `kept`, or one that stands in for it where it cannot be.
    fn usual(
        &self,
        kept: &mut toml::Table,
        file: &str,
        folder: &Path,
        faults: &mut Vec<ScenarioError>,
    ) -> Option<Part> {
        let name = match self.named(kept, file) {
            Ok(name) => name?,
            Err(error) => {
                faults.push(error);
                self.forget(kept);
                return self.stand_in("");
            }
        };
        let found = self.part(&self.beside(&name, folder), file, &mut Vec::new());
        found.map_or_else(
            |error| {
                faults.push(error);
                self.forget(kept);
                self.stand_in(&name)
            },
            Some,
        )
    }

    /// The shipped part whose name is nearest, or else the first where a machine has to have one: what follows is judged with it.
    fn stand_in(&self, name: &str) -> Option<Part> {
        let shipped: Vec<&str> = self.lists.iter().flat_map(|list| names(list)).collect();
        let first = || shipped.first().copied().filter(|_| self.form == PartForm::Name);
        self.part(nearest(&shipped, name).or_else(first)?, "", &mut Vec::new()).ok()
    }

    fn put_name(&self, settings: &mut toml::Table, name: &str) {
        let keys = self.keys();
        let mut at = settings;
        for key in &keys[..keys.len() - 1] {
            at = table(at, key);
        }
        match self.form {
            PartForm::Name => at.insert(keys[keys.len() - 1].into(), name.into()),
            PartForm::Table => table(at, keys[keys.len() - 1]).insert("preset".into(), name.into()),
        };
    }

    /// Takes out a name that cannot be, so that it is told of once.
    fn forget(&self, own: &mut toml::Table) {
        let mut keys = self.keys();
        keys.extend((self.form == PartForm::Table).then_some("preset"));
        let (last, front) = (keys[keys.len() - 1], &keys[..keys.len() - 1]);
        if let Some(toml::Value::Table(at)) = get_mut(own, front) {
            at.remove(last);
        }
    }

    /// Takes out of what a preset says what belongs to the part that goes.
    fn take_out(&self, kept: &mut toml::Table, named: bool) {
        let keys = self.keys();
        let (section, key) = (keys[0], keys[1]);
        let Some(toml::Value::Table(at)) = kept.get_mut(section) else { return };
        match self.form {
            PartForm::Table => {
                at.remove(key);
            }
            // Of a processor that it names what a preset changes goes with it, and what the machine is called.
            PartForm::Name if named && self.path != PROCESSOR => {}
            PartForm::Name => at.retain(|key, _| !(self.describes)(&[section, key])),
        }
    }

    /// A file's path is relative to the `folder` of the file that names it.
    fn beside(&self, name: &str, folder: &Path) -> String {
        if self.is_file(name) { folder.join(name).to_string_lossy().into_owned() } else { name.into() }
    }

    fn is_file(&self, name: &str) -> bool {
        self.form == PartForm::Name && own_part::is_file(name)
    }

    /// The part of that name on all that it stands on.
    fn part(&self, name: &str, origin: &str, above: &mut Vec<String>) -> Result<Part, ScenarioError> {
        let error =
            |path: &str, message: String| ScenarioError::Value { origin: origin.into(), path: path.into(), message };
        let (name, text) = match self.shipped(name) {
            Some(preset) => (preset.name.to_string(), preset.text.to_string()),
            None if self.is_file(name) => {
                let text =
                    own_machine::text(name).map_err(|e| error(self.path, format!("{e} ({})", self.those_shipped())))?;
                (name.to_string(), text)
            }
            None => {
                let (path, known) = (self.path.to_string(), self.known(name));
                return Err(ScenarioError::Preset { origin: origin.into(), path, name: name.into(), known });
            }
        };
        if above.contains(&name) || above.len() == MOST_BASES {
            let chain = above.join(", which stands on ");
            return Err(error(self.path, format!("{chain}, which stands on {name}: allowed is no circle")));
        }
        above.push(name.clone());
        refuse_counted_masks(&text, &name)?;
        let mut says: toml::Table = toml::from_str(&text).map_err(|e| ScenarioError::Syntax {
            origin: name.clone(),
            message: e.to_string().trim_end().to_string(),
        })?;
        let folder = Path::new(&name).parent().unwrap_or(Path::new(""));
        own_part::taken(&mut says, &name, folder)?;
        self.open(&mut says);
        let base = self.named(&mut says, &name)?;
        self.forget(&mut says);
        let own = self.is_file(&name).then(|| OwnFile { name: name.clone(), says: says.clone() });
        let Some(base) = base else { return Ok(Part { name, says, files: own.into_iter().collect() }) };
        let Part { says: mut whole, mut files, .. } = self.part(&self.beside(&base, folder), &name, above)?;
        files.extend(own);
        lay(&mut whole, says, &name)?;
        Ok(Part { name, says: whole, files })
    }

    fn shipped(&self, name: &str) -> Option<&'static Preset> {
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        self.lists.iter().find_map(|list| find(list, name))
    }

    /// What there is, for messages.
    fn known(&self, wanted: &str) -> String {
        let shipped: Vec<&str> = self.lists.iter().flat_map(|list| names(list)).collect();
        let file = if self.form == PartForm::Name { ", or a file that ends in .toml" } else { "" };
        match shipped.is_empty() {
            true => format!("no {} has a name (write a table of its settings)", self.noun),
            false => format!("{}{file}", known(&shipped, wanted)),
        }
    }

    fn those_shipped(&self) -> String {
        let kind = self.noun.to_ascii_lowercase();
        format!("`wirespeed presets --kind {kind}` lists those to begin with")
    }
}

/// `over` on `base`. A DRAM standard that it names takes the place of the DIMMs beneath.
///
/// # Errors
/// One that cannot be: all else of `over` lies on `base` then.
pub(super) fn lay(base: &mut toml::Table, mut over: toml::Table, origin: &str) -> Result<(), ScenarioError> {
    let standard = own_part::taken(&mut over, origin, Path::new("")).and_then(|part| {
        part.map_or(Ok(()), |part| apply_standard(base, &part)).map_err(|message| ScenarioError::Value {
            origin: origin.into(),
            path: "machine.dram.standard".into(),
            message,
        })
    });
    if standard.is_err() {
        own_part::forget(&mut over);
    }
    merge(base, over);
    standard
}

/// A slot of the processor and a NIC agree on the slower link. Where they have different widths and generations that is only an upper
/// bound: 8 lanes of the NIC's generation are as fast as 16 of the one before.
fn slower_link(beneath: &mut toml::Table, nic: &mut toml::Table) {
    let keys = ["nic", "pcie", "rate"];
    let rate = |settings: &mut toml::Table| get_mut(settings, &keys)?.clone().try_into::<Rate>().ok();
    if let (Some(slot), Some(own)) = (rate(beneath), rate(nic))
        && slot.gbps() < own.gbps()
        && let Some(value) = get_mut(nic, &keys)
    {
        *value = toml::Value::String(slot.to_string());
    }
}

/// A machine whose preset gives it no name is called after its processors.
fn count_sockets(usual: &mut toml::Table) {
    let sockets = get_mut(usual, &["machine", "sockets", "count"]).and_then(|count| count.as_integer());
    if let Some(count) = sockets.filter(|count| *count > 1)
        && let Some(toml::Value::String(name)) = get_mut(usual, &["machine", "name"])
    {
        *name = format!("{count} x {name}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::scenario::overlay::names_first;
    use crate::scenario::{MACHINES, Overrides, Scenario};

    fn read_at(text: &str, origin: &str, set: &[&str]) -> Result<Scenario, String> {
        let set = set.iter().map(|s| s.to_string()).collect();
        Scenario::read(text, origin, &Overrides { set, ..Overrides::default() }).map_err(|e| e.to_string())
    }

    fn read(text: &str, set: &[&str]) -> Scenario {
        read_at(text, "test.toml", set).unwrap()
    }

    fn error(text: &str, set: &[&str]) -> String {
        read_at(text, "test.toml", set).unwrap_err()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("wirespeed-parts-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// All that a processor's file may say.
    fn processor(s: &Scenario) -> String {
        let m = &s.machine;
        format!(
            "{:?}",
            (&m.core, &m.l1, &m.l2, &m.llc, &m.dram, &m.tlb, m.prefetcher, s.nic.pcie.credits, &m.processor)
        )
    }

    /// A machine whose file says all by itself and names no part.
    fn on_its_own(machine: &str) -> String {
        let mut s = read("", &[&format!("machine.preset={machine}"), "machine.core.outstanding_prefetches=7"]);
        (s.machine.preset, s.machine.processor, s.nic.model) = (None, None, None);
        let mut table = toml::Table::try_from(&s).unwrap();
        table.retain(|section, _| ["machine", "nic", "mempool"].contains(&section));
        toml::to_string(&table).unwrap()
    }

    #[test]
    fn every_part_makes_a_machine_and_reads_back_equal() {
        for part in PROCESSORS {
            let s = read("", &[&format!("machine.processor={}", part.name)]);
            machine::memory::Hierarchy::new(&s.machine.memory(), s.machine.cores, "machine").unwrap();
            assert_eq!(read(&s.to_toml(), &[]), s, "{}", part.name);
            assert!(part.title().len() > 20, "{}", part.name);
            // What it is called is nobody else's name.
            let same = PROCESSORS.iter().filter(|other| other.text.contains(&format!("name = {:?}", s.machine.name)));
            assert_eq!(same.count(), 1, "{}", s.machine.name);
        }
        for part in NICS {
            let s = read("", &[&format!("nic.model={}", part.name)]);
            s.nic.check("nic").unwrap();
            assert_eq!(read(&s.to_toml(), &[]), s, "{}", part.name);
        }
        for part in ARCHITECTURES {
            let text = format!("machine.processor = {:?}\nmachine.core.frequency = \"3 GHz\"\n", part.name);
            let whole = format!("{text}machine.llc.size = \"32 MiB\"\nmachine.llc.slices = 8\n");
            let ways = "machine.llc.ways = 16\nmachine.llc.io_ways = 0";
            read(&format!("{whole}{ways}"), &[]);
        }
    }

    #[test]
    fn a_processor_in_anothers_place_leaves_nothing_of_it_and_all_that_is_the_machines_own() {
        let folder = folder("exchange");
        let mut machines: Vec<String> = MACHINES.iter().map(|machine| machine.name.to_string()).collect();
        for machine in ["xeon-platinum-8163", "2x-xeon-gold-6140"] {
            let file = folder.join(format!("{machine}.toml"));
            fs::write(&file, on_its_own(machine)).unwrap();
            machines.push(file.display().to_string());
        }
        for part in PROCESSORS {
            let only = read("", &[&format!("machine.processor={}", part.name)]);
            for machine in &machines {
                let preset = format!("machine.preset={machine}");
                let usual = read("", &[&preset]);
                let other = read("", &[&preset, &format!("machine.processor={}", part.name)]);
                assert_eq!(processor(&other), processor(&only), "{} in {machine}", part.name);
                assert_eq!(
                    (other.machine.cores, &other.machine.sockets),
                    (usual.machine.cores, &usual.machine.sockets)
                );
                assert_eq!((&other.mempool, other.nic.burst), (&usual.mempool, usual.nic.burst));
                assert_eq!(read(&other.to_toml(), &[]).to_toml(), other.to_toml(), "{} in {machine}", part.name);
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_nic_in_anothers_place_keeps_rings_and_bursts_and_the_processors_credits() {
        let folder = folder("nic");
        let file = folder.join("mine.toml");
        fs::write(&file, on_its_own("xeon-gold-6140").replace("[nic]", "[nic]\ncache_cells = 4")).unwrap();
        let sets = ["nic.model=82599", "nic.model=connectx-6-dx"];
        for machine in [file.to_str().unwrap(), "xeon-gold-6140"] {
            let [slow, fast] = sets.map(|set| read("", &[&format!("machine.preset={machine}"), set]).nic);
            assert_eq!((slow.rate.gbps(), fast.rate.gbps(), slow.rx_descriptors, slow.burst), (10.0, 100.0, 1024, 32));
            assert_eq!((slow.pcie.rate.gbps(), slow.cache_cells), (28.7, 0));
        }
        // A slot of PCIe 3.0 makes a NIC of 4.0 one of 3.0, and one of 4.0 leaves it as it is; what is said by hand holds.
        let rate = |set: &[&str]| read("", set).nic.pcie.rate.gbps();
        assert_eq!(rate(&["nic.model=connectx-6-dx"]), 115.8);
        assert_eq!(rate(&["nic.model=connectx-6-dx", "machine.processor=xeon-platinum-8380"]), 231.6);
        assert_eq!(rate(&["nic.model=connectx-7", "machine.processor=xeon-platinum-8480"]), 463.2);
        assert_eq!(rate(&["nic.model=connectx-6-dx", "nic.pcie.rate=60 Gbps"]), 60.0);
        assert_eq!(read("", &["nic.model=connectx-7"]).nic.pcie.credits.unwrap().bytes(), 5888);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_scenario_says_lies_over_its_parts_and_the_command_line_over_that() {
        let text = "[machine]\nprocessor = \"xeon-platinum-8380\"\n[machine.llc]\nio_ways = 5\nlatency = \"33 ns\"\n\
                    [machine.core]\nfrequency = \"2 GHz\"\n";
        for sets in [
            ["machine.processor=xeon-gold-6240", "machine.llc.latency=44 ns"],
            ["machine.llc.latency=44 ns", "machine.processor=xeon-gold-6240"],
        ] {
            let m = read(text, &sets).machine;
            assert_eq!((m.llc.ways, m.llc.io_ways.count(), m.llc.latency.to_string()), (11, 5, "44 ns".into()));
            // 14 cycles of the scenario's clock.
            assert_eq!((m.l2.latency.ps(), m.dram.channels), (units::Ps(7000), 6));
        }
    }

    #[test]
    fn another_processors_dimms_are_exchanged_as_well() {
        let dram = |set: &[&str]| read("", set).machine.dram;
        let ddr4 = dram(&["machine.processor=xeon-platinum-8380", "machine.dram.standard=ddr4-2666v"]);
        assert_eq!((ddr4.channels, ddr4.t_burst.ps()), (8, units::Ps(3001)));
        // Eight channels of two each stay as many.
        let ddr5 = dram(&["machine.preset=xeon-platinum-8480", "machine.dram.standard=ddr5-5600b"]);
        assert_eq!((ddr5.channels, ddr5.overhead.to_string()), (16, "39 ns".into()));
        let ddr3 = dram(&["machine.processor=xeon-e3-1230-v2"]);
        assert_eq!((ddr3.channels, ddr3.banks, ddr3.t_burst.ps()), (2, 8, units::Ps(5000)));
        let other = dram(&["machine.processor=xeon-e3-1230-v2", "machine.dram.standard=ddr4-2400u"]);
        assert_eq!((other.channels, other.standard.unwrap().name()), (2, "ddr4-2400u"));
    }

    #[test]
    fn a_machine_is_called_after_its_parts() {
        let name = |set: &[&str]| read("", set).machine.name;
        assert_eq!(name(&[]), "Xeon Gold 6140");
        assert_eq!(name(&["machine.processor=xeon-platinum-8480+"]), "Xeon Platinum 8480+");
        assert_eq!(name(&["machine.processor=xeon-platinum-8562y+"]), "Xeon Platinum 8562Y+");
        assert_eq!(name(&["machine.preset=2x-xeon-gold-6140"]), "2 x Xeon Gold 6140");
        let two = ["machine.preset=2x-xeon-gold-6140", "machine.processor=xeon-gold-6240"];
        assert_eq!(name(&two), "2 x Xeon Gold 6240");
        assert_eq!(name(&["nic.model=connectx-5"]), "Xeon Gold 6140 with connectx-5");
        assert_eq!(
            name(&["nic.model=connectx-5", "machine.llc.io_ways=4"]),
            "Xeon Gold 6140 with connectx-5, llc.io_ways=4"
        );
        assert_eq!(name(&["nic.model=100g"]), "Xeon Gold 6140");
        assert_eq!(name(&["nic.model=connectx-5", "machine.name=mine"]), "mine");
        // Under the vendor's name or the file's it is the same part.
        let alias = read("", &["machine.processor=xeon-platinum-8480+"]);
        assert_eq!(alias.machine, read("", &["machine.processor=xeon-platinum-8480"]).machine);
    }

    #[test]
    fn a_machine_that_is_not_shipped_is_ten_lines() {
        let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/machines.md")).unwrap();
        let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert!(text.lines().count() <= 14 && text.contains("skylake-sp"), "{text}");
        let s = read(text, &[]);
        assert_eq!((s.machine.core.frequency.ghz(), s.machine.llc.slices, s.machine.dram.channels), (3.0, 18, 6));
        // 14 cycles of 3 GHz.
        assert_eq!((s.machine.l2.latency.to_string(), s.nic.rate.gbps()), ("4.67 ns".into(), 25.0));
        assert_eq!(s.machine.name, "Xeon Gold 6154");
    }

    #[test]
    fn parts_of_ones_own_stand_on_shipped_ones() {
        let folder = folder("own");
        let put = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        put(
            "cpu.toml",
            "[machine]\nprocessor = \"xeon-gold-6140\"\nname = \"mine\"\n[machine.core]\nfrequency = \"3 GHz\"\n\
                         [machine.dram]\nstandard = \"ddr4-3200aa\"\n",
        );
        put("nic.toml", "[nic]\nmodel = \"connectx-5\"\nports = 1\n");
        put(
            "box.toml",
            "[machine]\nprocessor = \"cpu.toml\"\ncores = 2\n[nic]\nmodel = \"nic.toml\"\nrx_descriptors = 512\n\
                         tx_descriptors = 512\nburst = 16\n[mempool]\nsize = 16384\ncache = 256\nkind = \"fifo\"\n",
        );
        let origin = folder.join("s.toml");
        let s = read_at("machine.preset = \"box.toml\"", origin.to_str().unwrap(), &[]).unwrap();
        let m = &s.machine;
        assert_eq!((m.cores, m.core.frequency.ghz(), m.llc.slices, m.name.as_str()), (2, 3.0, 18, "mine"));
        assert_eq!(
            (m.dram.channels, m.dram.t_burst.to_string(), m.l1.latency.to_string()),
            (6, "2.5 ns".into(), "1.33 ns".into())
        );
        assert_eq!((s.nic.ports, s.nic.rate.gbps(), s.nic.rx_descriptors), (1, 100.0, 512));
        assert_eq!(read_at(&s.to_toml(), "elsewhere/s.toml", &[]).unwrap(), s);
        let text = "machine.processor = \"cpu.toml\"\nnic.model = \"nic.toml\"";
        let s = read_at(text, origin.to_str().unwrap(), &[]).unwrap();
        assert_eq!((s.machine.name.as_str(), s.machine.cores), ("mine with nic", 4));
        put("cpu.toml", "machine.processor = \"other.toml\"");
        put("other.toml", "machine.processor = \"cpu.toml\"");
        let circle = read_at(text, origin.to_str().unwrap(), &[]).unwrap_err();
        assert!(circle.contains("machine.processor: ") && circle.contains("allowed is no circle"), "{circle}");
        put("cpu.toml", "[machine");
        assert!(read_at(text, origin.to_str().unwrap(), &[]).unwrap_err().contains("cpu.toml: not TOML"));
        fs::remove_dir_all(&folder).unwrap();
        let gone = read_at(text, origin.to_str().unwrap(), &[]).unwrap_err();
        assert!(
            gone.contains("machine.processor: ") && gone.contains("nic.model: ") && gone.contains("cannot be read"),
            "{gone}"
        );
    }

    #[test]
    fn times_of_ones_own_file_do_not_move_with_a_clock_and_that_is_told() {
        let folder = folder("times");
        let file = folder.join("mine.toml");
        fs::write(&file, on_its_own("xeon-gold-6140")).unwrap();
        let preset = format!("machine.preset={}", file.display());
        let s = read("", &[&preset, "machine.core.frequency=4 GHz"]);
        assert_eq!(s.machine.l1.latency.to_string(), "1.74 ns");
        assert!(
            s.idle_settings()[0].contains("machine.l1.latency and machine.l2.latency stay the time"),
            "{:?}",
            s.idle_settings()
        );
        assert!(
            read("", &[&preset, "machine.core.frequency=4 GHz", "machine.l1.latency=1 ns"]).idle_settings().is_empty()
        );
        let half = on_its_own("xeon-gold-6140").replace("1.74 ns", "4 cycles");
        fs::write(&file, half).unwrap();
        let s = read("", &[&preset, "machine.core.frequency=4 GHz"]);
        assert!(s.idle_settings()[0].contains(": machine.l2.latency stays the time"), "{:?}", s.idle_settings());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn parts_that_nobody_ships_are_all_told_of_with_the_nearest_names() {
        let text = "[machine]\nprocessor = \"xeon-gold-6410\"\n[nic]\nmodel = \"conectx-5\"\nburst = 0\ndriver = \"mlx6\"\n\
                    [function]\nprogram = \"l3fw\"\n[traffic]\nload = 3.0\n";
        let found = error(text, &[]);
        for expected in [
            "test.toml: machine.processor = \"xeon-gold-6410\": no such preset: did you mean xeon-gold-6140? there are xeon-e3-1230-v2, ",
            "zen-4, or a file that ends in .toml",
            "nic.model = \"conectx-5\": no such preset: did you mean connectx-5? there are 100g, ",
            "nic.driver = \"mlx6\": no such preset: did you mean mlx5? there are ixgbe, ",
            "function.program = \"l3fw\": no such preset: did you mean l3fwd? there are testpmd-io, ",
            "traffic.load",
            "nic.burst",
        ] {
            assert!(found.contains(expected), "{expected} in {found}");
        }
        for (set, expected) in [
            ("machine.processor=3", "machine.processor = \"3\": no such preset: there are "),
            ("machine.processor=true", "machine.processor: true: a name is wanted: there are "),
            ("nic.model=[1]", "nic.model: [1]: a name is wanted: there are "),
            ("machine.processor=there-is-no.toml", "machine.processor: there-is-no.toml: cannot be read"),
        ] {
            assert!(error("", &[set]).contains(expected), "{}", error("", &[set]));
        }
        // An architecture is a processor but for what it leaves open.
        assert!(error("", &["machine.processor=skylake-sp"]).contains("frequency"));
    }

    #[test]
    fn all_that_is_wrong_in_a_machines_file_is_told_in_one_answer() {
        let folder = folder("wrong");
        let file = folder.join("mine.toml");
        fs::write(
            &file,
            "[machine]\nprocessor = \"skylake\"\ncores = 2\n[machine.core]\nfrequence = \"3 GHz\"\n[machine.llc]\nsize = \"24.7 MB\"\n\
             slices = 18\nhash = \"evenn\"\n[machine.dram]\nstandard = \"ddr4-2667\"\nchanels = 6\n[nic]\nmodel = \"connectx-4lx\"\n\
             driver = \"mlx5x\"\n",
        )
        .unwrap();
        let preset = format!("machine.preset={}", file.display());
        let found = error("[traffic]\nload = 3.0\n", &[&preset]);
        let of_file = format!("{}: ", file.display());
        for expected in [
            "machine.processor = \"skylake\": no such preset: did you mean skylake-sp?",
            "machine.core.frequence: unknown field `frequence`",
            "(did you mean `frequency`?)",
            "machine.llc.hash: unknown variant `evenn`",
            "(did you mean `even`?)",
            "machine.dram.standard: \"ddr4-2667\": no such standard: did you mean ddr4-2666v?",
            "machine.dram.chanels: unknown field `chanels`",
            "(did you mean `channels`?)",
            "nic.model = \"connectx-4lx\": no such preset: did you mean connectx-4-lx?",
            "nic.driver = \"mlx5x\": no such preset: did you mean mlx5?",
            "nic: missing field `rx_descriptors`",
        ] {
            let line =
                found.lines().find(|line| line.contains(expected)).unwrap_or_else(|| panic!("{expected} in {found}"));
            assert!(line.starts_with(&of_file), "{line}");
        }
        assert!(found.contains("test.toml: traffic.load: "), "{found}");
        // What does not go with the processor that stands in is nobody's mistake.
        assert!(!found.contains("machine.llc.size"), "{found}");
        let lines: Vec<&str> = found.lines().collect();
        assert!(lines.iter().all(|line| lines.iter().filter(|other| other == &line).count() == 1), "{found}");
        // What a scenario says in its place is not told of, nor of the file.
        let found = error("", &[&preset, "machine.processor=skylake-sp", "machine.core.frequency=fast"]);
        assert!(!found.contains("\"skylake\"") && found.contains("test.toml: machine.core.frequency"), "{found}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_fault_is_told_of_the_file_that_says_it() {
        let folder = folder("says");
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            file.display().to_string()
        };
        let base = write(
            "base.toml",
            "[machine]\nprocessor = \"skylake-sp\"\n[machine.core]\nrob = \"many\"\ncpi = \"low\"\n",
        );
        let part = write(
            "part.toml",
            "[machine]\nprocessor = \"base.toml\"\n[machine.core]\ncpi = 0.3\n[machine.l2]\nlatenzy = 1\n",
        );
        let mine = write(
            "mine.toml",
            "[machine]\nprocessor = \"part.toml\"\ncores = 0\n[machine.core]\nfrequency = \"fast\"\n[machine.gpu]\npreset = \"h10\"\n\
             [mempool]\nsize = 16384\ncache = 256\n",
        );
        let found = error("[machine.gpu]\nlaunch = \"x\"\n", &[&format!("machine.preset={mine}")]);
        for (file, expected) in [
            (&base, "machine.core.rob: "),
            (&part, "machine.l2.latenzy: unknown field"),
            (&mine, "machine.core.frequency: "),
            (&mine, "machine.gpu.preset = \"h10\": no such preset"),
            (&mine, "nic"),
            (&"test.toml".to_string(), "machine.gpu.launch: "),
        ] {
            assert!(found.contains(&format!("{file}: {expected}")), "{file}: {expected} in {found}");
        }
        // What the part says in the base's place is not wrong, and a wrong setting lacks no other.
        assert!(!found.contains("machine.core.cpi") && !found.contains("machine.gpu: missing"), "{found}");
        fs::remove_dir_all(&folder).unwrap();
    }

    const MADE_DRIVERS: &[Preset] = &[
        Preset { name: "mlx5", text: "[nic.driver]\nqueue = 64\ncompressed = false\n" },
        Preset { name: "ixgbe", text: "[nic.driver]\nqueue = 16\n" },
        Preset { name: "mlx5-like", text: "[nic.driver]\npreset = \"mlx5\"\nqueue = 128\n" },
    ];
    const MADE_PROGRAMS: &[Preset] = &[Preset {
        name: "l3fwd",
        text: "[function.program]\ninstructions = 99\n[nic]\nburst = 8\n[mempool]\ncache = 32\n",
    }];

    /// What a scenario of `text` and `sets` says of a machine of `preset`, with made-up drivers and programs.
    fn made(preset: &str, text: &str, sets: &[&str]) -> Result<toml::Table, String> {
        let kinds = [driver(&[MADE_DRIVERS]), program(&[MADE_PROGRAMS])];
        let mut own: toml::Table = toml::from_str(text).unwrap();
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        for set in names_first(sets.iter()) {
            crate::scenario::apply(&mut own, set, false).unwrap();
        }
        let says = toml::from_str(preset).unwrap();
        let file = MachineFile { says, name: "box", folder: Path::new("") };
        let Composed { mut usual, faults, .. } = compose(file, &mut own, "test.toml", &kinds);
        match faults.first() {
            Some(fault) => Err(fault.to_string()),
            None => {
                merge(&mut usual, own);
                Ok(usual)
            }
        }
    }

    fn table_of(text: &str) -> toml::Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_drivers_name_stands_for_its_table() {
        let mlx5 = |rest: &str| table_of(&format!("[nic.driver]\npreset = \"mlx5\"\nqueue = 64\n{rest}"));
        let (name, on) = ("nic.driver=mlx5", "nic.driver.compressed=true");
        for (text, sets) in [
            ("nic.driver = \"mlx5\"", &[][..]),
            ("", &[name]),
            ("nic.driver = \"ixgbe\"", &[name]),
            ("nic.driver = { preset = \"mlx5\" }", &[]),
            // The table of another goes with it.
            ("nic.driver = { preset = \"ixgbe\", queue = 3, compressed = true }", &[name]),
            ("", &["nic.driver=ixgbe", "nic.driver.queue=3", name]),
        ] {
            assert_eq!(made("", text, sets).unwrap(), mlx5("compressed = false"), "{text} {sets:?}");
        }
        for (text, sets) in [
            ("", &[name, on][..]),
            ("", &[on, name]),
            ("nic.driver = \"mlx5\"", &[on]),
            ("nic.driver = \"ixgbe\"", &[on, name]),
            ("nic.driver.compressed = true", &["nic.driver.preset=mlx5"]),
        ] {
            assert_eq!(made("", text, sets).unwrap(), mlx5("compressed = true"), "{text} {sets:?}");
        }
        // A preset's own settings of a driver go with the driver, and stay with it.
        let preset = "nic = { burst = 4, driver = { preset = \"ixgbe\", queue = 5 } }";
        let usual = |text: &str| made(preset, text, &[]).unwrap()["nic"].clone();
        let nic = |text: &str| toml::Value::Table(table_of(text));
        assert_eq!(usual(""), nic("burst = 4\ndriver = { preset = \"ixgbe\", queue = 5 }"));
        let other = "burst = 4\ndriver = { preset = \"mlx5\", queue = 64, compressed = false }";
        assert_eq!(usual("nic.driver = \"mlx5\""), nic(other));
        let like = "burst = 4\ndriver = { preset = \"mlx5-like\", queue = 128, compressed = false }";
        assert_eq!(usual("nic.driver = \"mlx5-like\""), nic(like));
        let error = made("", "nic.driver = \"mlx4\"", &[]).unwrap_err();
        assert!(
            error.contains("nic.driver = \"mlx4\": no such preset: did you mean mlx5? there are mlx5, ixgbe"),
            "{error}"
        );
        // A table without a name is what it says.
        assert_eq!(made("", "nic.driver.queue = 3", &[]).unwrap(), table_of("nic.driver.queue = 3"));
    }

    #[test]
    fn a_programs_bursts_lie_over_the_machines_and_under_ones_own() {
        let preset = "nic.burst = 32\nmempool.cache = 256";
        let whole = made(preset, "function.program = \"l3fwd\"\nmempool.cache = 64", &[]).unwrap();
        let expected =
            "function.program = { preset = \"l3fwd\", instructions = 99 }\nnic.burst = 8\nmempool.cache = 64";
        assert_eq!(whole, table_of(expected));
        let set = made(preset, "", &["function.program=l3fwd", "nic.burst=16"]).unwrap();
        assert_eq!((&set["nic"], &set["mempool"]), (&table_of("burst = 16").into(), &table_of("cache = 32").into()));
    }
}
