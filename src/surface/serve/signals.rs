//! What the process is told from outside: stop in order, stop at once, read the declarations again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use thoughtstream_actors::service::{Service, ServiceHandle};
use thoughtstream_actors::supervisor::Outcome;
use thoughtstream_effects::lock::{Draining, OwnerLock};
use thoughtstream_effects::notify;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::at_start::AtStart;
use crate::desk::reload_failure;
use crate::session::now;

/// After the drain was cut short, the rest may take this long before it is left behind.
const HARD_STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Returns after how many milliseconds at most a service is gone that is told to stop, if open work may go on so long.
pub(crate) fn bound_ms(drain: Duration) -> u32 {
    u32::try_from((drain + HARD_STOP_PATIENCE).as_millis()).unwrap_or(u32::MAX)
}

/// Waits until something has started, and listens meanwhile; `None` if it was told to stop before.
pub(super) async fn until_started<T>(
    signals: &mut Signals,
    starting: impl Future<Output = T>,
) -> Option<Started<T>> {
    tokio::pin!(starting);
    let mut reload = false;
    loop {
        tokio::select! {
            what = &mut starting => return Some(Started { what, reload }),
            told = signals.next() => match told {
                Told::Stop => return None,
                Told::Reload => reload = true,
            },
        }
    }
}

/// Is what has started.
pub(super) struct Started<T> {
    /// It.
    pub(super) what: T,
    /// Whether everything is to be looked at anew: what was read may be older than the signal that says so.
    pub(super) reload: bool,
}

/// Waits until the service has ended, by itself or because it was told to.
pub(super) async fn until_the_end(
    service: &Service,
    mut signals: Signals,
    stop: CancellationToken,
    at_start: Arc<AtStart>,
    lock: &mut OwnerLock,
) -> Outcome {
    loop {
        tokio::select! {
            outcome = service.ended() => return outcome,
            () = stop.cancelled() => break,
            told = signals.next() => match told {
                Told::Stop => break,
                // In a task of its own: a reload that waits for the log must not keep a stop waiting.
                Told::Reload => drop(tokio::spawn(reload(service.handle().clone(), Arc::clone(&at_start)))),
            },
        }
    }
    let drain = at_start.drain();
    if let Err(error) = lock.drains(Draining { since_ms: now().as_millis(), bound_ms: bound_ms(drain) }) {
        // Whoever comes meanwhile is told who holds the log, and not that it is on its way out. Whoever has told it to
        // stop knows, for it was answered.
        tracing::warn!(%error, "the end is not told to others");
    }
    super::tell(notify::stopping());
    tracing::info!(seconds = drain.as_secs(), "stopping: open work may finish");
    service.stop();
    let bound = tokio::time::sleep(drain);
    tokio::pin!(bound);
    loop {
        tokio::select! {
            outcome = service.ended() => return outcome,
            () = &mut bound => break,
            told = signals.next() => match told {
                Told::Stop => break,
                Told::Reload => {}
            },
        }
    }
    tracing::warn!("stopping at once: what is open is closed at the next start");
    service.stop();
    // What does not even end by force ends with the process; everything acknowledged is durable.
    tokio::time::timeout(HARD_STOP_PATIENCE, service.ended()).await.unwrap_or(Outcome::Stopped)
}

pub(super) async fn reload(service: ServiceHandle, at_start: Arc<AtStart>) {
    match service.reload(None).await {
        Ok(reloaded) => {
            tracing::info!(
                started = reloaded.started.len(),
                stopped = reloaded.stopped.len(),
                restarted = reloaded.restarted.len(),
                unchanged = reloaded.unchanged.len(),
                "the declarations were read again"
            );
            let restart_for = at_start.restart_for();
            if !restart_for.is_empty() {
                let what = restart_for.join(", ");
                tracing::warn!(what, "changed in the configuration, but taken over by the next start only");
            }
        }
        Err(error) => {
            let failure = reload_failure(&error);
            // The places of problems are ours to tell; the offending text is not.
            tracing::error!(
                code = failure.code,
                "the declarations were not taken over; `thought declaration check` says why"
            );
        }
    }
}

/// Is what a signal says.
pub(crate) enum Told {
    /// Stop in order, or at once if it is the second time.
    Stop,
    /// Look at everything anew.
    Reload,
}

/// The signals that are listened to; one that cannot be installed never comes.
pub(crate) struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> Self {
        let listen = |kind: SignalKind| match signal(kind) {
            Ok(signal) => Some(signal),
            Err(error) => {
                tracing::warn!(signal = kind.as_raw_value(), kind = %error.kind(), "cannot listen to a signal");
                None
            }
        };
        Self {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
            hang_up: listen(SignalKind::hangup()),
        }
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Told {
        async fn one(signal: &mut Option<Signal>) {
            if let Some(signal) = signal
                && signal.recv().await.is_some()
            {
                return;
            }
            std::future::pending().await
        }
        tokio::select! {
            () = one(&mut self.terminate) => Told::Stop,
            () = one(&mut self.interrupt) => Told::Stop,
            () = one(&mut self.hang_up) => Told::Reload,
        }
    }
}
