//! The files that `thought init` writes: what ships is inside the program.

use std::path::Path;

use crate::exit::Exit;
use crate::failure::Failure;

/// Is one shipped file.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// Where it goes below the configuration directory.
    pub path: &'static str,
    /// What it says.
    pub text: &'static str,
}

macro_rules! shipped {
    ($path:literal) => {
        Shipped { path: $path, text: include_str!(concat!("../../", $path)) }
    };
}

/// All shipped files but the configuration itself.
pub const FILES: &[Shipped] = &[
    shipped!("declarations/document-links.yaml"),
    shipped!("declarations/document-metadata.yaml"),
    shipped!("declarations/document-structure.yaml"),
    shipped!("declarations/document-tasks.yaml"),
    shipped!("declarations/file-observer.yaml"),
    shipped!("declarations/output-repair.yaml"),
    shipped!("declarations/telegram-conversation.yaml"),
    shipped!("prompts/document-links.md"),
    shipped!("prompts/document-metadata.md"),
    shipped!("prompts/document-structure.md"),
    shipped!("prompts/document-tasks.md"),
    shipped!("prompts/file-observer.md"),
    shipped!("prompts/output-repair.md"),
    shipped!("prompts/telegram-conversation.md"),
];

/// What editors complete and check the configuration by; files of its kinds name them in their first line. They
/// describe this program and are nobody's own: each `thought init` writes them as they are now.
pub const EDITOR_SCHEMAS: &[Shipped] =
    &[shipped!("schemas/config.schema.json"), shipped!("schemas/declaration.schema.json")];

/// The page that a bot's memory begins with. It is a person's own, and not for others to read.
pub const MEMORY: Shipped =
    Shipped { path: "context/memory.md", text: include_str!("../../ops/memory.example.md") };

macro_rules! sample {
    ($path:literal) => {
        Shipped { path: $path, text: include_str!(concat!("../../tests/fixtures/notes/", $path)) }
    };
}

/// A folder of notes to try things on.
pub const SAMPLES: &[Shipped] = &[
    sample!("README.md"),
    sample!("images/beds.svg"),
    sample!("inbox.md"),
    sample!("journal/2026-02-27.md"),
    sample!("journal/2026-03-02.md"),
    sample!("journal/2026-03-09.md"),
    sample!("people/anna-berg.md"),
    sample!("people/jörg-keller.md"),
    sample!("people/mika-tanaka.md"),
    sample!("projects/allotment.md"),
    sample!("projects/bread-oven.md"),
    sample!("projects/reading-group.md"),
    sample!("projects/shed-sensor.md"),
    sample!("reference/soil.md"),
    sample!("reference/sourdough.md"),
];

/// The configuration to start from; its comments are its manual.
const CONFIG: &str = include_str!("../../ops/config.example.yaml");

/// The lines of [`CONFIG`] that show how a folder is watched.
const EXAMPLE: &str = "sources: []\n#  - filesystem: notes\n#    root: /home/you/notes\n";

/// Returns the configuration to start from, with a folder to watch if one is given.
///
/// # Errors
/// [`Failure`] if the folder's name cannot be written into a text file.
pub fn config(notes: Option<&Path>) -> Result<String, Failure> {
    let Some(notes) = notes else { return Ok(CONFIG.to_owned()) };
    let name = notes.to_str().filter(|name| !name.chars().any(char::is_control)).ok_or_else(|| {
        Failure::new(Exit::Usage, "init.notes", "the folder's name is not text that a file can hold")
    })?;
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    let lines = format!("sources:\n  - filesystem: notes\n    root: \"{quoted}\"\n");
    Ok(CONFIG.replacen(EXAMPLE, &lines, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_written_into_the_configuration() {
        let text = config(Some(Path::new("/a \"b\""))).unwrap();
        assert!(text.contains("root: \"/a \\\"b\\\"\"\n"), "{text}");
        assert!(!text.contains("sources: []"));
        assert!(config(Some(Path::new("/a\nb"))).is_err());
    }

    #[test]
    fn every_file_that_an_editor_can_check_names_its_schema() {
        let named = |file: &Shipped, schema: &str| {
            assert!(
                file.text.starts_with(&format!("# yaml-language-server: $schema={schema}\n")),
                "{}",
                file.path
            );
            let beside = Path::new(file.path).parent().unwrap_or(Path::new("")).join(schema);
            let path = beside.to_str().unwrap().replace("declarations/../", "");
            assert!(EDITOR_SCHEMAS.iter().any(|schema| schema.path == path), "{path}");
        };
        for file in FILES.iter().filter(|file| file.path.starts_with("declarations/")) {
            named(file, "../schemas/declaration.schema.json");
        }
        named(&Shipped { path: "config.yaml", text: CONFIG }, "schemas/config.schema.json");
    }

    #[test]
    fn everything_in_the_shipped_directories_is_written() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for dir in ["declarations", "prompts"] {
            let Ok(entries) = std::fs::read_dir(root.join(dir)) else { continue };
            for entry in entries {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = format!("{dir}/{name}");
                assert!(name.starts_with('.') || FILES.iter().any(|file| file.path == path), "{path}");
            }
        }
    }
}
