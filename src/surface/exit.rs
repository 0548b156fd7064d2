//! The exit codes, a closed list: programs and units may rely on every one of them.

use std::process::ExitCode;

/// Is how the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// What was asked for is done.
    Done,
    /// It was refused, or the look found something wrong.
    Refused,
    /// The command line, the configuration or a declaration is not right.
    Usage,
    /// Something was written that was not declared, or time ran out.
    Undeclared,
    /// It could not be looked at: unreadable, damaged, not permitted, not answering.
    CouldNotLook,
    /// The answer was lost; the same command run again finds out.
    Unknown,
    /// Nothing is wrong, but something could be better.
    Advice,
    /// This program is at fault.
    Bug,
}

impl Exit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Refused,
        Self::Usage,
        Self::Undeclared,
        Self::CouldNotLook,
        Self::Unknown,
        Self::Advice,
        Self::Bug,
    ];

    /// Returns the number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Undeclared => 3,
            Self::CouldNotLook => 4,
            Self::Unknown => 5,
            Self::Advice => 6,
            Self::Bug => 70,
        }
    }

    /// Reads the number; what is not in the list is our bug.
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|exit| exit.code() == code).unwrap_or(Self::Bug)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_documented_ones() {
        let codes: Vec<u8> = Exit::ALL.into_iter().map(Exit::code).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 70]);
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(exit.code()), exit);
        }
        assert_eq!(Exit::from_code(99), Exit::Bug);
    }
}
