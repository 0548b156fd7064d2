//! A folder of files as a source of documents.
//!
//! | file | it answers |
//! | --- | --- |
//! | `root` | which directory is this, and is it still the same one |
//! | `rules` | which files are documents, and how many at most |
//! | `scan` | what is there now (`read`: one file, whole; `name`: which names are taken; `named`: ids in frontmatter) |
//! | `diff` | what changed since, with stable identities |
//! | `change` | how one change is recorded |
//! | `admit` | what is taken of a producer's word, in this process or in another |
//! | `producer` | what of that may be said now, and what has to wait |
//! | `watch` | when to look again |
//!
//! The watcher only ever says "look"; looking is always a whole scan against what the log knows. So an edit
//! made while the service was down, and one whose notification was lost, are found in the same way as any
//! other.

pub mod admit;
pub mod change;
pub mod diff;
pub mod producer;
pub mod root;
pub mod rules;
pub mod scan;
pub mod watch;

mod name;
mod named;
mod read;

pub use name::content_type;
pub use named::frontmatter_id;
pub use read::{LoadError, load};
