//! What the service manager is told.
//!
//! Without a service manager (`NOTIFY_SOCKET` is unset) every call does nothing and succeeds.

use std::io;
use std::time::Duration;

use sd_notify::NotifyState;

/// A status line longer than this is of no use in `systemctl status`, and the datagram has a size limit.
const STATUS_BYTES_MAX: usize = 512;

/// Says that the service answers now.
///
/// # Errors
///
/// Returns an error if the manager's socket cannot be written.
pub fn ready() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Ready])
}

/// Says that the service has begun to stop.
///
/// # Errors
///
/// Returns an error if the manager's socket cannot be written.
pub fn stopping() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Stopping])
}

/// Shows one line of text as the service's status.
///
/// Control characters become spaces: a line break would start another assignment in the manager's protocol.
///
/// # Errors
///
/// Returns an error if the manager's socket cannot be written.
pub fn status(text: &str) -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Status(&one_line(text))])
}

/// Says that the service is alive. To be called only by whoever has checked that work really moves.
///
/// # Errors
///
/// Returns an error if the manager's socket cannot be written.
pub fn watchdog() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Watchdog])
}

/// Returns how often [`watchdog`] is to be called, or nothing if the manager does not watch this process.
///
/// Half of the manager's limit, as its manual advises, so that one late call does not end the service.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

/// Returns `text` without control characters and cut to the size of a status line.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        let character = if character.is_control() { ' ' } else { character };
        if line.len() + character.len_utf8() > STATUS_BYTES_MAX {
            break;
        }
        line.push(character);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_status_is_one_bounded_line() {
        assert_eq!(one_line("2 behind\nREADY=1\u{9b}x"), "2 behind READY=1 x");
        assert!(one_line(&"ä".repeat(1000)).len() <= STATUS_BYTES_MAX);
    }

    /// The variables belong to the process, so a copy of this binary is started with them set.
    #[test]
    fn the_manager_hears_every_state() {
        if std::env::var_os("THOUGHTSTREAM_TEST_MANAGED").is_some() {
            assert_eq!(watchdog_interval(), Some(Duration::from_secs(10)));
            ready().unwrap();
            status("two lines\nof text").unwrap();
            watchdog().unwrap();
            stopping().unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["notify::tests::the_manager_hears_every_state", "--exact"])
            .env("THOUGHTSTREAM_TEST_MANAGED", "1")
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "20000000")
            .env_remove("WATCHDOG_PID")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        // The child has ended, so all it said is already queued.
        socket.set_nonblocking(true).unwrap();
        let mut heard = Vec::new();
        let mut buffer = [0; 1024];
        while let Ok(length) = socket.recv(&mut buffer) {
            heard.push(String::from_utf8(buffer[..length].to_vec()).unwrap().trim_end().to_owned());
        }
        assert_eq!(heard, ["READY=1", "STATUS=two lines of text", "WATCHDOG=1", "STOPPING=1"]);
    }
}
