//! The two hashes in use: SHA-256 wherever an outsider names a hash, BLAKE3 for ids and chains.

use data_encoding::{BASE32_NOPAD, HEXLOWER, Specification};
use sha2::Digest as _;

/// Is a 32-byte SHA-256, written as 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Hash([u8; 32]);

/// Is a 32-byte BLAKE3 value: an event digest or a link of a source's chain; written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainHash([u8; 32]);

/// Says why a text is no hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a hash: expected 64 lowercase hexadecimal digits")]
pub struct HashError;

macro_rules! hash_type {
    ($name:ident) => {
        impl $name {
            /// Wraps the 32 bytes of a hash computed elsewhere.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// Returns the 32 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Reads 64 lowercase hexadecimal digits.
            ///
            /// # Errors
            /// [`HashError`] if the text is anything else.
            pub fn parse(text: &str) -> Result<Self, HashError> {
                let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| HashError)?;
                Ok(Self(bytes.try_into().map_err(|_| HashError)?))
            }

            /// Returns the first eight digits, for people.
            #[must_use]
            pub fn short(&self) -> String {
                HEXLOWER.encode(&self.0[..4])
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&HEXLOWER.encode(&self.0))
            }
        }

        crate::textual::textual!($name, "^[0-9a-f]{64}$");
    };
}

hash_type!(Sha256Hash);
hash_type!(ChainHash);

impl Sha256Hash {
    /// Hashes bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl ChainHash {
    /// Is the link before a source's first event.
    pub const START: Self = Self([0; 32]);

    /// Returns the next link of a source's chain: BLAKE3 over the previous link, the event's content
    /// digest, and what the log assigned to it.
    #[must_use]
    pub fn link(self, digest: &Self, assigned: &Assigned) -> Self {
        let mut bytes = [0; 116];
        bytes[..32].copy_from_slice(&self.0);
        bytes[32..64].copy_from_slice(&digest.0);
        bytes[64..72].copy_from_slice(&assigned.sequence.to_le_bytes());
        bytes[72..80].copy_from_slice(&assigned.recorded_at.as_millis().to_le_bytes());
        bytes[80..112].copy_from_slice(assigned.root.as_bytes());
        bytes[112..].copy_from_slice(&assigned.depth.to_le_bytes());
        Self(blake3::derive_key(CHAIN_DOMAIN, &bytes))
    }
}

/// Is what the log adds to a candidate and the chain therefore covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    /// The event's place in its source, from 1.
    pub sequence: u64,
    /// When the log recorded it.
    pub recorded_at: crate::time::Timestamp,
    /// The first ancestor: the event itself if it has no parents.
    pub root: crate::id::EventId,
    /// How many steps it is away from an event without parents.
    pub depth: u32,
}

/// Separates chain links from every other BLAKE3 use here; part of the stored format.
const CHAIN_DOMAIN: &str = "thoughtstream 2026 source chain v1";

/// Hashes length-prefixed parts under a domain tag, so that no two lists of parts share an input.
#[must_use]
pub fn tagged(domain: &'static str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(domain);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// Returns the lowercase base32 (RFC 4648 alphabet, no padding) that ids are written in.
#[must_use]
pub(crate) fn base32(bytes: &[u8]) -> String {
    let mut text = BASE32_NOPAD.encode(bytes);
    text.make_ascii_lowercase();
    text
}

/// Reads what [`base32`] wrote; `None` for anything else, upper case included.
#[must_use]
pub(crate) fn from_base32(text: &str) -> Option<Vec<u8>> {
    let mut specification = Specification::new();
    specification.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    let encoding = specification.encoding().ok()?;
    encoding.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cannot_be_moved_across_their_border() {
        assert_ne!(tagged("t", &[b"ab", b"c"]), tagged("t", &[b"a", b"bc"]));
        assert_ne!(tagged("t", &[b"ab"]), tagged("u", &[b"ab"]));
    }

    #[test]
    fn a_hash_is_read_back_from_its_digits_only() {
        let hash = Sha256Hash::of(b"");
        assert_eq!(hash.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(Sha256Hash::parse(&hash.to_string()), Ok(hash));
        assert_eq!(Sha256Hash::parse(&hash.to_string().to_uppercase()), Err(HashError));
    }

    #[test]
    fn base32_round_trips_in_lower_case_only() {
        let text = base32(&[1, 2, 3, 4, 5]);
        assert_eq!(from_base32(&text).as_deref(), Some(&[1, 2, 3, 4, 5][..]));
        assert_eq!(from_base32(&text.to_uppercase()), None);
    }

    #[test]
    fn a_chain_depends_on_order() {
        let (a, b) = (ChainHash::from_bytes([1; 32]), ChainHash::from_bytes([2; 32]));
        let one = Assigned {
            sequence: 1,
            recorded_at: crate::time::Timestamp::from_millis(5),
            root: crate::id::EventId::from_bytes([3; 32]),
            depth: 0,
        };
        let two = Assigned { sequence: 2, ..one };
        assert_ne!(
            ChainHash::START.link(&a, &one).link(&b, &two),
            ChainHash::START.link(&b, &one).link(&a, &two)
        );
        let later = Assigned { recorded_at: crate::time::Timestamp::from_millis(6), ..one };
        assert_ne!(ChainHash::START.link(&a, &one), ChainHash::START.link(&a, &later));
    }
}
