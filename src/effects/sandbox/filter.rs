//! The system calls that a sandboxed program may make: enough to be loaded, to read, compute, write and end.
//!
//! Everything else is refused with `EPERM`, so nobody inside can start a process or a thread, open a socket,
//! look at another process, write a file or make a namespace. A refusal rather than death, because C libraries
//! of other versions try calls that they can do without. A worker narrows itself further before it reads.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Calls that are harmless with any arguments, on every machine.
const ALLOWED: [libc::c_long; 43] = [
    // What a worker is there for.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_fcntl,
    libc::SYS_lseek,
    libc::SYS_ppoll,
    // Loading itself and its libraries. Nothing else is there that could be run.
    libc::SYS_execve,
    libc::SYS_pread64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_readlinkat,
    libc::SYS_prlimit64,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // One thread and its signals.
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    // Narrowing itself further, and the end.
    libc::SYS_seccomp,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getuid,
];

/// The same by names that only this machine has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: [libc::c_long; 4] =
    [libc::SYS_arch_prctl, libc::SYS_access, libc::SYS_poll, libc::SYS_readlink];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: [libc::c_long; 0] = [];

/// The bits of an open call that could change a file or make one.
const CHANGING: libc::c_int =
    libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_PATH;

/// Returns the filter as the kernel reads it.
///
/// # Errors
/// [`BackendError`] on a machine the filter cannot be written for.
pub fn program() -> Result<Vec<u8>, BackendError> {
    let anything = ALLOWED.iter().chain(&ALLOWED_HERE).map(|call| (*call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = anything.collect();
    let dword = SeccompCmpArgLen::Dword;
    let changing = SeccompCmpOp::MaskedEq(u64::from(CHANGING.cast_unsigned()));
    let reading = SeccompCondition::new(2, dword.clone(), changing, 0)?;
    rules.insert(libc::SYS_openat, vec![SeccompRule::new(vec![reading])?]);
    // It may give privileges up for good, and not (say) outlive whoever started it.
    let mut giving_up = Vec::new();
    for option in [libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_SECCOMP] {
        let is =
            SeccompCondition::new(0, dword.clone(), SeccompCmpOp::Eq, u64::from(option.cast_unsigned()))?;
        giving_up.push(SeccompRule::new(vec![is])?);
    }
    rules.insert(libc::SYS_prctl, giving_up);
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    let program: BpfProgram = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()?;
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for step in program {
        bytes.extend_from_slice(&step.code.to_ne_bytes());
        bytes.extend_from_slice(&[step.jt, step.jf]);
        bytes.extend_from_slice(&step.k.to_ne_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_fits_this_machine_and_into_a_pipe() {
        let bytes = program().unwrap();
        assert!(bytes.len().is_multiple_of(8) && (8..4096).contains(&bytes.len()), "{}", bytes.len());
    }

    #[test]
    fn nothing_that_starts_connects_or_looks_is_on_the_list() {
        let refused = [
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_kill,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_memfd_create,
            libc::SYS_execveat,
            libc::SYS_ioctl,
            libc::SYS_keyctl,
            libc::SYS_openat2,
        ];
        for call in refused {
            assert!(!ALLOWED.contains(&call) && !ALLOWED_HERE.contains(&call), "{call}");
        }
    }
}
