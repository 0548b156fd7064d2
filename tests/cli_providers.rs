//! Providers as an operator meets them: what is checked before anything is sent, and where a key never shows.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::chaos_refusals::Unprivileged;
use crate::cli_world::World;

const KEY: &str = "sk-test-AAAA1111BBBB2222";

/// A provider that nobody runs: nothing here is sent anywhere.
const PROVIDER: &str = "\nproviders:\n  - name: nobody\n    endpoint: http://127.0.0.1:9/v1\n    models: [m-1]\n    \
                        credential: nobody-key\n    credentialVariable: THOUGHT_TEST_KEY\n";

fn configure(config: &Path, text: &str) {
    let file = config.join("config.yaml");
    let before = std::fs::read_to_string(&file).unwrap().replace("\nproviders: []\n", "\n");
    std::fs::write(&file, before + text).unwrap();
}

fn put(config: &Path, mode: u32) {
    let directory = config.join("credentials");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("nobody-key");
    std::fs::write(&file, KEY).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Says whether a file, or a file below a directory, holds the key.
fn holds_the_key(path: &Path) -> bool {
    if path.is_dir() {
        return std::fs::read_dir(path).unwrap().any(|entry| holds_the_key(&entry.unwrap().path()));
    }
    let Ok(bytes) = std::fs::read(path) else { return false };
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

#[test]
fn doctor_says_how_safely_a_credential_lies() {
    let world = World::with_config();
    world.append("k", "one").expect(0);
    configure(&world.config, PROVIDER);
    let check = |with_variable: bool| -> Value {
        let mut doctor = world.command(&["doctor", "--quick", "--json"]);
        if with_variable {
            doctor.env("THOUGHT_TEST_KEY", KEY);
        }
        let output = doctor.output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(!stdout.contains(KEY) && !String::from_utf8_lossy(&output.stderr).contains(KEY));
        let diagnosis: Value = serde_json::from_str(&stdout).unwrap();
        let checks = diagnosis["checks"].as_array().unwrap();
        checks.iter().find(|check| check["id"] == "provider-nobody").unwrap().clone()
    };
    assert_eq!(check(false)["status"], "advice");
    let environment = check(true);
    assert_eq!(environment["status"], "advice");
    assert!(environment["evidence"].as_str().unwrap().ends_with("credential in the environment"));
    put(&world.config, 0o644);
    assert_eq!(check(true)["status"], "finding");
    put(&world.config, 0o600);
    assert_eq!(check(true)["status"], "ok");
}

#[test]
fn a_key_in_the_environment_is_not_read_by_another_program_of_the_same_user() {
    let unprivileged = Unprivileged::new();
    configure(&unprivileged.world.config, PROVIDER);
    let log = std::fs::File::create(unprivileged.world.base().join("service.log")).unwrap();
    let mut serve = unprivileged.command(&["serve"]);
    let mut service = serve.env("THOUGHT_TEST_KEY", KEY).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let mut brokers = Value::Null;
    while brokers.is_null() {
        assert!(service.try_wait().unwrap().is_none(), "it ended: {}", unprivileged.world.log());
        let tree = unprivileged.run(&["tree", "--json"]);
        brokers = if tree.stdout.contains("\"brokers\"") { tree.json() } else { Value::Null };
    }
    assert!(!brokers.to_string().contains(KEY));
    for name in ["environ", "mem", "maps", "auxv"] {
        let path = format!("/proc/{}/{name}", service.id());
        let output = unprivileged.other(Path::new("/bin/cat")).arg(&path).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{path} can be read");
    }
    let arguments = std::fs::read(format!("/proc/{}/cmdline", service.id())).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains(KEY));
    unprivileged.run(&["stop"]).expect(0);
    assert!(service.wait().unwrap().success());
    assert!(!holds_the_key(&unprivileged.world.data), "a file of the data directory holds the key");
    assert!(!unprivileged.world.log().contains(KEY));
}

#[test]
fn a_rehearsal_does_not_start_with_a_real_provider() {
    let mut world = World::with_config();
    world.data = world.base().join("rehearsal");
    world.thought(&["rehearsal", "create"]).expect(0);
    configure(&world.config, PROVIDER);
    let refused = world.thought(&["serve"]).expect(1);
    assert!(refused.stderr.contains("has a credential"), "{}", refused.stderr);
}

#[test]
fn a_key_in_the_configuration_is_refused_at_its_place_and_not_repeated() {
    let world = World::with_config();
    configure(&world.config, &format!("{PROVIDER}    apiKey: {KEY}\n"));
    let refused = world.thought(&["declaration", "check"]).expect(2);
    let said = refused.stdout + &refused.stderr;
    assert!(said.contains("config.secret"), "{said}");
    assert!(!said.contains(KEY));
}
