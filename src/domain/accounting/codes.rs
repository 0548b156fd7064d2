//! The kinds of fault that an accounting policy can have.

use crate::yaml::Code;

/// The policy has no limit: it would admit everything.
pub const NO_LIMIT: Code = Code::new("accounting.no-limit");
/// More limits than one policy may have.
pub const TOO_MANY_LIMITS: Code = Code::new("accounting.too-many-limits");
/// A limit that limits nothing.
pub const EMPTY_LIMIT: Code = Code::new("accounting.empty-limit");
/// Two limits over the same window.
pub const SAME_WINDOW: Code = Code::new("accounting.same-window");
/// A rolling window of no length, or one that is too long.
pub const BAD_WINDOW: Code = Code::new("accounting.bad-window");
/// A limit on a dimension that is not reserved: it could not be enforced.
pub const NOT_RESERVED: Code = Code::new("accounting.not-reserved");
/// A limit that cannot admit a single reservation.
pub const ADMITS_NONE: Code = Code::new("accounting.admits-none");
/// A limit too large to be counted.
pub const LIMIT_TOO_LARGE: Code = Code::new("accounting.limit-too-large");
/// A dimension that reserves nothing: missing is never free.
pub const RESERVES_NOTHING: Code = Code::new("accounting.reserves-nothing");
/// A reservation that no call can use.
pub const RESERVES_TOO_MUCH: Code = Code::new("accounting.reserves-too-much");
/// A lease that may end before the runner does.
pub const LEASE_TOO_SHORT: Code = Code::new("accounting.lease-too-short");
/// A lease longer than any call.
pub const LEASE_TOO_LONG: Code = Code::new("accounting.lease-too-long");
