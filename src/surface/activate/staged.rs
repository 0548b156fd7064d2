//! The next version of a declaration as it lies in a directory of its own, before it is put in place.
//!
//! A prompt that changes has a name of its own: two files cannot be replaced in one step, and a version that runs must
//! never be found with the prompt of another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thoughtstream_domain::declaration::PROMPT_BYTES_MAX;
use thoughtstream_domain::id::ConsumerId;
use thoughtstream_effects::atomic::{self, WriteError};

use crate::command::declaration::mode;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files::{Files, Listing};
use crate::load::{LoadFailure, declares, listing, prompt_of};
use crate::places::Places;

/// Where prompts are, below a configuration's directory.
const PROMPTS: &str = "prompts";

/// What the files of a configuration may be read by: whoever may read the directory.
const READABLE: u32 = 0o644;

/// Is a declaration's next version, and the prompts that come with it.
#[derive(Debug)]
pub(crate) struct Staged {
    id: ConsumerId,
    declaration: Vec<u8>,
    /// Where it goes, below the configuration's directory.
    name: String,
    pub(crate) prompts: BTreeMap<String, Vec<u8>>,
}

impl Staged {
    /// Reads the next version of a consumer from a directory laid out like a configuration.
    ///
    /// # Errors
    /// [`Failure`] if there is none, there are several, or a prompt would take the place of another.
    pub(crate) fn read(places: &Places, from: &Path, id: &ConsumerId) -> Result<Self, Failure> {
        let refused = |what: String| Failure::new(Exit::Usage, "activation.staged", what);
        let files = Files::open(from)?.ok_or_else(|| refused(format!("there is no `{}`", from.display())))?;
        let found = listing(&files)?.unwrap_or_default();
        if !found.problems.is_empty() {
            return Err(LoadFailure::Problems(found.problems).into());
        }
        let mut ours = found.files.into_iter().filter(|(_, bytes)| declares(bytes, id));
        let (name, declaration) = ours.next().ok_or_else(|| {
            refused(format!("no file in `{}` declares {id}", from.join("declarations").display()))
                .with_hint("lay the next version out as in a configuration: declarations/… and prompts/…")
        })?;
        if ours.next().is_some() {
            return Err(refused(format!("more than one file declares {id}")));
        }
        let in_place = crate::load::declarations(places)?;
        let name =
            in_place.iter().find(|(_, bytes)| declares(bytes, id)).map_or(name, |(name, _)| name.clone());
        let prompts = files.directory(PROMPTS, &["md"], PROMPT_BYTES_MAX)?.unwrap_or_default();
        if !prompts.problems.is_empty() {
            return Err(LoadFailure::Problems(prompts.problems).into());
        }
        // A copy of a whole configuration has the prompts of others too; they are not what is moved.
        let named = prompt_of(&declaration);
        let prompts = prompts.files.into_iter().filter(|(name, _)| Some(name) == named.as_ref()).collect();
        let staged = Self { id: id.clone(), declaration, name, prompts };
        staged.check_prompts(places)?;
        Ok(staged)
    }

    fn check_prompts(&self, places: &Places) -> Result<(), Failure> {
        let Some(files) = Files::open(&places.config)? else { return Ok(()) };
        for (name, bytes) in &self.prompts {
            let there = files.read(Path::new(name), name, PROMPT_BYTES_MAX)?;
            if matches!(there, Ok(None)) || there.is_ok_and(|there| there.as_ref() == Some(bytes)) {
                continue;
            }
            let what = format!("`{name}` is in place already, and says something else");
            return Err(Failure::new(Exit::Refused, "activation.prompt-in-place", what).with_hint(
                "give the new prompt a name of its own: the version that runs must keep the one it has",
            ));
        }
        Ok(())
    }

    /// Puts the declaration into a listing, in place of the one of the same consumer.
    pub(crate) fn put_over(&self, listing: &mut Listing) {
        listing.files.retain(|(_, bytes)| !declares(bytes, &self.id));
        listing.files.push((self.name.clone(), self.declaration.clone()));
        listing.files.sort();
    }

    /// Returns the files that are put in place, below the configuration's directory.
    pub(crate) fn files(&self) -> Vec<String> {
        self.prompts.keys().cloned().chain([self.name.clone()]).collect()
    }

    /// Puts the files in place: new prompts first, then the declaration in one step. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Failure`] if one cannot be written; the version before is still in place then.
    pub(crate) fn install(&self, places: &Places) -> Result<(), Failure> {
        let failed = |error: WriteError| Failure::of(Exit::CouldNotLook, "activation.write", &error);
        self.check_prompts(places)?;
        for (name, bytes) in &self.prompts {
            let path = places.config.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| {
                    Failure::new(Exit::CouldNotLook, "activation.write", "cannot make the prompts' directory")
                        .because(&error)
                })?;
            }
            match atomic::create(&path, bytes, READABLE) {
                // It was found to say the same.
                Ok(()) | Err(WriteError::Exists { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let path = self.in_place(places);
        atomic::replace(&path, &self.declaration, mode(&path)).map_err(failed)
    }

    /// Returns where the declaration goes; a link is followed, as people keep the file in a repository of their own.
    fn in_place(&self, places: &Places) -> PathBuf {
        let path = places.config.join(&self.name);
        std::fs::canonicalize(&path).unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_put_in_place_leaves_what_was_there() {
        let base = tempfile::tempdir().unwrap();
        let text = "id: talk\nversion: 2\nprompt: prompts/talk-2.md\n";
        let lay_out = |name: &str| {
            let below = base.path().join(name);
            for directory in ["declarations", "prompts"] {
                std::fs::create_dir_all(below.join(directory)).unwrap();
            }
            below
        };
        let (config, next) = (lay_out("config"), lay_out("next"));
        std::fs::write(next.join("declarations/talk.yaml"), text).unwrap();
        std::fs::write(next.join("prompts/talk-2.md"), "Answer.\n").unwrap();
        let places = Places { data: base.path().join("data"), config: config.clone() };
        let id = ConsumerId::parse("talk").unwrap();
        let staged = Staged::read(&places, &next, &id).unwrap();
        assert_eq!(staged.files(), ["prompts/talk-2.md", "declarations/talk.yaml"]);
        // Something that is no file came into its place since it was read.
        let place = config.join("declarations/talk.yaml");
        std::fs::create_dir(&place).unwrap();
        let failure = staged.install(&places).unwrap_err();
        assert_eq!(failure.code, "activation.write");
        assert!(place.is_dir());
        std::fs::remove_dir(&place).unwrap();
        staged.install(&places).unwrap();
        staged.install(&places).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), text);
    }
}
