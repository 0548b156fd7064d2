//! The event types that may be written: those that ship, and those in `schemas/` of the configuration.

use thoughtstream_domain::registry::{Registry, SCHEMA_BYTES_MAX};
use thoughtstream_domain::yaml::{Problem, render_all};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::files::Files;
use crate::places::Places;
use crate::shipped::EDITOR_SCHEMAS;

/// Reads the registry of a configuration.
///
/// # Errors
/// [`Failure`] with exit code 2 with every problem of every schema file.
pub fn registry(places: &Places) -> Result<Registry, Failure> {
    let Some(files) = Files::open(&places.config)? else { return Ok(Registry::shipped()) };
    read(&files)?.map_err(|problems| {
        Failure::new(Exit::Usage, "schema.file", "the schemas are not right")
            .with_lines(&render_all(&problems))
    })
}

/// Reads the registry from the files of a configuration, or every problem of theirs.
pub(crate) fn read(files: &Files) -> Result<Result<Registry, Vec<Problem>>, Failure> {
    let listing = files.directory("schemas", &["json"], SCHEMA_BYTES_MAX)?.unwrap_or_default();
    // What editors check the configuration by lies beside the types, and is none.
    let is_type = |(path, _): &(String, Vec<u8>)| EDITOR_SCHEMAS.iter().all(|schema| schema.path != path);
    let named: Vec<_> = listing.files.into_iter().filter(is_type).collect();
    let mut problems = listing.problems;
    match Registry::shipped().with_custom(&named) {
        Ok(registry) if problems.is_empty() => return Ok(Ok(registry)),
        Ok(_) => {}
        Err(found) => problems.extend(found),
    }
    Ok(Err(problems))
}
