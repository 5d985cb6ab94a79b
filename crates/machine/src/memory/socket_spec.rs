//! Several sockets as a person describes them: how many, their cores, links, and where memory lies.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use units::{Rate, Span};

use super::extent::{Extent, named};
use crate::MachineError;

/// Sockets, at most.
pub(super) const MOST_SOCKETS: usize = 8;

/// The socket at whose DRAM memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HomeSocket {
    /// What each core has for itself at its own socket, everything else at the NIC's.
    #[default]
    Local,
    /// Pages of 4 KiB go round.
    Interleaved,
    /// At this socket.
    Socket(u32),
}

impl FromStr for HomeSocket {
    type Err = MachineError;
    fn from_str(text: &str) -> Result<HomeSocket, MachineError> {
        match text {
            "local" => Ok(HomeSocket::Local),
            "interleaved" => Ok(HomeSocket::Interleaved),
            _ => text.parse().map(HomeSocket::Socket).map_err(|_| {
                MachineError::new(
                    "memory",
                    text,
                    "local, interleaved or a socket's number",
                    "numbers begin at 0".into(),
                )
            }),
        }
    }
}

impl fmt::Display for HomeSocket {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            HomeSocket::Local => f.write_str("local"),
            HomeSocket::Interleaved => f.write_str("interleaved"),
            HomeSocket::Socket(socket) => write!(f, "{socket}"),
        }
    }
}

impl Serialize for HomeSocket {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            HomeSocket::Socket(socket) => to.serialize_u32(*socket),
            other => to.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for HomeSocket {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<HomeSocket, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = HomeSocket;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("\"local\", \"interleaved\" or a socket's number")
            }
            fn visit_i64<E: de::Error>(self, socket: i64) -> Result<HomeSocket, E> {
                u32::try_from(socket)
                    .map(HomeSocket::Socket)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(socket), &self))
            }
            fn visit_u64<E: de::Error>(self, socket: u64) -> Result<HomeSocket, E> {
                u32::try_from(socket)
                    .map(HomeSocket::Socket)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(socket), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<HomeSocket, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl JsonSchema for HomeSocket {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Home".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "The socket at whose DRAM memory lies: \"local\" (what each core has for itself at its own \
                            socket, everything else at the NIC's), \"interleaved\" (pages of 4 KiB go round) or a \
                            socket's number.",
            "anyOf": [{"enum": ["local", "interleaved"]}, {"type": "integer", "minimum": 0, "maximum": 7}]
        })
    }
}

/// Several sockets, each with the LLC and the DRAM of the machine, linked to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketsSpec {
    /// How many, 2 to 8. `llc` and `dram.channels` are those of each.
    pub count: u32,
    /// The socket of each core; goes round if there are more cores. Left out, each socket has as many cores, the first
    /// ones the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<u32>,
    /// The socket that the NIC is wired to.
    #[serde(default)]
    pub nic: u32,
    /// What a message takes to another socket beyond the time of its bytes, one way.
    pub hop: Span,
    /// What a link carries in each direction.
    pub rate: Rate,
    /// Where memory lies.
    #[serde(default)]
    pub memory: HomeSocket,
    /// Where some of it lies: `mempool`, `rings`, `tables`, or a table by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub regions: BTreeMap<String, HomeSocket>,
}

impl SocketsSpec {
    /// # Errors
    /// Sockets that there are not, a region that there is not.
    pub fn check(&self, path: &str) -> Result<(), MachineError> {
        let error = |field: &str, came: String, allowed: String, remedy: &str| {
            Err(MachineError::new(format!("{path}.{field}"), came, allowed, remedy.into()))
        };
        if !(2..=8).contains(&self.count) {
            return error("count", self.count.to_string(), "2 to 8".into(), "leave out sockets for one");
        }
        let there = format!("0 to {}, the last socket", self.count - 1);
        if self.nic >= self.count {
            return error("nic", self.nic.to_string(), there, "sockets are counted from 0");
        }
        if let Some((i, socket)) = self.cores.iter().enumerate().find(|(_, socket)| **socket >= self.count) {
            return error(&format!("cores[{i}]"), socket.to_string(), there, "sockets are counted from 0");
        }
        let homes = self.regions.iter().map(|(name, home)| (format!("regions.{name}"), home));
        for (field, home) in homes.chain([("memory".to_string(), &self.memory)]) {
            if let HomeSocket::Socket(socket) = home
                && *socket >= self.count
            {
                return error(&field, socket.to_string(), there, "or local, or interleaved");
            }
        }
        if self.rate.gbps() == 0.0 {
            return error(
                "rate",
                self.rate.to_string(),
                "more than 0".into(),
                "UPI at 10.4 GT/s carries 166 Gbps a link",
            );
        }
        Ok(())
    }

    /// The socket of core `core` of `cores`.
    pub fn of_core(&self, core: u32, cores: u32) -> u32 {
        match self.cores.len() {
            0 => core * self.count / cores.max(1),
            n => self.cores[core as usize % n],
        }
    }

    pub(super) fn home_of(&self, extent: &Extent) -> HomeSocket {
        *named(&self.regions, extent.group, &extent.name).unwrap_or(&self.memory)
    }
}
