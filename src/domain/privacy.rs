//! The three privacy classes and their order.

use serde::{Deserialize, Serialize};

/// Says who may see an event; classes are ordered and only ever get stronger (Subscription section).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Privacy {
    /// Was public at its source.
    PublicSource,
    /// Belongs to the person who runs the service.
    Private,
    /// Must not leave the machine without an explicit act.
    Sensitive,
}

impl Privacy {
    /// All classes, weakest first.
    pub const ALL: [Self; 3] = [Self::PublicSource, Self::Private, Self::Sensitive];

    /// Returns the stronger of two classes: what is derived from both inputs carries this one.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        self.max(other)
    }

    /// Returns the spelling used in declarations, events and commands.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PublicSource => "public-source",
            Self::Private => "private",
            Self::Sensitive => "sensitive",
        }
    }

    /// Reads the spelling used in declarations, events and commands.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == text)
    }

    /// Returns the byte that stored records use for this class.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::PublicSource => 0,
            Self::Private => 1,
            Self::Sensitive => 2,
        }
    }

    /// Reads the byte that stored records use.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.code() == code)
    }
}

impl std::fmt::Display for Privacy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_never_lowers_a_class() {
        for a in Privacy::ALL {
            for b in Privacy::ALL {
                assert!(a.join(b) >= a && a.join(b) >= b);
                assert_eq!(a.join(b), b.join(a));
            }
        }
    }

    #[test]
    fn every_class_survives_its_spelling_and_its_code() {
        for class in Privacy::ALL {
            assert_eq!(Privacy::parse(class.as_str()), Some(class));
            assert_eq!(Privacy::from_code(class.code()), Some(class));
        }
        assert_eq!(Privacy::parse("Private"), None);
        assert_eq!(Privacy::from_code(3), None);
    }
}
