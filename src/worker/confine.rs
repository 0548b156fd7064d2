//! What a worker gives up before it reads its first byte.
//!
//! The sandbox around it already lets it reach nothing. From here on it cannot open a file, run a program, map
//! executable memory or make any system call but those that reading, computing and writing need; another one
//! ends it.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// What is left: pipes, memory, the end.
const ALLOWED: [libc::c_long; 16] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Gives up everything a worker does not need.
///
/// # Errors
/// [`seccompiler::Error`] if the kernel refuses; the worker must not go on then.
pub fn give_up() -> Result<(), seccompiler::Error> {
    apply_filter(&filter()?)
}

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // Memory, but never to run code in.
    let protection = SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.cast_unsigned()));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let plain = SeccompCondition::new(2, SeccompCmpArgLen::Dword, protection.clone(), 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![plain])?]);
    }
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_fits_this_machine() {
        assert!(!filter().unwrap().is_empty());
    }
}
