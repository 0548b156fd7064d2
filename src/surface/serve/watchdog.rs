//! Tells the service manager that work moves, having looked whether it does.

use std::time::Duration;

use thoughtstream_actors::service::ServiceHandle;
use thoughtstream_effects::notify;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// The tree is read and every actor probed within this time, or something is stuck.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

/// After something did not answer it is looked again so soon: a moment in which the disk is slow must not cost the
/// whole time between two reports, or the service manager would end a service that is well.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Reports as often as the service manager wants it; ends at once where none watches.
pub(super) async fn run(service: ServiceHandle) {
    let Some(every) = notify::watchdog_interval() else { return };
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        while !moves(&service).await {
            sleep(LOOK_AGAIN).await;
        }
        super::tell(notify::watchdog());
    }
}

/// Looks whether the tree answers, the log writer in it, and the log can be read.
async fn moves(service: &ServiceHandle) -> bool {
    let reader = service.reader();
    let readable = tokio::task::spawn_blocking(move || reader.last_position().is_ok());
    let look = async {
        let tree = service.tree().await;
        let writer = tree.as_ref().and_then(|tree| tree.find("log"));
        let answers = writer.is_some_and(|writer| writer.answering);
        answers && readable.await.unwrap_or(false)
    };
    timeout(LOOK_PATIENCE, look).await.unwrap_or(false)
}
