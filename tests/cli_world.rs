//! The executable in a world of its own: wiped environment, own directories, own runtime directory.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A service that has not said that it is ready by then never will; a loaded machine takes seconds.
const READY_PATIENCE: Duration = Duration::from_secs(60);

/// Directories for one test.
pub(crate) struct World {
    base: tempfile::TempDir,
    pub(crate) data: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) notes: PathBuf,
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Answer {
    /// Checks the exit code, showing everything if it is another one.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Reads stdout as one JSON value a line.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Reads stdout as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{}", self.stdout);
        lines.remove(0)
    }
}

impl World {
    /// Makes directories in which nothing has happened.
    pub(crate) fn new() -> Self {
        let base = tempfile::Builder::new().prefix("ts").tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let (data, config, notes) = (path("data"), path("config"), path("notes"));
        std::fs::create_dir(path("run")).unwrap();
        std::fs::set_permissions(path("run"), std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::create_dir(&notes).unwrap();
        Self { base, data, config, notes }
    }

    /// Makes directories, and a configuration that watches [`World::notes`].
    pub(crate) fn with_config() -> Self {
        let world = Self::new();
        let notes = world.notes.display().to_string();
        world.thought(&["init", "--notes", &notes]).expect(0);
        world
    }

    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thought"));
        command
            .env_clear()
            .env("HOME", self.base())
            .env("TMPDIR", self.base())
            .env("XDG_RUNTIME_DIR", self.base().join("run"))
            .env("THOUGHTSTREAM_DATA", &self.data)
            .env("THOUGHTSTREAM_CONFIG", &self.config)
            .current_dir(self.base())
            .stdin(Stdio::null())
            .args(arguments);
        command
    }

    /// Runs a command to its end.
    pub(crate) fn thought(&self, arguments: &[&str]) -> Answer {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs as many commands at once as are named, each a process of its own.
    pub(crate) fn at_once(&self, commands: &[&[&str]]) -> Vec<Answer> {
        let start = |arguments: &&[&str]| {
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let started: Vec<Child> = commands.iter().map(start).collect();
        started.into_iter().map(|child| child.wait_with_output().unwrap().into()).collect()
    }

    /// Runs a command with a text at its stdin.
    pub(crate) fn thought_with(&self, arguments: &[&str], stdin: &str) -> Answer {
        let file = self.base().join("stdin");
        std::fs::write(&file, stdin).unwrap();
        let stdin = std::fs::File::open(&file).unwrap();
        self.command(arguments).stdin(stdin).output().unwrap().into()
    }

    /// Runs a command at a terminal, and answers it there each time that it asks this; returns its exit code and
    /// everything that stood on the terminal.
    pub(crate) fn at_a_terminal(&self, arguments: &[&str], asks: &str, answers: &[&str]) -> (i32, String) {
        on_a_terminal(self.command(arguments), asks, answers)
    }

    /// Appends a note by hand.
    pub(crate) fn append(&self, key: &str, text: &str) -> Answer {
        let payload = serde_json::json!({ "text": text }).to_string();
        let arguments = ["event", "append", "--source", "notes:test", "--type", "stream.thought.source.note"];
        let arguments: Vec<&str> =
            arguments.into_iter().chain(["--key", key, "--payload", "-", "--json"]).collect();
        self.thought_with(&arguments, &payload)
    }

    /// Starts the service and waits until it says that it is ready.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Running<'_> {
        self.serve_in(arguments, |_| {})
    }

    /// Starts the service in an environment that is prepared for it.
    pub(crate) fn serve_in(&self, arguments: &[&str], prepare: impl FnOnce(&mut Command)) -> Running<'_> {
        self.serve_as("service", arguments, prepare)
    }

