//! Who stands behind a connection, as the kernel says it.

use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use thoughtstream_domain::payload::system::Operator;

/// Is the process at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process, as it was when it connected.
    pub pid: i32,
}

/// Asks the kernel who connected.
///
/// # Errors
/// The kernel's refusal.
pub fn peer_of(socket: &impl AsFd) -> nix::Result<Peer> {
    let credentials = getsockopt(socket, PeerCredentials)?;
    Ok(Peer { uid: credentials.uid(), pid: credentials.pid() })
}

impl Peer {
    /// Says whether this peer may come in: the user that runs the service, or root, who could become that user.
    #[must_use]
    pub const fn may_enter(&self, our_uid: u32) -> bool {
        self.uid == our_uid || self.uid == 0
    }

    /// Names the peer in a decision, with the terminal it works at.
    #[must_use]
    pub fn operator(&self) -> Operator {
        Operator { uid: self.uid, pid: self.pid, tty: terminal_of(self.pid) }
    }
}

/// Returns the controlling terminal of a process, if it has one.
pub(crate) fn terminal_of(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in parentheses and may hold anything; the fields after it are numbers.
    let (_, fields) = stat.rsplit_once(')')?;
    terminal_name(fields.split_ascii_whitespace().nth(4)?.parse().ok()?)
}

/// Names a terminal by its device number: pseudo-terminals have the major numbers 136 to 143.
fn terminal_name(device: u32) -> Option<String> {
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    match major {
        136..=143 => Some(format!("pts/{}", (major - 136) * 256 + minor)),
        4 => Some(format!("tty{minor}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_named_by_its_device() {
        assert_eq!(terminal_name(136 << 8 | 3), Some("pts/3".to_owned()));
        assert_eq!(terminal_name(137 << 8 | 1), Some("pts/257".to_owned()));
        assert_eq!(terminal_name(4 << 8 | 1), Some("tty1".to_owned()));
        assert_eq!(terminal_name(0), None);
    }

    #[test]
    fn only_the_owner_and_root_may_enter() {
        let peer = |uid| Peer { uid, pid: 1 };
        assert!(peer(7).may_enter(7) && peer(0).may_enter(7));
        assert!(!peer(8).may_enter(7));
    }

    #[test]
    fn the_kernel_says_who_connected() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = peer_of(&one).unwrap();
        assert_eq!(peer.pid, i32::try_from(std::process::id()).unwrap());
        assert_eq!(peer.uid, nix::unistd::getuid().as_raw());
    }
}
