//! Keeps the words of a panic out of every log: a payload may quote what a person wrote.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicU64, Ordering};

static PANICS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LAST: RefCell<Option<(String, u32)>> = const { RefCell::new(None) };
}

/// Replaces the default hook, which prints the payload, by one that reports only where the panic happened.
///
/// The supervisor sees the panic as an exit all the same and keeps the reason code `panicked`.
pub fn install_panic_hook() {
    set_hook(Box::new(report));
}

/// Returns how many panics the installed hook has seen.
pub fn panics_seen() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Returns the file and line of the last panic that the installed hook has seen on this thread.
pub fn last_panic() -> Option<(String, u32)> {
    LAST.with_borrow(Clone::clone)
}

fn report(info: &PanicHookInfo<'_>) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let (file, line) = info.location().map_or(("unknown", 0), |place| (place.file(), place.line()));
    LAST.set(Some((file.to_owned(), line)));
    tracing::error!(file, line, "panicked");
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    #[ignore = "it replaces the process's hook; the next test runs it in a process of its own"]
    fn says_where_and_not_what() {
        let sink = Sink::default();
        let writer = sink.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
        install_panic_hook();
        let thrown = || std::panic::catch_unwind(|| panic!("what the person wrote")).is_err();
        let (caught, place) = std::thread::spawn(move || (thrown(), last_panic())).join().unwrap();
        assert!(caught && place.is_some_and(|(file, _)| file.ends_with("actors/panics.rs")));
        assert_eq!(last_panic(), None);
        assert_eq!(panics_seen(), 1);
        let log = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains("actors/panics.rs") && !log.contains("person"), "{log}");
    }

    #[test]
    fn a_panic_leaves_no_words_on_any_stream() {
        let arguments = ["--ignored", "--exact", "panics::tests::says_where_and_not_what", "--nocapture"];
        let output = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        for stream in [output.stdout, output.stderr] {
            assert!(!String::from_utf8_lossy(&stream).contains("what the person wrote"));
        }
    }
}
