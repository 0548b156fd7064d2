//! The permanent mark of a store made for rehearsal: only there may anything be made to fail on purpose.

use std::path::Path;

use thoughtstream_actors::killpoint::{KillAction, KillPoint, Trap};
use thoughtstream_actors::service::RECOVERY;
use thoughtstream_actors::supervisor::TreeNode;
use thoughtstream_domain::yaml::nearest;
use thoughtstream_effects::atomic;
use thoughtstream_store::{CreateError, Options, Store};

use crate::chance;
use crate::exit::Exit;
use crate::failure::Failure;

/// Under which name whoever decides about proposals passes kill points.
pub(crate) const DESK: &str = "desk";

/// How the mark of a rehearsal begins; the chance that a random mark does is one in 2^72.
const WORD: &[u8; 9] = b"rehearsal";

/// Makes the mark of a new store for rehearsal.
///
/// # Errors
/// [`Failure`] if the kernel gives no random bytes.
pub fn mark() -> Result<[u8; 16], Failure> {
    let mut mark = chance::bytes::<16>()?;
    mark[..WORD.len()].copy_from_slice(WORD);
    Ok(mark)
}

/// The file beside a rehearsal's log that tells a service to look at the mark. Alone it means nothing.
pub const HINT: &str = "rehearsal";

/// Makes a log for rehearsal.
///
/// # Errors
/// [`Failure`] if there is a log already, or it cannot be made.
pub fn create(data: &Path) -> Result<(), Failure> {
    Store::create(data, mark()?, Options::default()).map_err(|error| {
        let exit =
            if matches!(error, CreateError::Exists { .. }) { Exit::Refused } else { Exit::CouldNotLook };
        Failure::of(exit, "store.create", &error)
    })?;
    atomic::create(&data.join(HINT), b"", 0o600)
        .map_err(|error| Failure::of(Exit::CouldNotLook, "rehearsal.hint", &error))
}

/// Says whether a store with this mark was made for rehearsal.
#[must_use]
pub fn is_rehearsal(mark: &[u8; 16]) -> bool {
    mark.starts_with(WORD)
}

/// Makes a trap from the names of a kill point and an action.
///
/// # Errors
/// [`Failure`] with the known names if one is not known.
pub fn trap(point: &str, action: &str, passage: u32, actor: Option<&str>) -> Result<Trap, Failure> {
    let unknown = |what: &str, name: &str, known: String| {
        Failure::new(Exit::Usage, "rehearsal.name", format!("`{name}` is no {what}"))
            .with_hint(format!("known: {known}"))
    };
    let found = KillPoint::parse(point).ok_or_else(|| {
        let known: Vec<&str> = KillPoint::ALL.iter().map(|point| point.as_str()).collect();
        unknown("kill point", point, known.join(", "))
    })?;
    let does = KillAction::parse(action).ok_or_else(|| {
        let known: Vec<&str> = KillAction::ALL.iter().map(|action| action.as_str()).collect();
        unknown("action", action, known.join(", "))
    })?;
    let trap = Trap::new(found, does).at(passage);
    Ok(match actor {
        Some(actor) => trap.of(actor),
        None => trap,
    })
}

/// Passes kill points and is in no tree: who decides about proposals, and who closes what others left open.
const BESIDE_THE_TREE: [&str; 2] = [DESK, RECOVERY];

/// Returns the whole path of an actor that may be named by its path below the root, as `rehearsal kill` names it.
pub(crate) fn whole_path(tree: &TreeNode, actor: &str) -> String {
    let mut known = Vec::new();
    paths(tree, &tree.name, &mut known);
    let whole = format!("{}/{actor}", tree.name);
    if known.contains(&whole) { whole } else { actor.to_owned() }
}

/// Returns the path below the root of an actor that may be named by its whole path, as `rehearsal arm` names it.
pub(crate) fn path_below<'a>(tree: &TreeNode, actor: &'a str) -> &'a str {
    actor.strip_prefix(&*tree.name).and_then(|below| below.strip_prefix('/')).unwrap_or(actor)
}

/// Refuses to set a trap for an actor that nobody is: it would wait for ever. The path is a whole one.
///
/// # Errors
/// [`Failure`] with the nearest path.
pub(crate) fn check_armed(tree: &TreeNode, actor: &str) -> Result<(), Failure> {
    let mut known = Vec::new();
    paths(tree, &tree.name, &mut known);
    known.extend(BESIDE_THE_TREE.map(str::to_owned));
    check(&known, actor)
}

/// Refuses to kill an actor that nobody is. The path is one below the root.
///
/// # Errors
/// [`Failure`] with the nearest path.
pub(crate) fn check_killed(tree: &TreeNode, actor: &str) -> Result<(), Failure> {
    let mut known = Vec::new();
    for child in &tree.children {
        paths(child, &child.name, &mut known);
    }
    check(&known, actor)
}

/// Collects the path of a node and of all below it.
fn paths(node: &TreeNode, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    for child in &node.children {
        paths(child, &format!("{path}/{}", child.name), found);
    }
}

fn check(known: &[String], actor: &str) -> Result<(), Failure> {
    if known.iter().any(|path| path == actor) {
        return Ok(());
    }
    // Whoever begins a path at another place than this command does means the same actor.
    let last = actor.rsplit('/').next().unwrap_or(actor);
    let same = known.iter().find(|path| path.rsplit('/').next() == Some(last));
    let near = nearest(actor, known.iter().map(String::as_str)).or(same.map(String::as_str));
    let failure = Failure::new(Exit::Refused, "actor.unknown", format!("no actor is `{actor}`"));
    Err(failure.with_hint(match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`thought tree` shows who is there".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mark_of_a_rehearsal_is_one() {
        assert!(is_rehearsal(&mark().unwrap()));
        assert!(!is_rehearsal(&chance::bytes().unwrap()));
        assert_ne!(mark().unwrap(), mark().unwrap());
    }
}
