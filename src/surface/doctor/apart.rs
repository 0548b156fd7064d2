//! Looks whether producers that are processes of their own can come in, and whether they have.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thoughtstream_domain::time::Timestamp;

use super::{Check, Health, check, unseen};
use crate::config::{Folder, Producer};
use crate::load::configured;
use crate::places::{Places, environment, source_directory};
use crate::query::sources::{Apart, producer_command};
use crate::render::age;
use crate::serve::source_doors_failure;
use crate::socket::source::user;

/// Looks at each source whose producer runs apart: whether its user exists, and comes through to the door. What is
/// wrong with the configuration itself is said elsewhere.
#[must_use]
pub fn producers_apart(places: &Places) -> Vec<Check> {
    let folders = configured(places).map(|config| config.folders).unwrap_or_default();
    folders.iter().filter(|folder| folder.is_apart()).map(|folder| one(folder, places)).collect()
}

fn one(folder: &Folder, places: &Places) -> Check {
    let id = format!("producer:{}", folder.source.name());
    let other = match user(folder) {
        Ok(other) => other,
        Err(error) => return unseen(&id, &source_doors_failure(&error)),
    };
    let our_uid = nix::unistd::geteuid().as_raw();
    let named = match &folder.producer {
        Producer::Apart { user: Some(user) } => format!("runs apart as user {user}"),
        Producer::Apart { user: None } | Producer::Here => "runs apart as the user of the service".to_owned(),
    };
    let door = source_directory(&places.data, &folder.source, our_uid, &environment);
    let above = door.parent().and_then(Path::parent).unwrap_or(&door);
    match closed(above).filter(|_| other.is_some_and(|other| other.uid != our_uid)) {
        None => check(&id, Health::Ok, named, None),
        Some(closed) => {
            let seen = format!("{named}, which cannot come through {} to its door", closed.display());
            let fix =
                "set THOUGHTSTREAM_RUNTIME of both to a directory that others may pass through (mode 0711)";
            check(&id, Health::Finding, seen, Some(fix))
        }
    }
}

/// Returns the first directory on the way that is closed to everybody else.
fn closed(path: &Path) -> Option<PathBuf> {
    let shut = |above: &&Path| above.metadata().is_ok_and(|about| about.permissions().mode() & 0o001 == 0);
    path.ancestors().filter(shut).last().map(Path::to_owned)
}

/// Judges whether producers apart are connected, as a running service sees it.
pub(super) fn connected(apart: &[Apart], now: Timestamp) -> Option<Check> {
    let id = "producers-connected";
    let missing: Vec<&Apart> = apart.iter().filter(|one| !one.connected).collect();
    if apart.is_empty() {
        return None;
    }
    let told = |one: &&Apart| {
        let silent = one.silent().map_or_else(String::new, |pid| format!(", process {pid} does not answer"));
        format!("{} for {}{silent}", one.source, age(one.since, now))
    };
    Some(match missing.as_slice() {
        [] => check(
            id,
            Health::Ok,
            apart.iter().collect::<Vec<_>>().iter().map(told).collect::<Vec<_>>().join(", "),
            None,
        ),
        [first, ..] => {
            let seen = format!("not connected: {}", missing.iter().map(told).collect::<Vec<_>>().join(", "));
            let command = producer_command(&first.source);
            let fix =
                first.silent().map_or(command.clone(), |pid| format!("end process {pid}, then {command}"));
            check(id, Health::Finding, seen, Some(&fix))
        }
    })
}

#[cfg(test)]
mod tests {
    use thoughtstream_domain::id::SourceId;

    use super::*;

    #[test]
    fn one_that_is_not_connected_is_a_finding_with_the_command_that_runs_it() {
        let one = |name: &str, connected| Apart {
            source: SourceId::parse(name).unwrap(),
            connected,
            since: Timestamp::from_millis(0),
            pid: None,
        };
        let now = Timestamp::from_millis(30_000);
        assert_eq!(connected(&[], now), None);
        let well = connected(&[one("filesystem:a", true)], now).unwrap();
        assert_eq!((well.status, well.evidence.as_str()), (Health::Ok, "filesystem:a for 30 s"));
        let ill = connected(&[one("filesystem:a", true), one("filesystem:b", false)], now).unwrap();
        assert_eq!(
            (ill.status, ill.evidence.as_str()),
            (Health::Finding, "not connected: filesystem:b for 30 s")
        );
        assert_eq!(ill.fix.as_deref(), Some("thought serve --producer-only filesystem:b"));
        let stuck = connected(&[Apart { pid: Some(7), ..one("filesystem:b", false) }], now).unwrap();
        assert_eq!(stuck.evidence, "not connected: filesystem:b for 30 s, process 7 does not answer");
        assert_eq!(
            stuck.fix.as_deref(),
            Some("end process 7, then thought serve --producer-only filesystem:b")
        );
    }
}
