//! Many children, and many ends of one.

use std::sync::atomic::AtomicUsize;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_kills_never_runs_two_of_one_name() {
    const KILLS: u64 = 500;
    let stage = Stage::new();
    let (spec, _) = stage.puppet("p");
    let eager = policy().with_exits_max(u32::MAX).with_backoff(Duration::ZERO, Duration::ZERO);
    let root = stage.launch(one_for_one("storm").child(stage.with_hook(spec.policy(eager)))).await;
    for incarnation in 1..=KILLS {
        running(root.handle(), "p", incarnation).await;
        root.handle().kill("p").unwrap();
    }
    let node = running(root.handle(), "p", KILLS + 1).await;
    assert_eq!(node.restarts, KILLS);
    assert_eq!(node.last_exit.unwrap().what, Exit::Killed, "no start ever found the name taken");
    root.stop();
    root.wait().await;
    let lines = stage.journal.take();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("closed")) {
        let number: u64 = line.split(['#', ' ']).nth(2).unwrap().parse().unwrap();
        let before = &lines[..index];
        assert!(before.contains(&format!("up p#{number}")), "{line}");
        assert!(!before.contains(&format!("up p#{}", number + 1)), "{line} came after its successor");
    }
}

/// Counts who is alive.
struct Counted;

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Actor for Counted {
    type Msg = ();
    type State = Alive;
    type Arguments = Arc<AtomicUsize>;

    async fn pre_start(&self, _: ActorRef<()>, alive: Arc<AtomicUsize>) -> Result<Alive, ActorProcessingErr> {
        alive.fetch_add(1, Ordering::SeqCst);
        Ok(Alive(alive))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_children_come_up_and_go_down() {
    const CHILDREN: usize = 10_000;
    let stage = Stage::new();
    let alive = Arc::new(AtomicUsize::new(0));
    let mut pool = SupervisorSpec::pool(ChildName::fixed("pool"));
    for index in 0..CHILDREN {
        let name = ChildName::parse(&format!("child-{index}")).unwrap();
        let alive = alive.clone();
        pool = pool.child(ChildSpec::actor(name, "counted", move |_| (Counted, alive.clone())));
    }
    let root = stage.launch(one_for_one("storm-many").nested(pool)).await;
    let tree = root.handle().tree().await;
    let states = tree.find("pool").unwrap().children.iter().map(|child| child.state);
    assert_eq!(states.filter(|state| *state == ChildState::Running).count(), CHILDREN);
    assert_eq!(alive.load(Ordering::SeqCst), CHILDREN);
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiting_children_are_stopped_without_nesting() {
    let stage = Stage::new();
    let mut spec = one_for_one("storm-waiting");
    for index in 0..10_000 {
        let name = ChildName::parse(&format!("child-{index}")).unwrap();
        let child = ChildSpec::new(name, "never", |_| async { Err(StartError(ODD)) });
        spec = spec.child(child.policy(policy()));
    }
    let root = stage.launch(spec).await;
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped);
}
