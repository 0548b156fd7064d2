//! Events, one or many.

use serde_json::Value;
use thoughtstream_domain::event::Event;
use thoughtstream_domain::id::{EventId, TypeName, TypeRef};
use thoughtstream_domain::payload::proposal::words;
use thoughtstream_store::Reader;

use super::{Sink, put, unknown};
use crate::ask::{EventFilter, ROWS_MAX};
use crate::exit::Exit;
use crate::failure::Failure;

/// The member of a shown event that names what of its payload is not shown.
pub const WITHHELD: &str = "withheld";

/// How many events are read at once.
const PAGE: usize = 500;

/// Says which types pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kinds {
    /// All.
    All,
    /// One, in any version.
    Name(TypeName),
    /// One version.
    Version(TypeRef),
    /// A family, by the part before `.*`.
    Family(String),
}

impl Kinds {
    /// Reads `NAME`, `NAME@n` or `PREFIX.*`.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 if it is none of these.
    pub fn parse(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else { return Ok(Self::All) };
        let bad = |error: &dyn std::error::Error| {
            Failure::new(Exit::Usage, "event.type", format!("`{text}` names no event type"))
                .because(error)
                .with_hint("write NAME, NAME@version or PREFIX.*")
        };
        if let Some(prefix) = text.strip_suffix(".*") {
            // A prefix has the form of a name, or is one word.
            TypeName::parse(&format!("{prefix}.x")).map_err(|error| bad(&error))?;
            return Ok(Self::Family(prefix.to_owned()));
        }
        if text.contains('@') {
            return TypeRef::parse(text).map(Self::Version).map_err(|error| bad(&error));
        }
        TypeName::parse(text).map(Self::Name).map_err(|error| bad(&error))
    }

    /// Says whether a type passes.
    #[must_use]
    pub fn pass(&self, kind: &TypeRef) -> bool {
        match self {
            Self::All => true,
            Self::Name(name) => kind.name == *name,
            Self::Version(version) => kind == version,
            Self::Family(prefix) => kind.name.is_within(prefix),
        }
    }

    /// Returns the names that can pass, of those the log has seen; nothing if all pass.
    fn names(&self, reader: &Reader) -> Option<Vec<TypeName>> {
        match self {
            Self::All => None,
            Self::Name(name) => Some(vec![name.clone()]),
            Self::Version(version) => Some(vec![version.name.clone()]),
            Self::Family(prefix) => {
                let names = reader.type_names();
                Some(names.into_iter().filter(|name| name.is_within(prefix)).collect())
            }
        }
    }
}

/// Lists events in the order of the log.
///
/// # Errors
/// [`Failure`] if the filter is malformed or the log cannot be read.
pub fn list(reader: &Reader, filter: &EventFilter, sink: &mut dyn Sink) -> Result<(), Failure> {
    let kinds = Kinds::parse(filter.kind.as_deref())?;
    let reader = &reader.showing_damage();
    let limit = filter.limit.min(ROWS_MAX) as usize;
    if filter.newest {
        let newest = newest(reader, filter, &kinds, limit)?;
        return newest.iter().rev().try_for_each(|event| put(sink, &shown(event, filter.content)));
    }
    let mut left = limit;
    forward(reader, filter, &kinds, filter.after.unwrap_or(0), &mut |event| {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        put(sink, &shown(event, filter.content))?;
        Ok(left > 0)
    })?;
    Ok(())
}

fn passes(event: &Event, filter: &EventFilter, kinds: &Kinds) -> bool {
    filter.source.as_ref().is_none_or(|source| event.source == *source) && kinds.pass(&event.kind)
}

/// Walks the events behind a position, oldest first, until `take` says that it is enough. Returns the last
/// position that was looked at.
///
/// # Errors
/// [`Failure`] if the log cannot be read, or what `take` answers.
pub fn forward(
    reader: &Reader,
    filter: &EventFilter,
    kinds: &Kinds,
    after: u64,
    take: &mut dyn FnMut(&Event) -> Result<bool, Failure>,
) -> Result<u64, Failure> {
    // The index by type costs only what matches, but it knows places in a source, not positions in the log: it
    // serves a look from the start. Whoever follows the log is near its end, where reading on costs less.
    if let (0, Some(source), Some(names)) = (after, &filter.source, kinds.names(reader)) {
        let mut seen = after;
        for event in reader.walk(&names, source) {
            let event = event?;
            if kinds.pass(&event.kind) {
                seen = event.position;
                if !take(&event)? {
                    break;
                }
            }
        }
        return Ok(seen);
    }
    let mut seen = after;
    loop {
        let page = reader.page_after(seen, PAGE)?;
        if page.is_empty() {
            return Ok(seen);
        }
        for event in &page {
            seen = event.position;
            if passes(event, filter, kinds) && !take(event)? {
                return Ok(seen);
            }
        }
    }
}

/// Returns the last events that pass, newest first.
fn newest(reader: &Reader, filter: &EventFilter, kinds: &Kinds, limit: usize) -> Result<Vec<Event>, Failure> {
    let mut found = Vec::new();
    let mut before = None;
    while found.len() < limit {
        let page = reader.page_before(before, PAGE)?;
        let Some(last) = page.last() else { break };
        before = Some(last.position);
        found.extend(page.into_iter().filter(|event| passes(event, filter, kinds)));
    }
    found.truncate(limit);
    Ok(found)
}

/// Returns one event.
///
/// # Errors
/// [`Failure`] if there is none or the log cannot be read.
pub fn one(reader: &Reader, id: &EventId, content: bool) -> Result<Value, Failure> {
    Ok(shown(&find(&reader.showing_damage(), id)?, content))
}

/// Returns an event as it is shown: the words of a proposal stand in it only if they are asked for, and what is not
/// shown is named under [`WITHHELD`].
#[must_use]
pub fn shown(event: &Event, content: bool) -> Value {
    let mut value = event.to_json();
    if content {
        return value;
    }
    let mut withheld = Vec::new();
    for place in words(&event.kind.name) {
        let (parent, name) = place.rsplit_once('/').unwrap_or(("", place));
        let inside = value.pointer_mut(&format!("/payload{parent}")).and_then(Value::as_object_mut);
        withheld.extend(inside.and_then(|inside| inside.remove(name)).map(|_| *place));
    }
    if !withheld.is_empty() {
        value[WITHHELD] = withheld.into();
    }
    value
}

/// Finds an event by its id.
///
/// # Errors
/// [`Failure`] if there is none or the log cannot be read.
pub(crate) fn find(reader: &Reader, id: &EventId) -> Result<Event, Failure> {
    reader.event(id)?.ok_or_else(|| unknown("event", id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> TypeRef {
        TypeRef::parse(text).unwrap()
    }

    #[test]
    fn a_type_filter_is_a_name_a_version_or_a_family() {
        let parse = |text| Kinds::parse(Some(text));
        assert!(Kinds::parse(None).unwrap().pass(&kind("a.b@1")));
        assert!(parse("a.b").unwrap().pass(&kind("a.b@2")) && !parse("a.b").unwrap().pass(&kind("a.c@2")));
        assert!(
            parse("a.b@1").unwrap().pass(&kind("a.b@1")) && !parse("a.b@1").unwrap().pass(&kind("a.b@2"))
        );
        assert!(parse("a.*").unwrap().pass(&kind("a.b@1")) && !parse("a.*").unwrap().pass(&kind("ab.c@1")));
        for bad in ["", ".*", "A.b", "a", "a.b@0", "a.b@x", "*"] {
            assert_eq!(parse(bad).unwrap_err().exit(), Exit::Usage, "{bad}");
        }
    }
}
