//! Names that a filter uses: one that nobody knows is refused, since an empty answer would look like a fact.

use thoughtstream_domain::id::{SourceId, TypeName, TypeRef};
use thoughtstream_domain::yaml::nearest;

use super::events::Kinds;
use super::{Look, consumers, tree, unknown};
use crate::ask::{EventFilter, RunFilter};
use crate::failure::Failure;

/// Refuses a filter of events that names a source or a type nobody knows.
///
/// # Errors
/// [`Failure`] with the nearest known name, or if the log cannot be read.
pub(crate) fn check_events(look: &Look<'_>, filter: &EventFilter) -> Result<(), Failure> {
    if let Some(source) = &filter.source {
        check_source(look, source)?;
    }
    let mut names = look.reader.type_names();
    names.extend(look.catalog.types.keys().cloned());
    let kinds = Kinds::parse(filter.kind.as_deref())?;
    check_kind(&kinds, &names)?;
    if let Kinds::Version(kind) = &kinds { check_version(look, kind) } else { Ok(()) }
}

/// Refuses a filter of runs that names a consumer or a source nobody knows.
///
/// # Errors
/// [`Failure`] with the nearest known name, or if the log cannot be read.
pub(super) fn check_runs(look: &Look<'_>, filter: &RunFilter) -> Result<(), Failure> {
    if let Some(id) = &filter.consumer {
        let known = consumers::known(look)?;
        if !known.iter().any(|key| key.id == *id) {
            return Err(unknown_near("consumer", id.as_str(), known.iter().map(|key| key.id.as_str())));
        }
    }
    filter.source.as_ref().map_or(Ok(()), |source| check_source(look, source))
}

fn check_source(look: &Look<'_>, source: &SourceId) -> Result<(), Failure> {
    let mut known: Vec<SourceId> = look.reader.sources()?.into_iter().map(|head| head.source).collect();
    known.extend([SourceId::supervision(), SourceId::decisions()]);
    known.extend(consumers::known(look)?.iter().map(|key| SourceId::agent(&key.id)));
    let watched = look.live.is_some_and(|live| is_watched(&live.tree, source));
    if watched || known.contains(source) {
        return Ok(());
    }
    Err(unknown_near("source", source.as_str(), known.iter().map(SourceId::as_str)))
}

/// Says whether a producer of this source is alive, though it may have found nothing yet.
fn is_watched(node: &tree::Node, source: &SourceId) -> bool {
    node.name == source.as_str() || node.children.iter().any(|child| is_watched(child, source))
}

fn check_kind(kinds: &Kinds, known: &[TypeName]) -> Result<(), Failure> {
    let (found, asked) = match kinds {
        Kinds::All => return Ok(()),
        Kinds::Name(name) => (known.contains(name), name.to_string()),
        Kinds::Version(version) => (known.contains(&version.name), version.name.to_string()),
        Kinds::Family(prefix) => (known.iter().any(|name| name.is_within(prefix)), format!("{prefix}.*")),
    };
    if found { Ok(()) } else { Err(unknown_near("type", &asked, known.iter().map(TypeName::as_str))) }
}

/// Refuses a version that is neither registered nor in the log, of a type that is.
fn check_version(look: &Look<'_>, kind: &TypeRef) -> Result<(), Failure> {
    let used = look.reader.definitions()?.into_iter().map(|(used, _)| used);
    let mut known: Vec<TypeRef> = used.chain(look.catalog.versions.iter().cloned()).collect();
    known.retain(|known| known.name == kind.name);
    if known.contains(kind) {
        return Ok(());
    }
    known.sort_unstable();
    known.dedup();
    let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
    Err(unknown("type", kind).with_hint(format!("there is {}", known.join(", "))))
}

fn unknown_near<'a>(what: &str, id: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let failure = unknown(what, &id);
    match nearest(id, known) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None => failure,
    }
}
