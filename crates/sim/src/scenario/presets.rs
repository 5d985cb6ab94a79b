//! Shipped machines and scenarios, and names that are near to what was written.

/// A shipped file.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! presets {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../../../presets/", $folder, "/", $name, ".toml")) }),*]
    };
}

/// Shipped machines; the first is the default.
pub const MACHINES: &[Preset] = presets!(
    "machines": "xeon-gold-6140", "xeon-e5-2697a-v4", "epyc-7402p", "xeon-platinum-8163", "xeon-platinum-8380",
    "xeon-platinum-8480", "2x-xeon-gold-6140", "2x-xeon-platinum-8380",
);

/// Shipped scenarios; the first is the demo.
pub const SCENARIOS: &[Preset] = presets!(
    "scenarios": "forwarding", "forwarding-64b", "forwarding-one-core", "upf", "upf-pipeline", "vhost", "socket", "classify",
    "inspect", "nat", "router-chain",
);

impl Preset {
    /// The first line of its comment.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// The shipped file of that name.
pub fn find(presets: &'static [Preset], name: &str) -> Option<&'static Preset> {
    presets.iter().find(|p| p.name == name)
}

pub(super) fn names(presets: &[Preset]) -> Vec<&'static str> {
    presets.iter().map(|p| p.name).collect()
}

/// What there is, nearest first if one is near.
pub fn known(names: &[&str], wanted: &str) -> String {
    let list = format!("there are {}", names.join(", "));
    match nearest(names, wanted) {
        Some(near) => format!("did you mean {near}? {list}"),
        None => list,
    }
}

pub(super) fn nearest<'a>(names: &[&'a str], wanted: &str) -> Option<&'a str> {
    let scored = names.iter().map(|&n| (strsim::jaro_winkler(n, wanted), n));
    scored.filter(|(score, _)| *score > 0.75).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, n)| n)
}
