//! The text of a `schemata` file: a line for each resource, a value for each domain of it.

use std::fmt;
use std::str::FromStr;

use units::Cbm;

use crate::HostError;

/// What a resource gives a group in each of its domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `L3`, `L3CODE`, `L3DATA`, `L2`, `MB`, ...
    pub name: String,
    /// Domain and value, in the kernel's order; [`None`] in a group that is being pseudo-locked.
    pub domains: Option<Vec<(u32, Value)>>,
}

/// A value of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Ways of a cache.
    Ways(Cbm),
    /// Bandwidth, in percent or MB/s.
    Bandwidth(u32),
}

/// Settings of a group: resources in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schemata(pub Vec<Resource>);

impl Schemata {
    /// The masks of a cache, `L3` for example.
    pub fn masks(&self, name: &str) -> Vec<(u32, Cbm)> {
        let of = self.0.iter().find(|r| r.name == name).and_then(|r| r.domains.as_ref());
        let mask = |(domain, value): &(u32, Value)| match value {
            Value::Ways(mask) => Some((*domain, *mask)),
            Value::Bandwidth(_) => None,
        };
        of.into_iter().flatten().filter_map(mask).collect()
    }

    /// One line: these masks of a cache.
    pub fn of_masks(name: &str, masks: &[(u32, Cbm)]) -> Schemata {
        let domains = masks.iter().map(|(domain, mask)| (*domain, Value::Ways(*mask))).collect();
        Schemata(vec![Resource { name: name.into(), domains: Some(domains) }])
    }
}

impl FromStr for Schemata {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Schemata, HostError> {
        let wrong = |came: &str| HostError::form("schemata", came, "a line such as L3:0=7ff;1=7ff or MB:0=100");
        let mut resources = Vec::new();
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            let (name, values) = line.split_once(':').ok_or_else(|| wrong(line))?;
            let name = name.trim().to_string();
            if name.is_empty() {
                return Err(wrong(line));
            }
            if values.trim() == "uninitialized" {
                resources.push(Resource { name, domains: None });
                continue;
            }
            let mut domains: Vec<(u32, Value)> = Vec::new();
            for part in values.split(';') {
                let (domain, value) = part.split_once('=').ok_or_else(|| wrong(line))?;
                let domain = domain.trim().parse().map_err(|_| wrong(line))?;
                let value = value.trim();
                let value = if name.ends_with("MB") || name == "SMBA" {
                    Value::Bandwidth(value.parse().map_err(|_| wrong(line))?)
                } else {
                    Value::Ways(Cbm(u32::from_str_radix(value, 16).map_err(|_| wrong(line))?))
                };
                if domains.iter().any(|(d, _)| *d == domain) {
                    return Err(wrong(line));
                }
                domains.push((domain, value));
            }
            resources.push(Resource { name, domains: Some(domains) });
        }
        Ok(Schemata(resources))
    }
}

impl fmt::Display for Schemata {
    /// As it is written: each line ends, without the blanks that align what a kernel shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Resource { name, domains } in &self.0 {
            let Some(domains) = domains else {
                writeln!(f, "{name}:uninitialized")?;
                continue;
            };
            write!(f, "{name}:")?;
            for (i, (domain, value)) in domains.iter().enumerate() {
                let between = if i == 0 { "" } else { ";" };
                match value {
                    Value::Ways(mask) => write!(f, "{between}{domain}={:x}", mask.0)?,
                    Value::Bandwidth(share) => write!(f, "{between}{domain}={share}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_kernels_show_is_read() {
        let text = "    MB:0=100;1= 50\n    L3:0=7ff;1=00c\nL3CODE:0=3\n";
        let schemata: Schemata = text.parse().unwrap();
        assert_eq!(schemata.masks("L3"), [(0, Cbm(0x7ff)), (1, Cbm(0xc))]);
        assert_eq!(schemata.masks("MB"), []);
        assert_eq!(schemata.to_string(), "MB:0=100;1=50\nL3:0=7ff;1=c\nL3CODE:0=3\n");
        assert_eq!("L3:uninitialized\n".parse::<Schemata>().unwrap().0[0].domains, None);
    }

    #[test]
    fn what_is_no_schemata_is_told() {
        for text in ["L3", "L3:0", "L3:0=xyz", "L3:a=1", ":0=1", "MB:0=ff", "L3:0=1;0=2", "L3:0=1ffffffff"] {
            let error = text.parse::<Schemata>().unwrap_err().to_string();
            assert!(error.starts_with("schemata: "), "{error}");
        }
    }

    proptest! {
        #[test]
        fn schemata_read_back_equal(masks in proptest::collection::btree_map(0u32..9, any::<u32>(), 1..4), mb in 1u32..101) {
            let ways = masks.into_iter().map(|(d, m)| (d, Value::Ways(Cbm(m)))).collect();
            let schemata = Schemata(vec![
                Resource { name: "MB".into(), domains: Some(vec![(0, Value::Bandwidth(mb))]) },
                Resource { name: "L3".into(), domains: Some(ways) },
            ]);
            prop_assert_eq!(schemata.to_string().parse::<Schemata>().unwrap(), schemata);
        }

        #[test]
        fn damaged_schemata_never_panic(text in ".{0,60}") {
            let _ = text.parse::<Schemata>();
        }
    }
}
