//! The shape of the sources: what lies where, how long it is, how it begins.

use super::{names, none, read, root, texts};

const TOP_LEVEL: [&str; 10] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "actors",
    "declarations",
    "ops",
    "prompts",
    "schemas",
    "src",
    "tests",
];

/// A file that is longer holds more than one concept.
const LINES_MAX: usize = 600;

fn rust() -> Vec<(String, String)> {
    texts().into_iter().filter(|(path, _)| path.ends_with(".rs")).collect()
}

#[test]
fn the_top_level_is_the_prescribed_one() {
    for name in names(&root()) {
        let hidden = name.starts_with('.') || name == "target";
        assert!(hidden || TOP_LEVEL.contains(&name.as_str()), "{name} does not belong at the top level");
    }
}

#[test]
fn every_test_file_is_a_module_of_main() {
    let main = read("tests/main.rs");
    for name in names(&root().join("tests")) {
        let Some(stem) = name.strip_suffix(".rs").filter(|stem| *stem != "main") else { continue };
        assert!(main.contains(&format!("mod {stem};")), "tests/{name} is never compiled");
    }
}

#[test]
fn every_source_file_is_compiled() {
    let all = rust();
    let orphans = all.iter().map(|(path, _)| path).filter(|path| {
        let Some((dir, name)) = path.rsplit_once('/').filter(|(dir, _)| *dir != "src" && *dir != "tests")
        else {
            return false;
        };
        let is_crate = super::layers::members().iter().any(|member| member == dir);
        let program = format!("{dir}/main.rs");
        let parent = match (is_crate, all.iter().any(|(other, _)| *other == program)) {
            (true, _) => format!("{dir}/lib.rs"),
            (false, true) => program,
            (false, false) => format!("{dir}.rs"),
        };
        let ends = format!("mod {};", name.trim_end_matches(".rs"));
        let declares = |text: &str| text.lines().any(|line| line.trim_end().ends_with(&ends));
        // A directory with a `main.rs` is a program, which the manifest names.
        let is_root =
            name == "lib.rs" || (name == "main.rs" && read("Cargo.toml").contains(&format!("\"{path}\"")));
        !is_root && !all.iter().any(|(other, text)| *other == parent && declares(text))
    });
    none("no module names it", orphans.cloned());
}

#[test]
fn no_file_grows_past_what_one_reads_in_one_go() {
    let long = rust().into_iter().map(|(path, text)| (path, text.lines().count()));
    let long = long.filter(|(_, lines)| *lines > LINES_MAX);
    none("longer than 600 lines", long.map(|(path, lines)| format!("{path}: {lines}")));
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent = rust().into_iter().filter(|(path, text)| {
        // A module of unit tests is about the module it belongs to.
        !path.ends_with("/tests.rs") && !text.starts_with("//! ")
    });
    none("does not begin with what it is for", silent.map(|(path, _)| path));
}

#[test]
fn modules_are_named_after_what_is_in_them() {
    let vague = ["mod", "util", "utils", "types", "helpers", "misc", "common", "manager"];
    let names = rust().into_iter().map(|(path, _)| path).filter(|path| {
        let name = path.rsplit('/').next().unwrap();
        vague.contains(&name.trim_end_matches(".rs"))
    });
    none("does not say what is in it", names);
}

/// Returns the lines of every Rust file that are not comments and for which `is_wrong` holds.
fn lines_of_code(is_wrong: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in rust() {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        found
            .extend(code.filter(|line| is_wrong(&path, line)).map(|line| format!("{path}: {}", line.trim())));
    }
    found
}

#[test]
fn unsafe_code_lives_in_one_file() {
    // Spelled in two halves, or this file would be the second one.
    let word = concat!("un", "safe");
    let forms = [" {", " fn", " impl", " extern", " trait", "("].map(|after| format!("{word}{after}"));
    let elsewhere = lines_of_code(|path, line| {
        path != "src/effects/os.rs" && forms.iter().any(|form| line.contains(form.as_str()))
    });
    none("only src/effects/os.rs may", elsewhere);
}

