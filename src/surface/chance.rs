//! The door through which chance comes in: keys that must not repeat.

use std::io::Read as _;

use thoughtstream_domain::hash::Sha256Hash;
use thoughtstream_domain::id::IdempotencyKey;

use crate::exit::Exit;
use crate::failure::Failure;

/// Returns random bytes from the kernel.
///
/// # Errors
/// [`Failure`] if the kernel does not give any.
pub fn bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).map_err(
        |error| Failure::new(Exit::CouldNotLook, "chance.none", "cannot read /dev/urandom").because(&error),
    )?;
    Ok(bytes)
}

/// Makes an idempotency key that nobody has used: a word and 120 random bits.
///
/// # Errors
/// [`Failure`] if the kernel gives no random bytes.
///
/// # Panics
/// If `word` is no word of ours.
pub fn key(word: &str) -> Result<IdempotencyKey, Failure> {
    let digits = Sha256Hash::of(&bytes::<16>()?).to_string();
    Ok(IdempotencyKey::parse(&format!("{word}-{}", &digits[..30])).expect("a word and digits make a key"))
}
