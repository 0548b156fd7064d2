//! Every way to end, as the supervisor sees it.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Runs one puppet, lets `end` end it, and returns how the exit was read and how it looks afterwards.
async fn after(root: &'static str, end: impl AsyncFnOnce(&Hand)) -> (String, TreeNode) {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let root = stage.launch(one_for_one(root).child(spec)).await;
    end(&hand).await;
    let node = running(root.handle(), "p", 2).await;
    let last = node.last_exit.unwrap().what.to_string();
    root.stop();
    assert_eq!(root.wait().await, Outcome::Stopped);
    (last, node)
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_running_actor_is_told_apart() {
    let cell = |hand: &Hand| hand.address.get().unwrap().get_cell();
    let ends = [
        after("t-panic", async |hand| hand.tell(Order::Do(Deed::Panic))).await,
        after("t-fault", async |hand| hand.tell(Order::Do(Deed::Fail))).await,
        after("t-uncoded", async |hand| hand.tell(Order::Do(Deed::FailUncoded))).await,
        after("t-finish", async |hand| hand.tell(Order::Finish)).await,
        after("t-kill", async |hand| cell(hand).kill()).await,
        after("t-bare", async |hand| cell(hand).stop(None)).await,
        after("t-foreign", async |hand| cell(hand).stop(Some("because".into()))).await,
        after("t-drain", async |hand| cell(hand).drain().unwrap()).await,
        after("t-hung", async |hand| {
            hand.tell(Order::Do(Deed::Hang));
            cell(hand).kill();
        })
        .await,
        after("t-post-stop", async |hand| {
            *lock(&hand.script.post_stop) = Some(Deed::Panic);
            hand.tell(Order::Finish);
        })
        .await,
    ];
    let read: Vec<&str> = ends.iter().map(|(exit, _)| exit.as_str()).collect();
    assert_eq!(
        read,
        [
            "failed:panicked",
            "failed:odd",
            "failed:unexplained",
            "planned:finished",
            "killed",
            "failed:unknown-stop",
            "failed:unknown-stop",
            "planned:drained",
            "killed",
            "failed:panicked",
        ]
    );
    for (exit, node) in ends {
        assert_eq!((node.restarts, node.incarnation), (1, 2), "{exit}");
    }
}

/// Launches a puppet whose first incarnation does `deed` in the callback that `place` picks.
async fn born_with(
    root: &'static str,
    deed: Deed,
    place: impl Fn(&Script) -> &Mutex<Option<Deed>>,
) -> TreeNode {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    *lock(place(&hand.script)) = Some(deed);
    let root = launch(one_for_one(root).child(spec), stage.env()).await.unwrap();
    let node = running(root.handle(), "p", 2).await;
    assert_eq!(stage.notices.words().len(), 1, "one restart");
    root.stop();
    root.wait().await;
    node
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_come_up_is_tried_again() {
    let ends = [
        born_with("b-pre-panic", Deed::Panic, |script| &script.pre_start).await,
        born_with("b-pre-fail", Deed::Fail, |script| &script.pre_start).await,
        born_with("b-pre-hang", Deed::Hang, |script| &script.pre_start).await,
        born_with("b-post-panic", Deed::Panic, |script| &script.post_start).await,
        born_with("b-post-fail", Deed::Fail, |script| &script.post_start).await,
    ];
    let read: Vec<String> = ends.iter().map(|node| node.last_exit.unwrap().what.to_string()).collect();
    assert_eq!(
        read,
        [
            "start-failed:panicked",
            "start-failed:odd",
            "start-failed:timed-out",
            "failed:panicked",
            "failed:odd"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_is_told_apart_from_a_kill() {
    let stage = Stage::new();
    let (journal, abort) = (stage.journal.clone(), Arc::new(Mutex::new(None)));
    let handles = abort.clone();
    let spec = ChildSpec::new(ChildName::fixed("p"), "puppet", move |context| {
        let (journal, handles) = (journal.clone(), handles.clone());
        async move {
            let strings =
                Strings { name: "p".into(), journal, script: Arc::default(), status: context.status.clone() };
            let spawned = Puppet::spawn_linked(None, Puppet, strings, context.supervisor.clone()).await;
            let (actor, task) = spawned.map_err(|_| StartError(ODD))?;
            *lock(&handles) = Some(task.abort_handle());
            Ok(Started::new(actor.get_cell()))
        }
    });
    let root = stage.launch(one_for_one("e-abort").child(spec.policy(policy()))).await;
    lock(&abort).take().unwrap().abort();
    let node = running(root.handle(), "p", 2).await;
    assert_eq!(node.last_exit.unwrap().what, Exit::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_start_closure_that_panics_or_fails_after_spawning_leaves_nothing_behind() {
    let stage = Stage::new();
    let tries = Arc::new(AtomicUsize::new(0));
    let (counter, journal) = (tries.clone(), stage.journal.clone());
    let spec = ChildSpec::new(ChildName::fixed("p"), "puppet", move |context| {
        let turn = counter.fetch_add(1, Ordering::SeqCst);
        let (name, journal) = (format!("p#{}", context.incarnation), journal.clone());
        async move {
            assert!(turn != 0, "the first start");
            let strings = Strings { name, journal, script: Arc::default(), status: context.status.clone() };
            let actor = context.spawn(Puppet, strings).await?;
            if turn == 1 { Err(StartError(ODD)) } else { Ok(Started::new(actor.get_cell())) }
        }
    });
    let root = stage.launch(one_for_one("e-start").child(spec.policy(policy()))).await;
    let node = running(root.handle(), "p", 3).await;
    assert_eq!(node.last_exit.unwrap().what, Exit::StartFailed(ODD), "the name was free again");
    root.stop();
    root.wait().await;
    assert_eq!(stage.journal.take().last().unwrap(), "down p#3");
}

#[tokio::test(start_paused = true)]
async fn the_hook_has_ended_before_the_successor_starts() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let root = stage.launch(one_for_one("e-hook").child(stage.with_hook(spec))).await;
    hand.tell(Order::Do(Deed::Panic));
    running(root.handle(), "p", 2).await;
    root.stop();
    root.wait().await;
    let expected =
        ["up p#1", "closed p#1 failed:panicked", "up p#2", "down p#2", "closed p#2 planned:shutdown"];
    assert_eq!(stage.journal.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_delays_nobody_else_and_counts_as_an_exit() {
    let stage = Stage::new();
    let (stuck, stuck_hand) = stage.puppet("stuck");
    let (well, well_hand) = stage.puppet("well");
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let stuck = stuck.on_exit(move |_| {
        let turn = counter.fetch_add(1, Ordering::SeqCst);
        async move {
            match turn {
                0 => std::future::pending().await,
                1 => panic!("in the hook"),
                2 => Recovery::Failed(ODD),
                _ => Recovery::Done,
            }
        }
    });
    let root = stage.launch(one_for_one("e-hang").child(stuck).child(well)).await;
    stuck_hand.tell(Order::Do(Deed::Fail));
    in_state(root.handle(), "stuck", ChildState::Recovering).await;
    well_hand.tell(Order::Do(Deed::Fail));
    running(root.handle(), "well", 2).await;
    assert_eq!(root.handle().snapshot().find("stuck").unwrap().state, ChildState::Recovering);
    let node = running(root.handle(), "stuck", 2).await;
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    assert_eq!(node.last_exit.unwrap().what, Exit::Failed(ReasonCode::RECOVERY_FAILED));
    let incidents = stage.notices.kinds().into_iter().filter_map(|kind| {
        let NoticeKind::Incident { code } = kind else { return None };
        Some(code)
    });
    assert_eq!(
        incidents.collect::<Vec<_>>(),
        [ReasonCode::TIMED_OUT, ReasonCode::PANICKED, ODD],
        "each failure of the hook is reported"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clean_up_that_must_wait_is_not_held_against_the_child() {
    let stage = Stage::new();
    let (spec, hand) = stage.puppet("p");
    let may = Arc::new(AtomicBool::new(false));
    let allowed = may.clone();
    let spec = spec.policy(policy().with_exits_max(1)).on_exit(move |_| {
        let allowed = allowed.load(Ordering::SeqCst);
        async move { if allowed { Recovery::Done } else { Recovery::Later(ODD) } }
    });
    let root = stage.launch(one_for_one("e-later").child(spec)).await;
    hand.tell(Order::Do(Deed::Fail));
    let waiting = root.handle().wait_until("p", |node| node.note == Some(ODD)).await;
    assert_eq!(waiting.state, ChildState::Recovering);
    assert!(waiting.next_start_at.unwrap().as_millis() > NOW);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(root.handle().snapshot().find("p").unwrap().state, ChildState::Recovering);
    may.store(true, Ordering::SeqCst);
    assert_eq!(running(root.handle(), "p", 2).await.note, None);
    assert_eq!(
        stage.notices.words(),
        ["e-later/p incident", "e-later/p restarted"],
        "one incident, not a flood"
    );
}

#[tokio::test(start_paused = true)]
async fn a_transient_child_that_is_done_stays_down_and_a_temporary_one_leaves() {
    let stage = Stage::new();
    let (transient, transient_hand) = stage.puppet("transient");
    let (temporary, temporary_hand) = stage.puppet("temporary");
    let transient = transient.policy(policy().with_restart(RestartType::Transient));
    let temporary = temporary.policy(policy().with_restart(RestartType::Temporary));
    let root = stage.launch(one_for_one("e-types").child(transient).child(temporary)).await;
    temporary_hand.tell(Order::Do(Deed::Panic));
    transient_hand.tell(Order::Do(Deed::Panic));
    running(root.handle(), "transient", 2).await;
    transient_hand.tell(Order::Finish);
    in_state(root.handle(), "transient", ChildState::Stopped).await;
    let tree = root.handle().snapshot();
    assert_eq!(tree.children.len(), 1, "a temporary child is taken out when it ends");
}
