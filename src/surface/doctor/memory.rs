//! Looks whether what agents may ask to remember can be written anywhere.

use thoughtstream_domain::proposal::Kind;
use thoughtstream_domain::proposal::capability::{MEMORY_PATH, MEMORY_SOURCE};

use super::{Check, Health, check};
use crate::load::load;
use crate::places::Places;

/// Looks for the folder of the memory document, if an enabled declaration may propose to change it; what is wrong with
/// the configuration itself is said elsewhere.
#[must_use]
pub fn memory(places: &Places) -> Option<Check> {
    let loaded = load(places).ok()?;
    let asks = loaded.set.enabled().find(|declaration| {
        declaration.runner().model().is_some_and(|runner| runner.proposals.contains(&Kind::MemoryChange))
    })?;
    let folder = loaded.config.folders.iter().find(|folder| folder.source.as_str() == MEMORY_SOURCE);
    Some(match folder {
        Some(folder) => {
            let seen = format!("{MEMORY_PATH} in {} is watched", folder.root.display());
            check("memory", Health::Ok, seen, None)
        }
        None => {
            let seen = format!(
                "{} may ask to remember things, and no folder is watched as {MEMORY_SOURCE}: no tool for it is offered",
                asks.id()
            );
            let fix = "add that folder under `sources` in config.yaml; its example stands there as a comment";
            check("memory", Health::Advice, seen, Some(fix))
        }
    })
}
