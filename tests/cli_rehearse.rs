//! `thought rehearse`, as somebody runs it who tries a declaration: what it says, serves, logs and refuses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::cli_world::World;

/// A rehearsal that runs; ended if a test leaves it behind.
struct Rehearsing {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Rehearsing {
    fn start(world: &World, arguments: &[&str]) -> (Self, Value) {
        let mut child = world
            .command(&[&["rehearse", "--json"], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(world.base().join("rehearse.log")).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let address = ready["telegram"].as_str().unwrap().trim_start_matches("http://").to_owned();
        (Self { child, stdout, address }, ready)
    }

    /// Asks once on a connection of its own.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Interrupts it as a person does, and waits for its end.
    fn interrupt(mut self) -> (i32, String) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (code, rest)
    }
}

impl Drop for Rehearsing {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn log(world: &World) -> String {
    std::fs::read_to_string(world.base().join("rehearse.log")).unwrap()
}

fn script(world: &World, text: &str) -> String {
    let path = world.base().join("script.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_example_is_played_until_it_is_interrupted() {
    let world = World::new();
    let example = world.thought(&["rehearse", "--example"]).expect(0).stdout;
    let path = script(&world, &example);
    let (rehearsing, ready) = Rehearsing::start(&world, &[&path]);
    assert_eq!(ready["ready"], true);
    assert!(ready["provider"].as_str().unwrap().ends_with("/v1"));
    let asked = |text: &str| json!({ "model": "smollm2-135m-instruct", "messages": [{ "role": "user", "content": text }] });
    let complete = |text: &str| rehearsing.ask("POST", "/v1/chat/completions", "", &asked(text));
    let (status, greeting) = complete("hello, private words");
    assert_eq!((status, &greeting["choices"][0]["finish_reason"]), (200, &json!("stop")));
    assert_eq!([complete("busy").0, complete("busy").0, complete("busy").0], [429, 429, 200]);
    let other = json!({ "model": "huge", "messages": [] });
    assert_eq!(rehearsing.ask("POST", "/v1/chat/completions", "", &other).0, 404);

    let bot = |method: &str, body: &Value| {
        rehearsing.ask(
            "POST",
            &format!("/bot100000001:rehearsal/{method}"),
            "content-type: application/json\r\n",
            body,
        )
    };
    let (_, first) = bot("getUpdates", &json!({ "timeout": 50 }));
    assert_eq!(first["result"][0]["message"]["text"], "hello");
    bot("sendMessage", &json!({ "chat_id": 42, "text": "private reply" }));
    let next = first["result"][0]["update_id"].as_i64().unwrap() + 1;
    let (_, second) = bot("getUpdates", &json!({ "timeout": 50, "offset": next }));
    assert_eq!(second["result"][0]["message"]["text"], "How is the garden?");
    let said = rehearsing.ask("POST", "/rehearsal/say", "", &json!({ "chat": 42, "text": "private aside" }));
    assert_eq!(said.0, 200);
    let (_, counters) = rehearsing.ask("GET", "/rehearsal/counters", "", &Value::Null);
    assert_eq!(
        counters["provider"]["rules"],
        json!({ "greeting": 1, "busy": 2, "otherwise": 1, "model": 1 })
    );
    assert_eq!(counters["telegram"]["methods"], json!({ "getUpdates": 2, "sendMessage": 1 }));

    assert_eq!(rehearsing.interrupt(), (0, String::new()));
    let log = log(&world);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = &lines[0];
    assert_eq!(
        (&first["side"], &first["rule"], &first["status"]),
        (&json!("provider"), &json!("greeting"), &json!(200))
    );
    assert_eq!(lines.iter().filter(|line| line["side"] == "provider").count(), 5);
    assert!(!log.contains("private"), "{log}");
}

#[test]
fn content_is_shown_to_whoever_asks_for_it() {
    let world = World::new();
    let (rehearsing, _) = Rehearsing::start(&world, &["--show-content"]);
    let asked = json!({ "model": "m", "messages": [{ "role": "user", "content": "words\u{1b}[2J" }] });
    assert_eq!(rehearsing.ask("POST", "/v1/chat/completions", "", &asked).0, 200);
    rehearsing.interrupt();
    let log = log(&world);
    assert!(log.contains("words") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn what_cannot_be_played_is_refused_with_its_place() {
    let world = World::new();
    let path =
        script(&world, "provider:\n  rules:\n    - answer: { txt: hi }\ntelegram: { updates: [{}] }\n");
    let answer = world.thought(&["rehearse", &path]).expect(2);
    for say in ["script.yaml:3:17", "did you mean `text`?", "script.yaml:4:23", "rehearse.script"] {
        assert!(answer.stderr.contains(say), "{say}:\n{}", answer.stderr);
    }
    // Each problem stands on lines of its own, as those of a configuration do.
    assert!(answer.stderr.lines().count() > 6 && !answer.stderr.contains("\\n"), "{}", answer.stderr);
    assert!(world.thought(&["rehearse", "/nowhere/x.yaml"]).expect(4).stderr.contains("--example"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert!(world.thought(&["rehearse", "--port", &port]).expect(4).stderr.contains("rehearse.port"));
    world.thought(&["rehearse", "--example", &path]).expect(2);
}
