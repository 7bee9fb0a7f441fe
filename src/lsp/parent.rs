//! The client's process, which may die without a word.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Looks at process `pid` until it is gone, then cancels `gone`.
pub(crate) async fn watch(pid: u32, poll: Duration, gone: CancellationToken) {
    while is_alive(pid) {
        tokio::time::sleep(poll).await;
    }
    tracing::warn!(pid, "the client's process is gone");
    gone.cancel();
}

/// A process that ended but was not collected yet counts as gone where that can be seen.
#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};

    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    match test_kill_process(pid) {
        Err(rustix::io::Errno::SRCH) => false,
        _ => !is_zombie(pid.as_raw_nonzero().get()),
    }
}

#[cfg(unix)]
fn is_zombie(pid: i32) -> bool {
    // `pid (name) state …`; the name may hold anything, also parentheses.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()))
        .is_some_and(|state| state == 'Z' || state == 'X')
}

#[cfg(not(unix))]
fn is_alive(_: u32) -> bool {
    true
}
