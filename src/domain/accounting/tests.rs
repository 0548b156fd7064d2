mod unsent;

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::id::{ConsumerKey, RunId};
use crate::time::Timestamp;

/// An account as a list, summed up by looking at every row.
#[derive(Debug, Clone, Default)]
struct Rows(Vec<Entry>);

impl Books for Rows {
    type Error = Infallible;

    fn since(&mut self, from: Timestamp) -> Result<Tally, Infallible> {
        let counted = self.0.iter().filter(|entry| entry.reservation.at >= from);
        Ok(counted.fold(Tally::default(), |sum, entry| sum.plus(entry.tally())))
    }

    fn open(&mut self) -> Result<Vec<Open>, Infallible> {
        Ok(self.0.iter().filter_map(Entry::open).collect())
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn policy(reserve: Amounts, limits: Vec<Limit>) -> Policy {
    Policy { reserve, lease_ms: 120_000, limits, on_exhaustion: OnExhaustion::Defer }
}

fn amounts(calls: u64, tokens: u64) -> Amounts {
    Amounts { calls, input_tokens: tokens, output_tokens: tokens, cost_microusd: None }
}

fn calls(window: Window, most: u64) -> Limit {
    Limit { window, most: Ceiling { calls: Some(most), ..Ceiling::default() } }
}

fn entry(policy: &Policy, ms: i64, charge: Option<u64>) -> Entry {
    let consumer = ConsumerKey::parse("asks@1").unwrap();
    let reservation = Reservation {
        consumer,
        position: 1,
        attempt: 1,
        run: RunId::from_bytes([1; 20]),
        at: at(ms),
        lease_until: policy.lease_until(at(ms)),
        estimate: policy.reserve,
    };
    let settlement = charge.map(|tokens| Settlement {
        at: at(ms),
        settled: Settled::Charged(reservation.charge(&Measured {
            input_tokens: Some(tokens),
            output_tokens: Some(tokens),
            ..Measured::default()
        })),
    });
    Entry { reservation, settlement }
}

/// What counts at a moment, said without sums over time: each row by itself.
fn counts(entry: &Entry, window: Window, now: i64) -> bool {
    let made = entry.reservation.at.as_millis();
    let in_window = match window {
        Window::Rolling { ms } => now < made + i64::try_from(ms).unwrap(),
        Window::Hour => now / 3_600_000 <= made / 3_600_000,
        Window::Day => now / 86_400_000 <= made / 86_400_000,
    };
    in_window || (entry.settlement.is_none() && now < entry.reservation.lease_until.as_millis())
}

fn fits(policy: &Policy, entries: &[Entry], now: i64) -> bool {
    policy.limits.iter().all(|limit| {
        let counted = entries.iter().filter(|entry| counts(entry, limit.window, now));
        let used = counted.fold(Sums::default(), |sums, entry| sums.plus(entry.tally().used()));
        Dimension::ALL.into_iter().all(|dimension| {
            let asked = policy.reserve.get(dimension).unwrap_or(0);
            limit.most.get(dimension).is_none_or(|most| used.get(dimension) + asked <= most)
        })
    })
}

/// Every moment at which something can stop to count.
fn changes(policy: &Policy, entries: &[Entry], now: i64) -> Vec<i64> {
    let mut moments = vec![now];
    for entry in entries {
        moments.push(entry.reservation.lease_until.as_millis());
        for limit in &policy.limits {
            let made = entry.reservation.at.as_millis();
            moments.push(match limit.window {
                Window::Rolling { ms } => made + i64::try_from(ms).unwrap(),
                Window::Hour => (made / 3_600_000 + 1) * 3_600_000,
                Window::Day => (made / 86_400_000 + 1) * 86_400_000,
            });
        }
    }
    moments.retain(|moment| *moment >= now);
    moments.sort_unstable();
    moments
}

fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        (1_u64..200_000_000).prop_map(|ms| Window::Rolling { ms }),
        Just(Window::Hour),
        Just(Window::Day)
    ]
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let ceiling = (1_u64..6, proptest::option::of(100_u64..900));
    proptest::collection::vec((windows(), ceiling), 1..4).prop_map(|limits| {
        let limit = |(window, (calls, tokens))| Limit {
            window,
            most: Ceiling { calls: Some(calls), input_tokens: tokens, ..Ceiling::default() },
        };
        limits.into_iter().map(limit).collect()
    })
}

