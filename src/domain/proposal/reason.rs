//! Why a memory change was not made: a closed list of codes without content.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codes::closed_codes;

closed_codes! {
    /// Says why a memory change was not made.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, thiserror::Error,
    )]
    #[error("{}", self.words())]
    ReasonCode {
        /// The document has another version now than the proposal was made for.
        StaleBase = "stale-base", "the document has another version now; the change has to be proposed again";
        /// The file holds other bytes than the version.
        FileChanged = "file-changed", "the file holds other bytes than its last version; the change has to be proposed again";
        /// The bytes of the base version are missing or not what they should be.
        BaseDamaged = "base-damaged", "the bytes of the base version are missing or damaged";
        /// The base or the result is not UTF-8.
        NotText = "not-text", "the document is not UTF-8 text";
        /// The target is not the memory document of the configured root.
        OtherTarget = "other-target", "the target is not the memory document of the configured root";
        /// The root is missing, not a directory, or a link.
        RootUnfit = "root-unfit", "the root is missing, no directory, or a link";
        /// The file is missing.
        FileMissing = "file-missing", "the file is missing";
        /// The file is a link or lies behind one.
        FileLinked = "file-linked", "the file is a link or lies behind one";
        /// The file is no regular file.
        FileUnfit = "file-unfit", "the file is no regular file, or may not be read";
        /// There is no frontmatter.
        FrontmatterMissing = "frontmatter-missing", "the document has no frontmatter";
        /// The frontmatter cannot be read.
        FrontmatterMalformed = "frontmatter-malformed", "the frontmatter cannot be read";
        /// The frontmatter has no id, or an empty one.
        IdMissing = "id-missing", "the frontmatter has no id that is a nonempty text";
        /// The frontmatter has its id twice.
        IdTwice = "id-twice", "the frontmatter has its id twice";
        /// The id changed.
        IdChanged = "id-changed", "the frontmatter has another id than before";
        /// The result is larger than the limit.
        TooLarge = "too-large", "the document would be larger than its limit";
        /// The result is what was there already.
        Unchanged = "unchanged", "the document would be what it is already";
        /// There is no room on the disk.
        NoSpace = "no-space", "there is no room on the disk";
        /// The file could not be written.
        WriteFailed = "write-failed", "the file could not be written";
        /// Another file came out of the exchange than the base.
        Swapped = "swapped", "the file was changed while it was written; both versions were kept";
        /// The source could not be scanned.
        ScanFailed = "scan-failed", "the source could not be scanned";
        /// The scan found another version than was written.
        ScanDiffers = "scan-differs", "the scan found another version than was written";
        /// The receipt could not be checked.
        ReceiptFailed = "receipt-failed", "the receipt could not be checked";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_a_short_word_of_its_own() {
        let mut words: Vec<&str> = ReasonCode::ALL.iter().map(|code| code.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), ReasonCode::ALL.len());
        for code in ReasonCode::ALL {
            assert!(code.as_str().len() <= 32 && crate::cell::Code::parse(code.as_str()).is_ok());
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