#[test]
fn a_variant_without_members_is_read_strictly() {
    // serde's `deny_unknown_fields` does not hold for one where a member of its own tells the variants apart.
    let mut found = Vec::new();
    for (path, text) in rust() {
        let (mut attributes, mut inside, mut strict) = (String::new(), false, false);
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            if inside || line.trim_start().starts_with("#[") {
                attributes.push_str(line);
                inside = !line.ends_with(']');
                continue;
            }
            let variant = line.strip_prefix("    ").and_then(|line| line.strip_suffix(','));
            if line.contains("enum ") && line.ends_with('{') {
                let has = |word: &str| attributes.contains(word);
                strict = has("tag = \"") && has("deny_unknown_fields") && has("Deserialize");
            } else if line == "}" {
                strict = false;
            } else if let Some(name) = variant.filter(|name| name.chars().all(char::is_alphanumeric))
                && strict
                && !attributes.contains("bare::nothing")
            {
                found.push(format!("{path}: {name}"));
            }
            attributes.clear();
        }
    }
    none("not read by `bare::nothing`", found);
}

#[test]
fn a_printed_command_is_one_command() {
    // Whoever takes the whole line runs all of it: what stands before the bar, into what stands behind it.
    let joined = lines_of_code(|path, line| {
        let command = line.split_once("thought ").is_some_and(|(_, rest)| rest.contains(" | "));
        command && path.starts_with("src/surface/") && !path.contains("/tests")
    });
    none("one command a line", joined);
}

#[test]
fn a_silenced_lint_says_why() {
    let silence = [concat!("#[al", "low("), concat!("#![al", "low(")];
    let silenced = lines_of_code(|_, line| silence.iter().any(|form| line.contains(form)));
    none("expect a lint with a reason instead of silencing it", silenced);
}

#[test]
fn nothing_names_a_machine_it_was_made_on() {
    // Directories that exist on one machine only, spelled so that this file does not hold them. A page that
    // needs a home directory says that of `you`, a test that of `a`.
    let places = ["/ro@ot/", "/wo@rk/", "/ho@me/", "/Us@ers/", "/tmp/fa@rm", "local@host:"];
    let places = places.map(|place| place.replace('@', ""));
    let neutral = ["/ho@me/you", "/ho@me/a/", "/ho@me/a\""].map(|place| place.replace('@', ""));
    let inside_a_longer_path =
        |before: &str| before.ends_with(|last: char| last.is_alphanumeric() || "._-}".contains(last));
    let mut found = Vec::new();
    for (path, text) in texts() {
        for line in text.lines() {
            let line = neutral.iter().fold(line.to_owned(), |line, place| line.replace(place, ""));
            let place = places.iter().filter_map(|place| line.find(place.as_str()));
            if place.into_iter().any(|at| !inside_a_longer_path(&line[..at])) {
                found.push(format!("{path}: {}", line.trim()));
            }
        }
    }
    none("names a place of one machine", found);
}

/// Whoever clones this fetches from public registries by their usual names and from nowhere else.
#[test]
fn tools_are_told_of_no_host_of_their_own() {
    // The last ones are what the configuration's example is about.
    let known = [
        "doc.rust-lang.org",
        "example.org",
        "127.0.0.1",
        "api.openai.com",
        "tinker.thinkingmachines.dev",
        "api.telegram.org",
    ];
    let is_a_setting =
        |path: &str| path.starts_with("ops/") || path.starts_with('.') || path.ends_with(".toml");
    let mut found = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| is_a_setting(path)) {
        let hosts = text.split("://").skip(1).filter(|url| !known.iter().any(|known| url.starts_with(known)));
        found.extend(hosts.map(|url| format!("{path}: {:.60}", url)));
    }
    none("leads to another host", found);
}

/// What a service says by default is chosen by the crate that says it, so whatever names a target of its own is silent.
#[test]
fn nothing_that_is_logged_names_a_target_of_its_own() {
    let named = ["tracing::", "target: \""];
    let silent = rust().into_iter().flat_map(|(path, text)| {
        let lines = text.lines().enumerate().filter(|(_, line)| named.iter().all(|part| line.contains(part)));
        lines.map(|(number, _)| format!("{path}:{}", number + 1)).collect::<Vec<_>>()
    });
    none("is cut out of the service's log", silent.filter(|place| !place.starts_with("tests/tidy/")));
}