proptest! {
    /// The clock may stand before some rows: it may have been set back.
    #[test]
    fn a_denial_names_the_first_moment_at_which_one_reservation_fits(
        limits in limits(),
        rows in proptest::collection::vec((0_i64..300_000_000, proptest::option::of(0_u64..400)), 0..12),
        now in 0_i64..300_000_000,
    ) {
        let policy = policy(amounts(1, 100), limits);
        let entries: Vec<Entry> = rows.iter().map(|(ms, charge)| entry(&policy, *ms, *charge)).collect();
        let Ok(denial) = policy.deny(&mut Rows(entries.clone()), at(now));
        prop_assert_eq!(policy.deny(&mut imagined(&policy, &entries), at(now)), Ok(denial));
        prop_assert_eq!(denial.is_none(), fits(&policy, &entries, now));
        if let Some(denial) = denial {
            let first = changes(&policy, &entries, now).into_iter().find(|ms| fits(&policy, &entries, *ms));
            prop_assert_eq!(Some(denial.retry_at.as_millis()), first);
            prop_assert!(denial.used + denial.asked > denial.most);
        }
    }

    #[test]
    fn sums_never_wrap_and_taking_away_what_was_added_leaves_what_was(
        a in proptest::array::uniform4(0_u64..1 << 60), b in proptest::array::uniform4(0_u64..1 << 60)
    ) {
        let sums = |n: [u64; 4]| Sums { calls: n[0], input_tokens: n[1], output_tokens: n[2], cost_microusd: n[3] };
        prop_assert_eq!(sums(a).plus(sums(b)).minus(sums(b)), sums(a));
        let most = sums([u64::MAX; 4]);
        prop_assert_eq!(most.plus(sums(b)), most);
    }

    #[test]
    fn a_charge_is_never_free_and_never_below_an_estimate_that_was_not_measured(
        said in proptest::array::uniform3(proptest::option::of(prop_oneof![
            Just(0), 1_u64..1000, Just(TOKENS_MAX), Just(TOKENS_MAX + 1), Just(u64::MAX)
        ])),
        tracks_cost: bool,
        returned_text: bool,
    ) {
        let estimate = Amounts { cost_microusd: tracks_cost.then_some(50_000), ..amounts(1, 500) };
        let measured = Measured {
            input_tokens: said[0], output_tokens: said[1], cost_microusd: said[2], returned_text,
        };
        let mut reservation = entry(&policy(estimate, vec![]), 0, None).reservation;
        reservation.estimate = estimate;
        let charge = reservation.charge(&measured);
        prop_assert_eq!(charge.contradicts(&reservation), None);
        prop_assert_eq!(charge.amounts.calls, 1);
        prop_assert!(charge.amounts.input_tokens > 0);
        prop_assert!(charge.amounts.output_tokens > 0 || (said[1] == Some(0) && !returned_text));
        for dimension in &charge.estimated {
            prop_assert!(charge.amounts.get(*dimension) >= estimate.get(*dimension));
        }
        let json = serde_json::to_value(&charge).unwrap();
        prop_assert_eq!(json["amounts"].get("costMicrousd").is_some(), tracks_cost);
        prop_assert_eq!(serde_json::from_value::<Charge>(json).unwrap(), charge);
    }
}

#[test]
fn what_is_reported_replaces_the_estimate_in_that_dimension_alone() {
    let estimate = Amounts { cost_microusd: Some(50_000), ..amounts(1, 60_000) };
    let said = Measured { input_tokens: Some(1_200), ..Measured::default() };
    let charge = Charge::measured(&estimate, &said);
    assert_eq!(charge.amounts, Amounts { input_tokens: 1_200, ..estimate });
    assert_eq!(charge.status, UsageStatus::Partial);
    let both = Measured { output_tokens: Some(80), returned_text: true, ..said };
    assert_eq!(Charge::measured(&amounts(1, 60_000), &both).status, UsageStatus::Reported);
    assert_eq!(Charge::estimate(&estimate).status, UsageStatus::Estimated);
    assert_eq!(Charge::estimate(&estimate).amounts, estimate);
}

#[test]
fn usage_that_no_call_can_have_is_charged_as_the_most_one_can() {
    let said = Measured { input_tokens: Some(u64::MAX), output_tokens: Some(7), ..Measured::default() };
    let charge = Charge::measured(&amounts(1, 100), &said);
    assert_eq!((charge.amounts.input_tokens, charge.amounts.output_tokens), (TOKENS_MAX, 7));
    assert!(charge.estimated.contains(&Dimension::InputTokens));
}

#[test]
fn an_open_reservation_counts_in_the_next_hour_until_its_lease_ends() {
    let policy = policy(amounts(1, 10), vec![calls(Window::Hour, 1)]);
    let mut rows = Rows(vec![entry(&policy, 3_600_000 - 1, None)]);
    let denial = policy.deny(&mut rows, at(3_600_000)).unwrap().unwrap();
    assert_eq!(denial.retry_at, rows.0[0].reservation.lease_until);
    rows.0[0] = entry(&policy, 3_600_000 - 1, Some(10));
    assert_eq!(policy.deny(&mut rows, at(3_600_000)), Ok(None));
}

