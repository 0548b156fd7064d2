//! Closed lists of codes: each with its spelling in events and commands, and with words for people.

/// Declares an enum of codes. What it derives is said in front of it; the spelling is also how serde writes it.
macro_rules! closed_codes {
    ($(#[$about:meta])* $name:ident { $($(#[doc = $doc:literal])* $code:ident = $text:literal, $words:literal;)* }) => {
        $(#[$about])*
        pub enum $name {
            $($(#[doc = $doc])* #[serde(rename = $text)] $code,)*
        }

        impl $name {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// Returns the spelling used in events and commands.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $text,)* }
            }

            /// Says in words what is wrong.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(Self::$code => $words,)* }
            }
        }
    };
}

pub(crate) use closed_codes;
