//! Variants that carry nothing, read strictly.
//!
//! Where an enum is told apart by a member (`{"kind": "accept"}`), serde's `deny_unknown_fields` holds for variants with
//! members of their own and not for those without: `{"kind": "accept", "replacement": "x"}` would be read as a plain
//! acceptance, and what somebody meant would be dropped in silence. Such a variant names [`nothing`] as the function it
//! is read by; a rule of this repository finds the one that does not.

use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// Reads what a variant without members has beside its name: nothing.
///
/// # Errors
/// The deserializer's, which names the first member that is there, or says that a list is no such value.
pub fn nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    deserializer.deserialize_map(Nothing)
}

struct Nothing;

impl<'de> Visitor<'de> for Nothing {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no other member")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        match members.next_key::<String>()? {
            None => Ok(()),
            Some(name) => {
                members.next_value::<IgnoredAny>()?;
                Err(A::Error::custom(format_args!("unknown field `{name}`, expected no other member")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, from_value, json, to_value};

    use crate::accounting::Window;
    use crate::lifecycle::{ExecutionState, RunState};
    use crate::packet::manifest::Change;
    use crate::payload::delivery::AfterFailed;
    use crate::payload::judgment::Opinion;
    use crate::payload::proposal::Disposition;
    use crate::payload::run::Next;
    use crate::provider::ResponseFormat;

    /// Reads one variant by its name alone, writes it as it was, and refuses it with anything beside its name.
    fn strict<T: Serialize + for<'de> Deserialize<'de>>(names: &[&str]) {
        for name in names {
            let bare = json!({ "kind": name });
            let read: T = from_value(bare.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(to_value(&read).unwrap(), bare);
            for other in ["replacement", "at", "ms", "kinds"] {
                let mut more = bare.clone();
                more[other] = Value::Null;
                let error = from_value::<T>(more).err().unwrap_or_else(|| panic!("{name} took `{other}`"));
                assert!(error.to_string().contains(other), "{error}");
            }
            assert!(from_value::<T>(json!([name])).is_err(), "{name} was read from a list");
            let twice = format!(r#"{{"kind":"{name}","kind":"{name}"}}"#);
            assert!(serde_json::from_str::<T>(&twice).is_err(), "{name} was read twice");
        }
    }

    #[test]
    fn a_variant_without_members_takes_none() {
        strict::<Disposition>(&["accept", "reject"]);
        strict::<Opinion>(&["accept", "reject"]);
        strict::<Next>(&["hold", "advance"]);
        strict::<AfterFailed>(&["final"]);
        strict::<Window>(&["hour", "day"]);
        strict::<ResponseFormat>(&["text", "json-object"]);
        strict::<Change>(&["image-placeholder"]);
        strict::<ExecutionState>(&["running"]);
        strict::<RunState>(&["received", "started"]);
    }
}
