//! The small binary forms that rows are stored in: variable-length numbers, length-prefixed bytes.
//!
//! Nothing here knows what a row means. Reading never panics: every function answers [`Malformed`] when bytes
//! end early or say something impossible, and the caller turns that into damage with a place.

use thiserror::Error;

/// Says that stored bytes are not what their kind promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stored bytes are malformed at byte {at}")]
pub(crate) struct Malformed {
    pub(crate) at: usize,
}

/// Appends an unsigned number in seven-bit groups, lowest first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends a signed number so that small ones of either sign stay short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_number(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Appends bytes behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn malformed(&self) -> Malformed {
        Malformed { at: self.at }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Answers an error unless everything was read.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.is_at_end() { Ok(()) } else { Err(self.malformed()) }
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).ok_or_else(|| self.malformed())?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| self.malformed())?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let at = self.malformed();
        self.take(N)?.try_into().map_err(|_| at)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for group in 0..10 {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if group == 9 && bits > 1 {
                return Err(self.malformed());
            }
            value |= bits << (7 * group);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    pub(crate) fn number32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| self.malformed())
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Reads bytes behind their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| self.malformed())?;
        self.take(count)
    }

    /// Reads text behind its length.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let at = self.malformed();
        std::str::from_utf8(self.bytes()?).map_err(|_| at)
    }
}

/// Reads a big-endian number that fills `bytes` exactly, as keys and values of index tables hold it.
pub(crate) fn be64(bytes: &[u8]) -> Result<u64, Malformed> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| Malformed { at: 0 })
}

/// Reads a big-endian number that fills `bytes` exactly.
pub(crate) fn be32(bytes: &[u8]) -> Result<u32, Malformed> {
    bytes.try_into().map(u32::from_be_bytes).map_err(|_| Malformed { at: 0 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_back(number: u64, signed: i64, bytes: Vec<u8>, text: String) {
            let mut out = Vec::new();
            put_number(&mut out, number);
            put_signed(&mut out, signed);
            put_bytes(&mut out, &bytes);
            put_bytes(&mut out, text.as_bytes());
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.number(), Ok(number));
            prop_assert_eq!(cursor.signed(), Ok(signed));
            prop_assert_eq!(cursor.bytes(), Ok(&bytes[..]));
            prop_assert_eq!(cursor.text(), Ok(&text[..]));
            prop_assert_eq!(cursor.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.number().is_ok() && cursor.bytes().is_ok() && cursor.signed().is_ok() {}
        }
    }
}
