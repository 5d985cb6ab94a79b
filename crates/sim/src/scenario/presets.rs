//! Shipped machines, their parts and scenarios, and names that are near to what was written.

use units::Span;

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

/// Shipped processors, with their usual DIMMs.
pub const PROCESSORS: &[Preset] = presets!(
    "processors":
    "xeon-e3-1230-v2", "xeon-e5-2620-v3", "xeon-e5-2637-v3", "xeon-e5-2699-v3", "xeon-e5-1650-v4",
    "xeon-e5-2630-v4", "xeon-e5-2680-v4", "xeon-e5-2697a-v4", "xeon-gold-6140", "xeon-gold-6146", "xeon-platinum-8163",
    "xeon-platinum-8180", "xeon-gold-6240", "xeon-gold-6248r", "xeon-platinum-8280", "xeon-gold-6338",
    "xeon-platinum-8360y", "xeon-platinum-8380", "xeon-platinum-8480", "xeon-platinum-8562y-plus", "epyc-7402p",
    "epyc-7742", "epyc-7763", "epyc-9654", "neoverse-v2-grace", "cortex-a78ae-bluefield-3",
);

/// What processors of one design share. They lie beneath processors, and are named in their place where one is not shipped.
pub const ARCHITECTURES: &[Preset] = presets!(
    "architectures":
    "haswell-ep", "broadwell-ep", "skylake-sp", "cascade-lake-sp", "ice-lake-sp", "sapphire-rapids",
    "emerald-rapids", "zen-2", "zen-3", "zen-4",
);

/// Shipped NICs.
pub const NICS: &[Preset] = presets!(
    "nics":
    "100g", "82599", "xl710", "xxv710", "e810", "connectx-4", "connectx-4-lx", "connectx-5", "connectx-5-ex",
    "connectx-6", "connectx-6-dx", "connectx-7", "bluefield-3", "nfp-6000",
);

/// Shipped drivers.
pub const DRIVERS: &[Preset] = presets!(
    "drivers":
    "ixgbe", "i40e", "i40e-scalar", "ice", "mlx5", "mlx5-compressed", "mlx5-send", "vpp-rdma", "xdp-mlx5e", "xdp-i40e",
    "xdp-ixgbe", "af-xdp-i40e", "af-xdp-mlx5e", "ixy",
);

/// Shipped GPUs.
pub const GPUS: &[Preset] = presets!("gpus": "hermes", "a100", "h100", "gh200", "mi300a", "jetson-orin");

/// Shipped programs.
pub const PROGRAMS: &[Preset] = presets!(
    "programs":
    "testpmd-io", "testpmd-mac", "l2fwd", "l3fwd", "vpp-ip4", "vpp-ip4-dpdk", "vpp-l2patch", "vpp-l2xc",
    "vpp-17-ip4-dpdk", "vpp-17-l2xc", "fastclick-router", "fastclick-nat", "packetmill-router", "xdp-tx", "xdp-fwd", "ixy-fwd",
);

/// Kinds of shipped files, by the word that the command line has.
pub const KINDS: [(&str, &[Preset]); 7] = [
    ("scenario", SCENARIOS),
    ("machine", MACHINES),
    ("processor", PROCESSORS),
    ("architecture", ARCHITECTURES),
    ("nic", NICS),
    ("driver", DRIVERS),
    ("program", PROGRAMS),
];

/// Names that vendors write otherwise than files are called.
pub(super) const ALIASES: [(&str, &str); 2] =
    [("xeon-platinum-8480+", "xeon-platinum-8480"), ("xeon-platinum-8562y+", "xeon-platinum-8562y-plus")];

/// Shipped scenarios; the first is the demo.
pub const SCENARIOS: &[Preset] = presets!(
    "scenarios": "forwarding", "forwarding-64b", "forwarding-one-core", "upf", "upf-pipeline", "vhost", "socket", "classify",
    "inspect", "nat", "router-chain", "forwarding-gpu",
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

/// The core of a shipped processor.
pub struct ShippedCore {
    /// The processor or architecture, of those that it stands on, that says what an instruction takes.
    pub name: &'static str,
    /// Cycles an instruction.
    pub cpi: f64,
    /// Cycles that a packet stalls it, beside.
    pub stall: f64,
}

/// Where the core of a shipped processor is from.
pub fn core_of(processor: &str) -> Option<ShippedCore> {
    let mut name = processor.to_string();
    // No circle is shipped; each stands on a few others.
    for _ in 0..PROCESSORS.len() {
        let file = find(PROCESSORS, &name).or_else(|| find(ARCHITECTURES, &name))?;
        let says: toml::Table = toml::from_str(file.text).ok()?;
        let machine = says.get("machine")?;
        let core = machine.get("core");
        if let Some(cpi) = core.and_then(|core| core.get("cpi")).and_then(toml::Value::as_float) {
            let stall = core.and_then(|core| core.get("packet_stall")).and_then(toml::Value::as_str);
            let stall = stall.and_then(|text| text.strip_suffix(" cycles")?.parse().ok()).unwrap_or(0.0);
            return Some(ShippedCore { name: file.name, cpi, stall });
        }
        name = machine.get("processor")?.as_str()?.to_string();
    }
    None
}

/// What a shipped NIC and one of its queues take for a packet.
pub fn nic_intervals(name: &str) -> Option<(Option<Span>, Option<Span>)> {
    let says: toml::Table = toml::from_str(find(NICS, name)?.text).ok()?;
    let time = |key: &str| says.get("nic")?.get(key)?.clone().try_into().ok();
    Some((time("packet_interval"), time("queue_interval")))
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