    /// Starts one of several resident processes, whose own log has this name, and waits until it is ready.
    pub(crate) fn serve_as(
        &self,
        name: &str,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Running<'_> {
        let notify = self.base().join(format!("{name}.notify"));
        std::fs::remove_file(&notify).ok();
        let socket = UnixDatagram::bind(&notify).unwrap();
        std::fs::set_permissions(&notify, std::fs::Permissions::from_mode(0o666)).unwrap();
        let log = std::fs::File::create(self.base().join(format!("{name}.log"))).unwrap();
        let arguments: Vec<&str> = ["serve"].iter().chain(arguments).copied().collect();
        let mut command = self.command(&arguments);
        command.env("NOTIFY_SOCKET", &notify).stdout(Stdio::null()).stderr(log);
        prepare(&mut command);
        let child = command.spawn().unwrap();
        let running = Running { world: self, child, manager: socket, name: name.to_owned() };
        running.tells("READY=1");
        running
    }

    /// Returns what the service has written to its own log.
    pub(crate) fn log(&self) -> String {
        self.log_of("service")
    }

    /// Returns what a resident process has written to its own log.
    pub(crate) fn log_of(&self, name: &str) -> String {
        std::fs::read_to_string(self.base().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Asks again and again until an answer is as wanted.
    #[track_caller]
    pub(crate) fn until(&self, arguments: &[&str], wanted: impl Fn(&Answer) -> bool) -> Answer {
        let begun = Instant::now();
        loop {
            let answer = self.thought(arguments);
            if wanted(&answer) {
                return answer;
            }
            assert!(begun.elapsed() < READY_PATIENCE, "never came: {answer:?}\n{}", self.log());
        }
    }

    /// Waits until every consumer has done everything there is.
    #[track_caller]
    pub(crate) fn until_idle(&self) -> Value {
        let idle = |answer: &Answer| {
            let status: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
            let consumers = status["consumers"].as_array().cloned().unwrap_or_default();
            // A version that was followed by another is listed and does nothing.
            let rests = |consumer: &Value| consumer["state"] == "idle" || consumer["state"] == "disabled";
            answer.code == 0 && !consumers.is_empty() && consumers.iter().all(rests)
        };
        self.until(&["status", "--json"], idle).json()
    }
}

/// Runs a command at a terminal, and answers it there each time that it asks this; returns its exit code and everything
/// that stood on the terminal.
pub(crate) fn on_a_terminal(mut command: Command, asks: &str, answers: &[&str]) -> (i32, String) {
    let terminal = nix::pty::openpty(None, None).unwrap();
    command.stdin(terminal.slave.try_clone().unwrap()).stdout(terminal.slave);
    let mut child = command.spawn().unwrap();
    // Nobody but the child holds its end, so reading ends when it does.
    drop(command);
    let mut master = std::fs::File::from(terminal.master);
    let (mut shown, mut bytes, mut answered) = (String::new(), [0; 4096], 0);
    while let Ok(length @ 1..) = master.read(&mut bytes) {
        shown += &String::from_utf8_lossy(&bytes[..length]);
        while let Some(answer) = answers.get(answered).filter(|_| shown.matches(asks).count() > answered) {
            master.write_all(answer.as_bytes()).unwrap();
            answered += 1;
        }
    }
    (child.wait().unwrap().code().unwrap_or(-1), shown.replace("\r\n", "\n"))
}

/// A running service; killed if a test leaves it behind.
pub(crate) struct Running<'a> {
    world: &'a World,
    child: Child,
    /// Where the service manager would listen.
    manager: UnixDatagram,
    name: String,
}

impl Running<'_> {
    /// Waits until it tells the service manager this.
    #[track_caller]
    pub(crate) fn tells(&self, word: &str) {
        let told = self.tells_within(word, READY_PATIENCE);
        assert!(told, "`{word}` was never told:\n{}", self.world.log_of(&self.name));
    }

    /// Says whether it tells the service manager this before it has told it nothing for so long.
    pub(crate) fn tells_within(&self, word: &str, silence: Duration) -> bool {
        self.manager.set_read_timeout(Some(silence)).unwrap();
        let mut bytes = [0; 1024];
        while let Ok(length) = self.manager.recv(&mut bytes) {
            if String::from_utf8_lossy(&bytes[..length]).contains(word) {
                return true;
            }
        }
        false
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Ends it as the kernel does, without a chance to say anything.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Says whether it ends by itself within a time.
    pub(crate) fn ends_within(&mut self, patience: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Tells it to stop, and waits for its end.
    pub(crate) fn stop(mut self) -> i32 {
        self.world.thought(&["stop"]).expect(0);
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
