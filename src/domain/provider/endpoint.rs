//! Where a provider is: `https` anywhere, `http` on this machine only.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host's name has at most this many characters.
const HOST_BYTES_MAX: usize = 253;

/// The paths of providers are short.
const PATH_BYTES_MAX: usize = 256;

/// Is the address below which a provider answers, such as `https://api.example.org/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// Empty, or `/` and more without a last `/`.
    path: String,
    encrypted: bool,
}

/// Says why a text is no endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It starts with neither `https://` nor `http://`.
    #[error("an endpoint starts with https://, or with http:// on this machine")]
    Scheme,
    /// It would send without encryption to another machine.
    #[error("http:// is for 127.0.0.1, [::1] and localhost only: what is sent elsewhere is encrypted")]
    Unencrypted,
    /// It names a user, a password, a query or a fragment.
    #[error("an endpoint has neither user, password, query nor fragment: a key belongs in a credential")]
    Extra,
    /// The host is none.
    #[error("the host is no name and no address")]
    Host,
    /// The port is none.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// The path is none.
    #[error("the path has other characters than letters, digits, '.', '_', '-', '~' and '/'")]
    Path,
}

impl Endpoint {
    /// Reads an address.
    ///
    /// # Errors
    /// [`EndpointError`] if it is none, or leads where a key must not go.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let (encrypted, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(EndpointError::Scheme),
        };
        if rest.contains(['@', '?', '#', '\\']) {
            return Err(EndpointError::Extra);
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.starts_with('[') || host.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        if !is_host(host) {
            return Err(EndpointError::Host);
        }
        let port = match port {
            None => {
                if encrypted {
                    443
                } else {
                    80
                }
            }
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0') => {
                digits.parse().map_err(|_| EndpointError::Port)?
            }
            Some(_) => return Err(EndpointError::Port),
        };
        let path = path.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~/".contains(&byte);
        let climbs = path.split('/').skip(1).any(|step| matches!(step, "" | "." | ".."));
        if path.len() > PATH_BYTES_MAX || !path.bytes().all(is_plain) || climbs {
            return Err(EndpointError::Path);
        }
        let endpoint = Self { host: host.to_owned(), port, path: path.to_owned(), encrypted };
        if !encrypted && !endpoint.is_this_machine() {
            return Err(EndpointError::Unencrypted);
        }
        Ok(endpoint)
    }

    /// Says whether what is sent is encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Says whether it is on this machine, by an address or by the one name that means it.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        let six = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost"
            || self.host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
            || six.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
    }

    /// Returns the host, an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of something below it; `below` begins with `/`.
    #[must_use]
    pub fn join(&self, below: &str) -> String {
        format!("{self}{below}")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.encrypted { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != usual {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)
    }
}

/// Accepts a lower-case name or an address in its usual spelling; a number that some would read as an address
/// is neither.
fn is_host(host: &str) -> bool {
    if let Some(six) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return six.parse::<Ipv6Addr>().is_ok();
    }
    if host.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= HOST_BYTES_MAX
        && host.split('.').all(is_label)
        && last.bytes().any(|byte| byte.is_ascii_lowercase())
        && !last.starts_with("0x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_anywhere_and_plain_on_this_machine() {
        for text in [
            "https://api.example.org/v1",
            "https://api.example.org:8443",
            "https://192.0.2.7/v1",
            "http://127.0.0.1:8000/v1",
            "http://[::1]:11434/v1",
            "http://localhost/v1",
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Endpoint::parse("https://a.b/v1/").unwrap().join("/x"), "https://a.b/v1/x");
    }

    #[test]
    fn a_key_never_goes_unencrypted_to_another_machine() {
        for text in [
            "http://api.example.org/v1",
            "http://192.168.0.2:8000/v1",
            "http://localhost.example.org/v1",
            "http://0.0.0.0:8000",
            "http://[::ffff:7f00:1]:80",
        ] {
            assert_eq!(Endpoint::parse(text), Err(EndpointError::Unencrypted), "{text}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        use EndpointError::{Extra, Host, Path, Port, Scheme};
        for (text, error) in [
            ("api.example.org", Scheme),
            ("HTTPS://a.b", Scheme),
            ("https://user:key@a.b/v1", Extra),
            ("https://a.b/v1?key=1", Extra),
            ("https://a.b#x", Extra),
            ("http://127.0.0.1\\@a.b", Extra),
            ("https://", Host),
            ("https://A.b", Host),
            ("https://a..b", Host),
            ("http://2130706433/v1", Host),
            ("http://127.1/v1", Host),
            ("http://0x7f000001/v1", Host),
            ("https://[::1", Host),
            ("https://a.b:0", Port),
            ("https://a.b:99999", Port),
            ("https://a.b:", Port),
            ("https://a.b/v 1", Path),
            ("https://a.b/../v1", Path),
            ("https://a.b/v1//x", Path),
            ("https://a.b/%2e", Path),
        ] {
            assert_eq!(Endpoint::parse(text), Err(error), "{text}");
        }
    }
}
