//! Why something failed: an error and everything behind it, read in one way.

use std::error::Error;

/// Returns what an error says and what everything behind it says, outermost first; it is never empty.
///
/// A transparent wrapper says what its source says, and once is enough.
#[must_use]
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if said.last() != Some(&text) {
            said.push(text);
        }
        next = cause.source();
    }
    said
}

/// Returns what an error comes from in the end: what the system said, where it said something.
#[must_use]
pub fn root_cause(error: &dyn Error) -> String {
    causes(error).pop().expect("an error says something itself")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that says one thing, and has another behind it.
    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Self>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|error| error as _)
        }
    }

    #[test]
    fn every_cause_is_told_once_and_the_last_is_the_root() {
        let full = Layer("the disk is full", None);
        assert_eq!(causes(&full), ["the disk is full"]);
        let wrapped = Layer("the disk is full", Some(Box::new(full)));
        assert_eq!(causes(&wrapped), ["the disk is full"], "a wrapper that repeats its source");
        let outer = Layer("cannot save", Some(Box::new(wrapped)));
        assert_eq!(causes(&outer), ["cannot save", "the disk is full"]);
        assert_eq!(root_cause(&outer), "the disk is full");
    }
}
