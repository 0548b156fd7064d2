//! What must hold of a new version, of its worker and of its folders, before the bot that it answers is let in again.

use std::collections::BTreeSet;

use thoughtstream_actors::service::{LoadedFacts, ServiceHandle};
use thoughtstream_domain::declaration::{Declaration, ModelRunner};
use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::{ConsumerKey, SourceId};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::Loaded;

/// Is what was planned, and where the source was frozen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) version: &'a ConsumerKey,
    pub(super) fingerprint: Sha256Hash,
    /// The last event of the frozen source.
    pub(super) frozen: Option<u64>,
}

impl Planned<'_> {
    /// Holds what an actor has loaded against it.
    ///
    /// # Errors
    /// [`Failure`] `activation.unverified.…` with the first thing that is otherwise.
    pub(super) fn check(&self, facts: &LoadedFacts) -> Result<(), Failure> {
        let wrong = [
            (facts.key != *self.version, "version", "another version is enabled"),
            (facts.fingerprint != self.fingerprint, "fingerprint", "what is loaded is not what was planned"),
            (
                facts.registered != Some(facts.fingerprint),
                "registered",
                "the log has bound it to something else",
            ),
            (!facts.running, "running", "its actor does not run"),
            (Some(facts.head) != self.frozen, "head", "something came in while nothing should"),
            (facts.progress != self.frozen, "progress", "it does not stand at the frozen head"),
        ];
        match wrong.into_iter().find(|(wrong, ..)| *wrong) {
            None => Ok(()),
            Some((_, code, what)) => Err(unverified(code, what)),
        }
    }
}

/// Returns the hash of the worker that a version's runs are given; none if it asks no model.
///
/// # Errors
/// [`Failure`] if it is not the one that lies beside this program, or either could not be read.
pub(super) fn worker(facts: &LoadedFacts) -> Result<Option<Sha256Hash>, Failure> {
    match facts.worker {
        None => Ok(None),
        Some(bundle) if bundle.loaded.is_some() && bundle.loaded == bundle.on_disk => Ok(bundle.loaded),
        Some(_) => {
            let what = "the worker that sandboxes run is not the one beside this program";
            Err(unverified("worker", what)
                .with_hint("install thought and thought-worker of one build, and start the service anew"))
        }
    }
}

/// Says why a folder that a version's documents come from is not the one that is configured.
#[derive(Debug, thiserror::Error)]
pub(super) enum Astray {
    /// Its documents are required, and come from nowhere.
    #[error("{0} is required, and no folder of config.yaml is called so")]
    Unknown(SourceId),
    /// It was added to the configuration since the start.
    #[error("{0} is in config.yaml and not watched by this service")]
    Unwatched(SourceId),
    /// It was changed in the configuration since the start.
    #[error("{0} is watched in another folder than config.yaml says")]
    Elsewhere(SourceId),
}

/// What to do about a folder that is watched otherwise than configured.
pub(super) const RESTART: &str =
    "folders are watched as config.yaml said at the start: put it right, stop the service and start it again";

/// Returns the folders that a version's documents come from, each watched where the configuration says. One that is
/// not configured at all is none of them, if the version does without its documents.
///
/// # Errors
/// [`Astray`] for the first that is not.
pub(super) fn roots(
    service: &ServiceHandle,
    loaded: &Loaded,
    declaration: &Declaration,
) -> Result<Vec<SourceId>, Astray> {
    let mut roots = BTreeSet::new();
    for document in declaration.runner().model().map_or(&[][..], ModelRunner::documents) {
        let source = &document.source;
        let folder = loaded.config.folders.iter().find(|folder| folder.source == *source);
        match (folder, service.watched_root(source)) {
            (None, None) if !document.required => continue,
            (None, None) => return Err(Astray::Unknown(source.clone())),
            (Some(_), None) => return Err(Astray::Unwatched(source.clone())),
            (Some(folder), Some(root)) if folder.root == root => {}
            (None | Some(_), Some(_)) => return Err(Astray::Elsewhere(source.clone())),
        }
        roots.insert(source.clone());
    }
    Ok(roots.into_iter().collect())
}

/// Says what of a new version does not hold.
pub(super) fn unverified(code: &str, what: &str) -> Failure {
    Failure::new(Exit::Refused, &format!("activation.unverified.{code}"), what)
        .with_hint("the bot stays held back; mend it and run the same command again")
}

#[cfg(test)]
mod tests {
    use thoughtstream_actors::service::Bundle;

    use super::*;

    fn key(text: &str) -> ConsumerKey {
        ConsumerKey::parse(text).unwrap()
    }

    #[test]
    fn whatever_an_actor_has_loaded_otherwise_has_a_code_of_its_own() {
        let (hash, other) = (Sha256Hash::of(b"two"), Sha256Hash::of(b"three"));
        let version = key("talk@2");
        let planned = Planned { version: &version, fingerprint: hash, frozen: Some(9) };
        let good = LoadedFacts {
            key: version.clone(),
            fingerprint: hash,
            registered: Some(hash),
            running: true,
            progress: Some(9),
            head: 9,
            worker: None,
        };
        planned.check(&good).unwrap();
        let otherwise: [(&str, LoadedFacts); 8] = [
            ("version", LoadedFacts { key: key("talk@3"), ..good.clone() }),
            ("fingerprint", LoadedFacts { fingerprint: other, registered: Some(other), ..good.clone() }),
            ("registered", LoadedFacts { registered: Some(other), ..good.clone() }),
            ("registered", LoadedFacts { registered: None, ..good.clone() }),
            ("running", LoadedFacts { running: false, ..good.clone() }),
            ("head", LoadedFacts { head: 10, progress: Some(10), ..good.clone() }),
            ("progress", LoadedFacts { progress: Some(8), ..good.clone() }),
            ("progress", LoadedFacts { progress: None, ..good.clone() }),
        ];
        for (code, facts) in otherwise {
            let failure = planned.check(&facts).unwrap_err();
            assert_eq!(failure.code, format!("activation.unverified.{code}"));
        }
        // Nothing was frozen, so nothing can be held against it.
        assert_eq!(
            Planned { frozen: None, ..planned }.check(&good).unwrap_err().code,
            "activation.unverified.head"
        );
    }

    #[test]
    fn a_worker_is_the_one_on_the_disk_or_none() {
        let (hash, other) = (Sha256Hash::of(b"worker"), Sha256Hash::of(b"another"));
        let with = |worker: Option<Bundle>| {
            let facts = LoadedFacts {
                key: key("talk@2"),
                fingerprint: hash,
                registered: None,
                running: true,
                progress: None,
                head: 0,
                worker,
            };
            super::worker(&facts).map_err(|failure| failure.code)
        };
        let bundle = |loaded, on_disk| Some(Bundle { loaded, on_disk });
        assert_eq!(with(None), Ok(None));
        assert_eq!(with(bundle(Some(hash), Some(hash))), Ok(Some(hash)));
        for wrong in [bundle(Some(hash), Some(other)), bundle(Some(hash), None), bundle(None, None)] {
            assert_eq!(with(wrong), Err("activation.unverified.worker".to_owned()));
        }
    }
}
