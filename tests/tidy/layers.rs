//! The order of the crates.

use std::collections::BTreeSet;

use super::{read, root};
use std::path::Path;

/// Returns the name of the package in `dir` and the names it lists under `[dependencies]`.
fn package(dir: &Path) -> (String, Vec<String>) {
    let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    let name = manifest.split("name = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let keys = section.lines().take_while(|line| !line.starts_with('['));
    let keys = keys.filter_map(|line| line.split(['.', ' ', '=']).next());
    (name, keys.filter(|key| !key.is_empty() && !key.starts_with('#')).map(str::to_owned).collect())
}

/// Returns the workspace's members in their order.
pub(super) fn members() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let list = manifest.split("\nmembers = [").nth(1).unwrap().split("\n]").next().unwrap();
    list.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

#[test]
fn a_crate_depends_only_on_crates_listed_above_it() {
    let packages: Vec<(String, Vec<String>)> =
        members().iter().map(|path| package(&root().join(path))).collect();
    for (index, (name, dependencies)) in packages.iter().enumerate() {
        for (lower, _) in &packages[index..] {
            assert!(!dependencies.contains(lower), "{name} must not depend on {lower}");
        }
    }
}

#[test]
fn the_lower_layers_stay_clean() {
    let forbidden = [
        ("src/domain", &["tokio", "ractor", "redb", "clap", "rand", "nix", "libc"][..]),
        ("src/store", &["tokio", "ractor", "clap"][..]),
        ("src/worker", &["tokio", "ractor", "redb", "clap", "nix", "thoughtstream-store"][..]),
        ("src/effects", &["tokio", "ractor", "redb", "clap"][..]),
        ("src/channels", &["ractor", "redb", "clap"][..]),
        ("actors", &["redb", "clap"][..]),
    ];
    for (layer, names) in forbidden {
        let (_, dependencies) = package(&root().join(layer));
        for name in names {
            assert!(!dependencies.iter().any(|key| key == name), "{layer} must not depend on {name}");
        }
    }
}

#[test]
fn every_dependency_comes_from_one_registry() {
    let lock = read("Cargo.lock");
    let sources: BTreeSet<&str> = lock.lines().filter(|line| line.starts_with("source = ")).collect();
    assert!(sources.len() == 1 && sources.iter().all(|line| line.contains("\"registry+")), "{sources:?}");
}
