//! System calls that the standard library does not offer, each as one small safe function.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs::OpenOptions,
    io, mem,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::Command,
    time::Duration,
};

use os::check;

/// `_IOW('R', 0x03, int[2])`: adds random bytes and credits them as entropy (random(4)).
const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
/// Random bytes that the generator is seeded with.
const SEED_BYTES: usize = 64;

fn text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(io::Error::from)
}

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

/// Makes the kernel send SIGKILL to the command's process when the thread that starts it ends.
pub(crate) fn kill_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only prctl(2) is called, which is safe after a fork.
    unsafe {
        command.pre_exec(die_with_parent);
    }
}

fn die_with_parent() -> io::Result<()> {
    // SAFETY: plain arguments.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) }).map(drop)
}

/// Prepares the process of a guest's kernel: it is killed with the thread that starts it, leaves no core
/// file, and gets neither random numbers nor randomized addresses from this machine.
pub(crate) fn prepare_kernel(command: &mut Command) {
    // SAFETY: between fork and exec only system calls are made, which is safe after a fork.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            die_with_parent()?;
            // UML computes the guest's memory size from its own addresses, which must be the same in every
            // run. Docker's seccomp filter denies this; then runs may differ by a few pages of memory.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            check(libc::setrlimit(libc::RLIMIT_CORE, &raw const none))?;
            refuse_random_numbers()
        });
    }
}

/// Exchanges two directories atomically.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let (one, other) = (path_text(one)?, path_text(other)?);
    // SAFETY: both texts end with a zero byte and live during the call.
    check(unsafe {
        libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE)
    })
    .map(drop)
}

/// Makes getrandom(2) of this process and its children fail (ENOSYS). UML would seed the guest's random
/// numbers with it, and every run would differ. UML handles the failure, as on Linux before 3.17.
fn refuse_random_numbers() -> io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut lines = [
        // seccomp_data.nr
        line(LOAD, 0, 0, 0),
        line(JUMP, 0, 1, libc::SYS_getrandom as u32),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: plain arguments; the program and its lines live across the call.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)).map(drop)
    }
}

/// Kills a process group.
pub(crate) fn kill_group(group: u32) {
    // SAFETY: plain arguments.
    unsafe { libc::kill(-(group as libc::pid_t), libc::SIGKILL) };
}

/// Processor time of a process without its children; zero if it has ended.
pub(crate) fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain any characters. After it, utime is the 12th field and stime the
    // 13th (proc(5)).
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).flat_map(|field| field.parse::<u64>()).sum();
    // SAFETY: takes a number and returns one.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Duration::from_millis(ticks * 1000 / per_second)
}

/// Properties of a file system.
pub(crate) struct FileSystem {
    pub(crate) free_bytes: u64,
    pub(crate) noexec: bool,
}

/// The file system that holds `path`.
pub(crate) fn file_system(path: &Path) -> io::Result<FileSystem> {
    let path = path_text(path)?;
    // SAFETY: an all-zero statvfs is valid to write to; the path ends in a zero.
    let stat = unsafe {
        let mut stat: libc::statvfs = mem::zeroed();
        check(libc::statvfs(path.as_ptr(), &raw mut stat))?;
        stat
    };
    let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    Ok(FileSystem { free_bytes, noexec: stat.f_flag & libc::ST_NOEXEC != 0 })
}

/// Whether this process may create files in `dir`.
pub(crate) fn is_writable(dir: &Path) -> bool {
    let Ok(path) = path_text(dir) else { return false };
    // SAFETY: the path ends in a zero.
    unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

/// Mounts a file system of this kind; succeeds if one is mounted there already.
pub(crate) fn mount(kind: &str, at: &str, options: &str) -> io::Result<()> {
    let (name, target, data) = (text(kind)?, text(at)?, text(options)?);
    // SAFETY: all strings end in zeros and live across the call.
    let done = unsafe { libc::mount(name.as_ptr(), target.as_ptr(), name.as_ptr(), 0, data.as_ptr().cast()) };
    match check(done) {
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        other => other.map(drop),
    }
}

/// Seeds the kernel's random numbers, so that programs do not wait for entropy and every run has the same
/// numbers.
pub(crate) fn seed_random_numbers(seed: u64) -> io::Result<()> {
    /// `struct rand_pool_info` (linux/random.h).
    #[repr(C)]
    struct Pool {
        entropy_bits: libc::c_int,
        bytes: libc::c_int,
        data: [u8; SEED_BYTES],
    }
    let mut data = [0; SEED_BYTES];
    data[..8].copy_from_slice(&seed.to_le_bytes());
    let pool = Pool { entropy_bits: SEED_BYTES as libc::c_int * 8, bytes: SEED_BYTES as libc::c_int, data };
    let device = OpenOptions::new().write(true).open("/dev/urandom")?;
    // SAFETY: RNDADDENTROPY reads a `struct rand_pool_info` with the number of bytes in its field.
    check(unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY as _, &raw const pool) }).map(drop)
}

/// Powers the guest off.
pub(crate) fn power_off() -> ! {
    // SAFETY: plain arguments.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    std::process::exit(1)
}
