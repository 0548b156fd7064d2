//! Syncs a file while something else is done: the disk takes a frame while redb takes its rows.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::disk::{DiskFile, Overlap};

/// A thread that does nothing but wait for the disk.
#[derive(Debug)]
struct Syncer {
    ask: Sender<Arc<dyn DiskFile>>,
    answers: Receiver<io::Result<()>>,
}

impl Syncer {
    fn start() -> io::Result<Self> {
        let (ask, asked) = channel::<Arc<dyn DiskFile>>();
        let (answer, answers) = channel();
        let work = move || {
            for file in asked {
                if answer.send(file.sync()).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("log-sync".to_owned()).spawn(work)?;
        Ok(Self { ask, answers })
    }

    fn sync_while(&self, file: &Arc<dyn DiskFile>, meanwhile: &mut dyn FnMut()) -> io::Result<()> {
        let gone = || io::Error::other("the thread that syncs has ended");
        self.ask.send(Arc::clone(file)).map_err(|_| gone())?;
        meanwhile();
        self.answers.recv().map_err(|_| gone())?
    }
}

/// Does one sync beside one other thing at a time. Whoever leaves one unanswered, by a panic, must not use it again.
#[derive(Debug, Default)]
pub(super) struct Syncing {
    /// Started with the first sync that wants it: whoever only looks at a log needs no thread.
    syncer: Option<Syncer>,
}

impl Syncing {
    /// Makes every write so far durable and does something else until then. When both are done, says what became of
    /// the sync.
    pub(super) fn sync_while(
        &mut self,
        file: &Arc<dyn DiskFile>,
        meanwhile: &mut dyn FnMut(),
    ) -> io::Result<()> {
        match file.overlap() {
            Overlap::Beside => {
                // Where no thread can be had, one thing after the other is as good, only slower.
                if self.syncer.is_none() {
                    self.syncer = Syncer::start().ok();
                }
                if let Some(syncer) = &self.syncer {
                    return syncer.sync_while(file, meanwhile);
                }
                let synced = file.sync();
                meanwhile();
                synced
            }
            Overlap::Before => {
                let synced = file.sync();
                meanwhile();
                synced
            }
            Overlap::Behind => {
                meanwhile();
                file.sync()
            }
        }
    }
}
