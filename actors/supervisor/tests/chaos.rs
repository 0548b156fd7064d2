//! A seed decides who is hit with what; whatever it is, the invariants hold and the tree goes down.

use std::collections::BTreeMap;

use super::*;

/// How many incarnations of each name are alive, and the most there ever were.
#[derive(Clone, Default)]
struct Census(Arc<Mutex<BTreeMap<String, (i32, i32)>>>);

struct Entry(Census, String);

impl Census {
    fn enter(&self, name: &str) -> Entry {
        let mut names = lock(&self.0);
        let (alive, most) = names.entry(name.to_owned()).or_default();
        *alive += 1;
        *most = (*most).max(*alive);
        Entry(self.clone(), name.to_owned())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some((alive, _)) = lock(&self.0.0).get_mut(&self.1) {
            *alive -= 1;
        }
    }
}

struct Member;

impl Actor for Member {
    type Msg = Deed;
    type State = Entry;
    type Arguments = (Census, String);

    async fn pre_start(
        &self,
        _: ActorRef<Deed>,
        (census, name): (Census, String),
    ) -> Result<Entry, ActorProcessingErr> {
        tokio::task::yield_now().await;
        Ok(census.enter(&name))
    }

    async fn handle(&self, _: ActorRef<Deed>, deed: Deed, _: &mut Entry) -> Result<(), ActorProcessingErr> {
        act(Some(deed)).await
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn member(census: &Census, name: &'static str, address: Address<Deed>) -> ChildSpec {
    let census = census.clone();
    let eager =
        policy().with_exits_max(u32::MAX).with_backoff(Duration::from_millis(1), Duration::from_millis(4));
    let spec = ChildSpec::actor_at(ChildName::fixed(name), "member", address, move |_| {
        (Member, (census.clone(), name.to_owned()))
    });
    let spec = spec.policy(eager).on_exit(|_| async {
        tokio::task::yield_now().await;
        Recovery::Done
    });
    spec.shutdown(Shutdown::Stop(Duration::from_millis(20)))
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Hits a tree of three supervisors with four hundred blows.
async fn run(seed: u64) {
    let (stage, census, mut dice) = (Stage::new(), Census::default(), Dice(seed));
    let addresses: Vec<Address<Deed>> = NAMES.map(|_| Address::new()).to_vec();
    let child = |index: usize| member(&census, NAMES[index], addresses[index].clone());
    let lasting =
        RestartPolicy::escalate().with_exits_max(u32::MAX).with_backoff(Duration::ZERO, Duration::ZERO);
    let strategies = [Strategy::OneForOne, Strategy::RestForOne, Strategy::OneForAll];
    let group = |name: &'static str, strategy: Strategy, members: [usize; 3]| {
        let spec = SupervisorSpec::new(ChildName::fixed(name), strategy).policy(lasting);
        members.into_iter().fold(spec, |spec, index| spec.child(child(index)))
    };
    let left = group("left", strategies[dice.roll(3)], [0, 1, 2]);
    let right = group("right", strategies[dice.roll(3)], [3, 4, 5]);
    let handles = [left.handle(), right.handle()];
    let root = SupervisorSpec::new(ChildName::fixed("chaos"), strategies[dice.roll(3)]);
    let root = launch(root.nested(left).nested(right), stage.env()).await.unwrap();
    for _ in 0..400 {
        let (index, handle) = (dice.roll(6), &handles[dice.roll(2)]);
        let name = NAMES[index];
        match dice.roll(12) {
            0 | 1 => _ = root.handle().kill(["left", "right"][dice.roll(2)]).ok(),
            2 | 3 => _ = handle.kill(name).ok(),
            4 => _ = addresses[index].send(Deed::Panic).ok(),
            5 => _ = addresses[index].send(Deed::Fail).ok(),
            6 => _ = addresses[index].send(Deed::Hang).ok(),
            7 => _ = handle.restart_child(name, RestartCause::Requested).await.ok(),
            8 => _ = tokio::time::timeout(Duration::from_millis(3), handle.stop_child(name)).await.ok(),
            9 => drop(root.handle().tree().await),
            10 => tokio::time::sleep(Duration::from_millis(5)).await,
            _ => tokio::task::yield_now().await,
        }
    }
    for handle in &handles {
        for name in NAMES {
            handle.restart_child(name, RestartCause::Requested).await.ok();
        }
    }
    root.handle().wait_started().await;
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped, "seed {seed}");
    for (name, (alive, most)) in lock(&census.0).iter() {
        assert_eq!((*alive, *most), (0, 1), "{name}, seed {seed}: never two of one name, none in the end");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_falls_comes_back_and_everything_goes_down() {
    for seed in 0..40 {
        run(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_on_several_threads() {
    for seed in 0..4 {
        run(seed).await;
    }
}