#[test]
fn a_limit_that_can_never_admit_is_looked_at_again_far_ahead() {
    let policy = policy(amounts(2, 10), vec![calls(Window::Day, 1)]);
    let denial = policy.deny(&mut Rows::default(), at(i64::MAX - 5)).unwrap().unwrap();
    assert_eq!(denial.retry_at.as_millis(), i64::MAX);
    let denial = policy.deny(&mut Rows::default(), at(0)).unwrap().unwrap();
    assert!(denial.retry_at > at(ROLLING_MS_MAX.cast_signed()));
}

fn codes(policy: &Policy) -> Vec<(&'static str, Place)> {
    policy.check(60_000).into_iter().map(|fault| (fault.code.as_str(), fault.place)).collect()
}

#[test]
fn a_sound_policy_has_no_fault() {
    let most = Ceiling {
        calls: Some(100),
        input_tokens: Some(100_000_000),
        output_tokens: Some(10_000_000),
        ..Ceiling::default()
    };
    let limits = [Window::Rolling { ms: 300_000 }, Window::Hour, Window::Day];
    let limits = limits.map(|window| Limit { window, most }).to_vec();
    assert_eq!(codes(&policy(Amounts { output_tokens: 2_000, ..amounts(1, 60_000) }, limits)), []);
}

#[test]
fn an_impossible_policy_is_refused_with_every_reason() {
    let cost = Ceiling { cost_microusd: Some(50), calls: Some(0), ..Ceiling::default() };
    let limits = vec![
        Limit { window: Window::Hour, most: cost },
        Limit { window: Window::Hour, most: Ceiling::default() },
        Limit {
            window: Window::Rolling { ms: 0 },
            most: Ceiling { input_tokens: Some(u64::MAX), ..Ceiling::default() },
        },
    ];
    let mut policy = policy(Amounts { input_tokens: u64::MAX, output_tokens: 0, ..amounts(1, 0) }, limits);
    policy.lease_ms = 60_000;
    let expected = [
        ("accounting.reserves-too-much", Place::Reserve(Dimension::InputTokens)),
        ("accounting.reserves-nothing", Place::Reserve(Dimension::OutputTokens)),
        ("accounting.lease-too-short", Place::Lease),
        ("accounting.admits-none", Place::Most(0, Dimension::Calls)),
        ("accounting.not-reserved", Place::Most(0, Dimension::CostMicrousd)),
        ("accounting.same-window", Place::Window(1)),
        ("accounting.empty-limit", Place::Limit(1)),
        ("accounting.bad-window", Place::Window(2)),
        ("accounting.limit-too-large", Place::Most(2, Dimension::InputTokens)),
    ];
    assert_eq!(codes(&policy), expected);
    policy.limits.clear();
    policy.lease_ms = u64::MAX;
    assert!(codes(&policy).contains(&("accounting.no-limit", Place::Limits)));
    assert!(codes(&policy).contains(&("accounting.lease-too-long", Place::Lease)));
    policy.limits = vec![calls(Window::Day, 9); LIMITS_MAX + 1];
    assert!(codes(&policy).contains(&("accounting.too-many-limits", Place::Limits)));
}

fn imagined(policy: &Policy, entries: &[Entry]) -> Imagined {
    let rows = entries.iter().map(|entry| (entry.reservation.at, entry.tally())).collect();
    Imagined::over(rows, entries.iter().filter_map(Entry::open).collect(), policy.reserve)
}

#[test]
fn calls_beyond_a_limit_wait_for_their_turn_or_are_passed() {
    let mut policy = policy(amounts(1, 10), vec![calls(Window::Rolling { ms: 1_000 }, 2)]);
    let entries = [entry(&policy, 500, Some(10))];
    let found = policy.simulate(imagined(&policy, &entries), at(900), 4);
    let steps = [(900, 1), (1_500, 1), (1_900, 1), (2_500, 1)];
    assert_eq!(found.steps, steps.map(|(ms, calls)| Step { at: at(ms), calls }));
    assert_eq!(found.denial.unwrap().retry_at, at(1_500));
    policy.on_exhaustion = OnExhaustion::Advance;
    let found = policy.simulate(imagined(&policy, &entries), at(900), 4);
    assert_eq!((found.steps.len(), found.passed), (1, 3));
    let none = policy.simulate(imagined(&policy, &[]), at(900), 2);
    assert_eq!((none.steps, none.denial), (vec![Step { at: at(900), calls: 2 }], None));
}
