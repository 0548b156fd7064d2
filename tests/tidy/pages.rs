//! What the pages for people promise: commands that exist, links that lead somewhere, a purpose for every room.

use std::collections::BTreeMap;
use std::process::Command;

use super::{names, none, read, root};

const PAGES: [&str; 3] = ["README.md", "ops/RUNBOOK.md", "src/ARCHITECTURE.md"];

/// Returns the pieces of code of a page: each line of a fenced block, each span between backticks.
fn code(page: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            pieces.push(line.trim_start_matches("$ ").to_owned());
        } else {
            pieces.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    pieces
}

/// Returns the `thought` commands of a piece of code, as words, without comments and what is piped on.
fn commands(piece: &str) -> Option<Vec<String>> {
    let piece = piece.split(" #").next()?.split([';', '|', '>', '&']).next()?;
    let mut words = piece.split_whitespace().map(str::to_owned);
    let program = words.by_ref().find(|word| !word.contains('=') && word != "sudo")?;
    (program == "thought" || program.ends_with("/thought")).then(|| words.collect())
}

fn help(words: &[&str]) -> Option<String> {
    let mut thought = Command::new(env!("CARGO_BIN_EXE_thought"));
    let output = thought.args(words).arg("--help").output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Says what of a command the program does not know.
fn unknown(words: &[String]) -> Option<String> {
    let is_name = |word: &str| word.starts_with(|first: char| first.is_ascii_lowercase());
    let mut path: Vec<&str> = Vec::new();
    let mut text = help(&[])?;
    let mut rest = words.iter().map(String::as_str);
    let mut flags = Vec::new();
    while let Some(word) = rest.next() {
        if let Some(flag) = word.strip_prefix("--") {
            flags.push(flag.split('=').next().unwrap_or(flag));
            // The two options that may stand before a command have a value.
            if path.is_empty() && matches!(flag, "data" | "config") {
                rest.next();
            }
        } else if is_name(word) && text.contains("\nCommands:\n") {
            path.push(word);
            match help(&path) {
                Some(deeper) => text = deeper,
                None => return Some(path.join(" ")),
            }
        }
    }
    let missing = |flag: &&str| !text.contains(&format!("--{flag}"));
    flags.into_iter().find(missing).map(|flag| format!("{} --{flag}", path.join(" ")))
}

#[test]
fn every_command_on_the_pages_exists() {
    let mut seen = BTreeMap::new();
    for page in PAGES {
        for words in code(&read(page)).iter().filter_map(|piece| commands(piece)) {
            seen.entry(words).or_insert(page);
        }
    }
    assert!(seen.len() > 10, "the pages are not being read");
    let wrong = seen.iter().filter_map(|(words, page)| Some(format!("{page}: thought {}", unknown(words)?)));
    none("the program does not know", wrong);
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    for wrong in
        ["thought grow", "thought event water ID", "thought tree --wach", "thought --data D tree --x"]
    {
        let words = commands(wrong).unwrap();
        assert!(unknown(&words).is_some(), "{wrong}");
    }
    for right in ["thought --data D --json tree --watch", "THOUGHTSTREAM_DATA=D thought event list | head"] {
        let words = commands(right).unwrap();
        assert_eq!(unknown(&words), None, "{right}");
    }
}

#[test]
fn every_path_on_the_pages_exists() {
    for page in PAGES {
        let text = read(page);
        let dir = root().join(page).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.is_empty() && !link.contains("://") {
                assert!(dir.join(link).exists(), "{page} links to {link}");
            }
        }
        let rooms = ["src/", "actors/", "ops/", "tests/", "declarations/", "prompts/", "schemas/", ".ci/"];
        for piece in code(&text) {
            let Some(path) = piece.split_whitespace().next() else { continue };
            if rooms.iter().any(|room| path.starts_with(room)) && !path.contains(['*', '<', '…', 'X']) {
                let path = path.trim_end_matches([',', '.', ':']);
                assert!(root().join(path).exists(), "{page} names {path}");
            }
        }
    }
}

#[test]
fn every_room_has_its_purpose_on_the_map() {
    let map = read("src/ARCHITECTURE.md");
    let top = names(&root()).into_iter().filter(|name| !name.starts_with('.') && name != "target");
    let top = top.filter(|name| root().join(name).is_dir());
    let rooms = names(&root().join("src")).into_iter().map(|name| format!("src/{name}"));
    for room in top.chain(rooms.filter(|room| root().join(room).is_dir())).filter(|room| room != "src") {
        let line = map.lines().find(|line| line.starts_with(&format!("| `{room}`")));
        let purpose = line.and_then(|line| line.split('|').nth(2)).unwrap_or_default();
        assert!(purpose.trim().len() > 20, "`{room}` has no line with its purpose in src/ARCHITECTURE.md");
    }
}

#[test]
fn the_first_screen_of_the_readme_shows_the_two_commands() {
    let readme = read("README.md");
    let screen: Vec<&str> = readme.lines().take(40).collect();
    for command in ["ops/try", "ops/test"] {
        assert!(screen.iter().any(|line| line.contains(command)), "{command} is not on the first screen");
        assert!(root().join(command).exists());
    }
    for page in ["src/ARCHITECTURE.md", "ops/RUNBOOK.md"] {
        assert!(readme.contains(&format!("({page})")), "the README does not lead to {page}");
    }
}

/// Returns the fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn the_declarations_on_the_pages_are_accepted() {
    let base = tempfile::tempdir().unwrap();
    let (data, config) = (base.path().join("data"), base.path().join("config"));
    let thought = |arguments: &[&str]| {
        let mut thought = Command::new(env!("CARGO_BIN_EXE_thought"));
        let output =
            thought.arg("--data").arg(&data).arg("--config").arg(&config).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    thought(&["init", "--notes", root().join("tests/fixtures/notes").to_str().unwrap()]);
    let shown = blocks(&read("README.md"), "yaml");
    assert!(!shown.is_empty());
    for (number, text) in shown.iter().enumerate() {
        // What is no declaration is a configuration.
        let file = match text.starts_with("id:") {
            true => format!("declarations/shown-{number}.yaml"),
            false => "config.yaml".to_owned(),
        };
        std::fs::write(config.join(file), text).unwrap();
    }
    thought(&["declaration", "check"]);
}

#[test]
fn the_runbook_says_of_the_units_what_they_say() {
    let runbook = read("ops/RUNBOOK.md");
    let units = [
        "ops/thoughtstream.service",
        "ops/thoughtstream-system.service",
        "ops/thoughtstream-source@.service",
    ];
    for unit in units {
        let text = read(unit);
        let never: Vec<&str> =
            text.lines().filter(|line| line.starts_with("RestartPreventExitStatus=")).collect();
        assert_eq!(never, ["RestartPreventExitStatus=2"], "{unit}");
        assert!(runbook.contains(never[0]), "the runbook does not say so of {unit}");
        let program = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let program = program.split_whitespace().next().unwrap().replace("%h", "~");
        let removal = runbook.split("## Removing everything").nth(1).unwrap();
        for removed in [program.clone(), format!("{program}-worker")] {
            assert!(removal.contains(&removed), "{removed} of {unit} is left behind");
        }
    }
}
