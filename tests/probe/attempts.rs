//! Everything a sandboxed program could try, each with what came of it in a word.

use std::fmt::Debug;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::{prctl, ptrace};
use nix::unistd::{Pid, chroot, getuid, sethostname};
use serde_json::{Map, Value, json};

/// More descriptors than it may have.
const DESCRIPTORS: i32 = 1024;

/// Collects attempts: `refused`, or what was gained.
#[derive(Default)]
struct Tried(Map<String, Value>);

impl Tried {
    fn add<T, E: Debug>(&mut self, name: &str, outcome: Result<T, E>) {
        let word = if outcome.is_err() { "refused" } else { "done" };
        self.0.insert(name.to_owned(), word.into());
    }
}

/// Tries everything, and says what there is to see.
pub(crate) fn report(told: &Value) -> Value {
    let mut tried = Tried::default();
    files(&mut tried, told);
    network(&mut tried, told);
    processes(&mut tried, told);
    kernel(&mut tried);
    let mut memory = Vec::<u8>::new();
    tried.add("reserve a gigabyte", memory.try_reserve_exact(1 << 30));
    let descriptors: Vec<i32> =
        (3..DESCRIPTORS).filter(|number| nix::unistd::close(*number).is_ok()).collect();
    let environment: Vec<String> =
        std::env::vars_os().map(|(key, value)| format!("{}={}", key.display(), value.display())).collect();
    let mut seen = Vec::new();
    walk(Path::new("/"), &mut seen);
    seen.sort();
    json!({
        "tried": tried.0,
        "seen": seen,
        "environment": environment,
        "descriptors": descriptors,
        "arguments": std::env::args_os().count(),
        "process": std::process::id(),
        "user": getuid().as_raw(),
        "limits": limits(),
    })
}

fn limits() -> Value {
    let all = [
        ("memory", Resource::RLIMIT_AS),
        ("processor", Resource::RLIMIT_CPU),
        ("processes", Resource::RLIMIT_NPROC),
        ("file", Resource::RLIMIT_FSIZE),
        ("descriptors", Resource::RLIMIT_NOFILE),
        ("core", Resource::RLIMIT_CORE),
        ("locked", Resource::RLIMIT_MEMLOCK),
    ];
    let pairs = all.map(|(name, resource)| (name.to_owned(), json!(getrlimit(resource).unwrap())));
    Value::Object(pairs.into_iter().collect())
}

/// Lists every path that can be seen.
fn walk(directory: &Path, seen: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        seen.push(entry.path().display().to_string());
        if entry.path().is_dir() {
            walk(&entry.path(), seen);
        }
    }
}

fn files(tried: &mut Tried, told: &Value) {
    let fixed = [
        "/etc/passwd",
        "/etc/hostname",
        "/root",
        "/home",
        "/tmp",
        "/var",
        "/usr/bin/env",
        "/bin/sh",
        "/dev/null",
        "/dev/kmsg",
        "/sys/kernel",
        "/proc/1/environ",
        "/proc/self/environ",
        "/proc/self/fd",
        "/proc/sys/kernel/hostname",
        "/run",
    ];
    let named = told["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap());
    for path in fixed.into_iter().chain(named) {
        let read = fs::read(path).map(drop).or_else(|_| fs::read_dir(path).map(drop));
        tried.add(&format!("read {path}"), read);
    }
    // Above the root is the root.
    let above = fs::read_dir("/../../..").map(|entries| entries.count()).unwrap();
    let root = fs::read_dir("/").unwrap().count();
    tried.add("look above the root", if above == root { Err(()) } else { Ok(()) });
    tried.add("write a file", fs::write("/new", "x"));
    tried.add("make a directory", fs::create_dir("/new"));
    tried.add("make a link", std::os::unix::fs::symlink("/", "/new"));
    let mut own = fs::OpenOptions::new();
    tried.add(
        "change its own program",
        own.append(true).open("/thought-worker").and_then(|mut f| f.write(b"x")),
    );
    tried.add("remove its own program", fs::remove_file("/thought-worker"));
    tried.add("rename its own program", fs::rename("/thought-worker", "/new"));
    let permissions = fs::metadata("/thought-worker").unwrap().permissions();
    tried.add("change its own permissions", fs::set_permissions("/thought-worker", permissions));
}

fn network(tried: &mut Tried, told: &Value) {
    let port = u16::try_from(told["port"].as_u64().unwrap()).unwrap();
    tried.add("connect to a listener on loopback", TcpStream::connect(("127.0.0.1", port)));
    tried.add("connect over IPv6", TcpStream::connect(("::1", port)));
    tried.add("listen", TcpListener::bind("127.0.0.1:0"));
    tried.add("bind a datagram socket", UdpSocket::bind("0.0.0.0:0"));
    let socket = told["socket"].as_str().unwrap();
    tried.add("connect to a unix socket of the service", UnixStream::connect(socket));
    tried.add("listen on a unix socket", UnixListener::bind("/new"));
    tried.add("make a pair of unix sockets", UnixDatagram::pair());
}

fn processes(tried: &mut Tried, told: &Value) {
    let outside = Pid::from_raw(i32::try_from(told["process"].as_i64().unwrap()).unwrap());
    tried.add("start a thread", std::thread::Builder::new().spawn(|| ()));
    // The bomb: each attempt that succeeded would make another process.
    let forked = (0..100).filter(|_| Command::new("/thought-worker").spawn().is_ok()).count();
    tried.add("start processes", if forked == 0 { Err(()) } else { Ok(()) });
    tried.add("signal its parent", kill(outside, None));
    tried.add("signal process 1", kill(Pid::from_raw(1), Signal::SIGUSR1));
    tried.add("trace its parent", ptrace::attach(outside));
    tried.add("be traced", ptrace::traceme());
    tried.add("outlive its parent", prctl::set_pdeathsig(None));
    tried.add("be dumpable", prctl::set_dumpable(true));
}

fn kernel(tried: &mut Tried) {
    let none: Option<&str> = None;
    tried.add("mount", mount(none, "/", Some("tmpfs"), MsFlags::empty(), none));
    tried.add("mount /proc", mount(Some("proc"), "/", Some("proc"), MsFlags::empty(), none));
    tried.add("change the root", chroot("/"));
    tried.add("name the host", sethostname("new"));
    tried.add("watch files", nix::sys::inotify::Inotify::init(nix::sys::inotify::InitFlags::empty()));
    for (name, resource) in [
        ("raise the limit on memory", Resource::RLIMIT_AS),
        ("raise the limit on processes", Resource::RLIMIT_NPROC),
        ("raise the limit on files", Resource::RLIMIT_FSIZE),
        ("raise the limit on time", Resource::RLIMIT_CPU),
    ] {
        tried.add(name, setrlimit(resource, 1 << 40, 1 << 40));
    }
}
