//! A parser's messages in the words of people who write scenarios.

use super::presets::nearest;

/// Appends the nearest right name to serde's message about an unknown one.
pub fn with_nearest(message: &str) -> String {
    // TOML's words end with the path, which the error has already.
    let message = message.trim_end();
    let message = message.rsplit_once("\nin `").map_or(message, |(front, _)| front).trim_end();
    // What serde calls by the names of Rust's types.
    if let Some((came, expected)) = message.strip_prefix("invalid value: ").and_then(|it| it.split_once(", expected "))
    {
        let most = match expected {
            "u8" => Some(u32::from(u8::MAX)),
            "u16" => Some(u32::from(u16::MAX)),
            "u32" => Some(u32::MAX),
            _ => None,
        };
        let allowed = most.map_or(expected.into(), |most| format!("0 to {most}"));
        return format!("{}: allowed are {allowed}", came.trim_start_matches("integer ").replace('`', ""));
    }
    if let Some((came, expected)) = message.strip_prefix("invalid type: ").and_then(|it| it.split_once(", expected ")) {
        let wanted = match expected {
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
            "i8" | "i16" | "i32" | "i64" => "a whole number",
            "f32" | "f64" => "a number",
            other if other.starts_with("struct ") => "a table of settings",
            other => other,
        };
        return format!("{}: {wanted} is wanted", came.replace('`', ""));
    }
    if message == "missing field `retires`" {
        return "`retires` is missing: allowed are sync, sync-bypass and async (when the instruction that starts the copy retires)".into();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown ")
        && let Some(wanted) = quoted.next()
        && let allowed = quoted.collect::<Vec<_>>()
        && let Some(near) = nearest(&allowed, wanted)
    {
        return format!("{message} (did you mean `{near}`?)");
    }
    message.to_string()
}
