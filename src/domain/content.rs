//! A wrapper for text and bytes that must not reach logs: it compares and hashes, and never prints.

/// Holds content (a payload, a document, a message) that `Debug` shows only by its size.
#[derive(Clone, PartialEq, Eq)]
pub struct Content<T>(T);

impl<T> Content<T> {
    /// Wraps content.
    pub const fn new(content: T) -> Self {
        Self(content)
    }

    /// Gives the content to code that really needs it; keep it out of logs, errors and traces.
    pub const fn reveal(&self) -> &T {
        &self.0
    }

    /// Unwraps the content.
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// What is stored or sent carries its content; only what is printed does not.
impl<T: serde::Serialize> serde::Serialize for Content<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for Content<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

impl<T: AsRef<[u8]>> std::fmt::Debug for Content<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({} bytes)", self.0.as_ref().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_the_size_and_nothing_else() {
        assert_eq!(format!("{:?}", Content::new("secret".to_owned())), "Content(6 bytes)");
    }
}
