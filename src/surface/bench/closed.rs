//! Closed loops: so many callers, each of which begins its next step when the last one is durable.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::BenchError;

/// The most steps that a grouped floor takes into one transaction, as the log's own writer does.
pub const GROUP_MAX: usize = 512;

/// Is what one cell gave.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// How many steps were finished in the time that counts.
    pub steps: usize,
    /// How long that was.
    pub elapsed: Duration,
    /// How long each of them took, rising.
    pub latencies: Vec<Duration>,
}

impl Measured {
    /// Returns finished steps in a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { self.steps as f64 / self.elapsed.as_secs_f64() }
    }

    /// Returns the latency below which this share of the steps lies.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below len")]
        let index = (last as f64 * share).round() as usize;
        self.latencies.get(index).copied().unwrap_or_default()
    }

    fn of(begun: Instant, samples: Vec<(Instant, Duration)>, until: Instant) -> Self {
        let counted = samples.into_iter().filter(|(ended, _)| *ended >= begun && *ended <= until);
        let mut latencies: Vec<Duration> = counted.map(|(_, latency)| latency).collect();
        latencies.sort_unstable();
        Self { steps: latencies.len(), elapsed: until - begun, latencies }
    }
}

/// Runs `step(writer, n)` in closed loops for `time`, after a warm-up of a fifth of it that does not count.
///
/// # Errors
/// The first step's error.
pub async fn closed_loop<S, F>(writers: usize, time: Duration, step: S) -> Result<Measured, BenchError>
where
    S: Fn(usize, u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), BenchError>> + Send,
{
    let begun = Instant::now() + time / 5;
    let until = begun + time;
    let mut loops = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let step = step.clone();
        loops.spawn(async move {
            let mut samples = Vec::new();
            let mut n = 0;
            loop {
                let started = Instant::now();
                if started >= until {
                    return Ok::<_, BenchError>(samples);
                }
                step(writer, n).await?;
                let ended = Instant::now();
                samples.push((ended, ended - started));
                n += 1;
            }
        });
    }
    let mut samples = Vec::new();
    while let Some(ended) = loops.join_next().await {
        samples.extend(ended.map_err(|_| BenchError::Panicked)??);
    }
    Ok(Measured::of(begun, samples, until))
}

/// Is a step that waits for a floor's transaction.
type Waiting<T> = (T, oneshot::Sender<()>);

struct Line<T> {
    waiting: Mutex<(VecDeque<Waiting<T>>, bool)>,
    changed: Condvar,
}

impl<T> Line<T> {
    /// Takes what waits, at most `most`; `None` when nobody will come any more.
    fn take(&self, most: usize) -> Option<Vec<Waiting<T>>> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |(line, closed): &mut (VecDeque<Waiting<T>>, bool)| line.is_empty() && !*closed;
        let mut waiting = self.changed.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner);
        let count = waiting.0.len().min(most);
        (count > 0).then(|| waiting.0.drain(..count).collect())
    }
}

/// One thread that commits what waits in groups: the shape that every floor shares with the log.
pub struct Grouped<T> {
    line: Arc<Line<T>>,
    thread: Option<std::thread::JoinHandle<Result<(), BenchError>>>,
}

impl<T: Send + 'static> Grouped<T> {
    /// Starts the thread; `commit` makes a group of at most `most` steps durable.
    ///
    /// # Errors
    /// [`BenchError::Io`] if the thread cannot be started.
    pub fn start(
        most: usize,
        mut commit: impl FnMut(&[T]) -> Result<(), BenchError> + Send + 'static,
    ) -> Result<Self, BenchError> {
        let line = Arc::new(Line { waiting: Mutex::default(), changed: Condvar::new() });
        let taken = Arc::clone(&line);
        let thread = std::thread::Builder::new().name("floor".to_owned()).spawn(move || {
            while let Some(group) = taken.take(most) {
                let (steps, replies): (Vec<T>, Vec<_>) = group.into_iter().unzip();
                commit(&steps)?;
                for reply in replies {
                    // Whoever waited may have been stopped by an error of its own.
                    reply.send(()).ok();
                }
            }
            Ok(())
        })?;
        Ok(Self { line, thread: Some(thread) })
    }

    /// Hands a step in; resolves when it is durable.
    pub fn submit(&self, step: T) -> impl Future<Output = Result<(), BenchError>> + Send + use<T> {
        let (reply, answer) = oneshot::channel();
        let mut waiting = self.line.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.push_back((step, reply));
        drop(waiting);
        self.line.changed.notify_one();
        async move { answer.await.map_err(|_| BenchError::FloorFailed) }
    }
}

impl<T> Grouped<T> {
    fn close(&mut self) -> Result<(), BenchError> {
        self.line.waiting.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.line.changed.notify_all();
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| BenchError::Panicked)?,
            None => Ok(()),
        }
    }

    /// Ends the thread when everything that waits is durable.
    ///
    /// # Errors
    /// The error that ended it before.
    pub fn finish(mut self) -> Result<(), BenchError> {
        self.close()
    }
}

impl<T> Drop for Grouped<T> {
    fn drop(&mut self) {
        // The steps that failed have told whoever waited for them.
        self.close().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_latencies() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let measured = Measured { steps: 100, elapsed: Duration::from_secs(2), latencies };
        assert!((measured.per_second() - 50.0).abs() < f64::EPSILON);
        assert_eq!(measured.quantile(0.0), Duration::from_millis(1));
        assert_eq!(measured.quantile(0.99), Duration::from_millis(99));
        assert_eq!(measured.quantile(1.0), Duration::from_millis(100));
        assert_eq!(Measured::default().quantile(0.5), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_group_is_no_larger_than_asked_and_every_step_is_answered() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let grouped = Grouped::start(4, move |group: &[u32]| {
            seen.lock().unwrap().push(group.len());
            Ok(())
        })
        .unwrap();
        let answers: Vec<_> = (0..10).map(|n| grouped.submit(n)).collect();
        for answer in answers {
            answer.await.unwrap();
        }
        grouped.finish().unwrap();
        let sizes = sizes.lock().unwrap();
        assert_eq!(sizes.iter().sum::<usize>(), 10);
        assert!(sizes.iter().all(|size| *size <= 4));
    }

    #[tokio::test]
    async fn a_floor_that_fails_tells_those_who_wait() {
        let grouped = Grouped::start(4, |_: &[u32]| Err(BenchError::FloorFailed)).unwrap();
        assert!(grouped.submit(1).await.is_err());
        assert!(grouped.finish().is_err());
    }
}
