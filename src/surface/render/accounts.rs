//! Accounts as text.

use thoughtstream_domain::accounting::{Amounts, Dimension, OnExhaustion, Step, Sums};
use thoughtstream_domain::time::Timestamp;

use super::consumers::next;
use super::{Rows, age, count};
use crate::query::accounts::{Account, Declared, Simulated, Spent};

/// The most steps of a simulation that are shown one by one.
const STEPS_MAX: usize = 20;

/// Renders accounts, one a line.
#[must_use]
pub fn list(accounts: &[Account], now: Timestamp) -> String {
    if accounts.is_empty() {
        return "no accounts: no declaration asks a model, and none has\n".to_owned();
    }
    let heads = [
        "ACCOUNT",
        "STATE",
        "NEXT",
        "OPEN",
        "WAITING",
        "CALLS",
        "INPUT",
        "OUTPUT",
        "COST",
        "ESTIMATED",
        "NOT SENT",
    ];
    let mut rows = Rows::new(&heads);
    for column in 3..heads.len() {
        rows = rows.numbers(column);
    }
    for account in accounts {
        let used = &account.ever.used;
        rows.row(&[
            account.account.to_string(),
            account.state.as_str().to_owned(),
            next(account.denial.map(|denial| denial.retry_at), now),
            account.open.to_string(),
            account.waiting.to_string(),
            used.calls.to_string(),
            used.input_tokens.to_string(),
            used.output_tokens.to_string(),
            cost(used.cost_microusd),
            share(&account.ever),
            account.ever.not_sent.to_string(),
        ]);
    }
    rows.text()
}

/// Renders one account with its windows, leases and what waits for it.
#[must_use]
pub fn show(account: &Account, now: Timestamp) -> String {
    let mut lines = vec![format!("account    {}", account.account)];
    lines.push(format!("declared   {}", account.declared.as_ref().map_or_else(|| "-".to_owned(), declared)));
    let state = account.state.as_str();
    lines.push(match &account.denial {
        None => format!("state      {state}"),
        Some(denial) => {
            let (used, most, dimension, window) =
                (denial.used, denial.most, denial.dimension, denial.window);
            let asked = denial.asked;
            let when = next(Some(denial.retry_at), now);
            format!(
                "state      {state}: {used} of {most} {dimension} are used in {window}, a call needs {asked}; \
                 the next fits {when}"
            )
        }
    });
    if account.waiting > 0 {
        let first = account.waits.first().map(|wait| wait.at);
        let what = count(account.waiting as u64, "execution");
        lines.push(format!("waiting    {what} for budget, the first goes on {}", next(first, now)));
    }
    if account.ever.not_sent > 0 {
        let what = count(account.ever.not_sent, "attempt");
        lines.push(format!("not sent   {what} at all times: what they had reserved was given back"));
    }
    let mut text = lines.join("\n") + "\n\n";
    let heads = ["WINDOW", "OF", "USED", "MOST", "RESERVED", "REPORTED", "ESTIMATED", "FITS"];
    let mut rows = Rows::new(&heads);
    for column in 2..heads.len() {
        rows = rows.numbers(column);
    }
    for window in &account.windows {
        for dimension in Dimension::ALL {
            let Some(most) = window.most.get(dimension) else { continue };
            let fits = window.fits.to_string();
            rows.row(&spent(window.window.to_string(), dimension, &window.spent, most.to_string(), fits));
        }
    }
    for dimension in Dimension::ALL {
        if dimension == Dimension::CostMicrousd && account.ever.used.cost_microusd == 0 {
            continue;
        }
        rows.row(&spent("ever".to_owned(), dimension, &account.ever, "-".to_owned(), "-".to_owned()));
    }
    text.push_str(&rows.text());
    if account.leases.is_empty() {
        return text;
    }
    let mut rows = Rows::new(&["OPEN", "CONSUMER", "MADE", "LEASE ENDS", "HOLDS"]);
    for lease in &account.leases {
        rows.row(&[
            lease.run.to_string(),
            lease.consumer.to_string(),
            age(lease.at, now),
            if lease.until <= now { "ended".to_owned() } else { age(lease.until, now) },
            amounts(&lease.estimate),
        ]);
    }
    text.push('\n');
    text.push_str(&rows.text());
    let more = account.open - account.leases.len();
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    text
}

/// Renders what would happen to the next calls.
#[must_use]
pub fn simulated(simulated: &Simulated) -> String {
    let now = simulated.at;
    let steps = &simulated.simulation.steps;
    let at_once: u32 = steps.iter().filter(|step| step.at <= now).map(|step| step.calls).sum();
    let mut lines = vec![
        format!("account    {}", simulated.account),
        format!("declared   {}", declared(&simulated.declared)),
        format!("calls      {at_once} of {} at once", simulated.calls),
    ];
    if simulated.not_sent > 0 {
        let what = count(simulated.not_sent, "attempt");
        lines.push(format!("not sent   {what} in the longest window, which count in none"));
    }
    if let Some(denial) = &simulated.simulation.denial {
        lines.push(format!("limit      {denial}"));
    }
    let later: Vec<&Step> = steps.iter().filter(|step| step.at > now).collect();
    for step in later.iter().take(STEPS_MAX) {
        lines.push(format!("later      {} {} ({})", step.calls, next(Some(step.at), now), step.at));
    }
    if let Some((last, more)) = later.get(STEPS_MAX..).and_then(<[&Step]>::split_last) {
        let calls: u32 = more.iter().map(|step| step.calls).sum::<u32>() + last.calls;
        lines.push(format!("later      {calls} more, the last {} ({})", next(Some(last.at), now), last.at));
    }
    if simulated.simulation.passed > 0 {
        let passed = simulated.simulation.passed;
        lines
            .push(format!("passed     {passed} would not be made: the declaration passes what does not fit"));
    }
    lines.join("\n") + "\n"
}

fn declared(declared: &Declared) -> String {
    let enabled = if declared.enabled { "" } else { ", not enabled" };
    let lease =
        super::age(Timestamp::from_millis(0), Timestamp::from_millis(declared.lease_ms.cast_signed()));
    let then = match declared.on_exhaustion {
        OnExhaustion::Advance => "then passes events",
        OnExhaustion::Defer => "then waits",
    };
    format!("{}{enabled}: reserves {} for {lease}, {then}", declared.consumer, amounts(&declared.reserve))
}

fn amounts(amounts: &Amounts) -> String {
    let Amounts { calls, input_tokens, output_tokens, cost_microusd } = *amounts;
    let tokens = format!("{}, {input_tokens} in, {output_tokens} out", count(calls, "call"));
    match cost_microusd {
        None => tokens,
        Some(cost_microusd) => format!("{tokens}, {}", cost(cost_microusd)),
    }
}

fn spent(window: String, dimension: Dimension, spent: &Spent, most: String, fits: String) -> [String; 8] {
    let amount = |sums: &Sums| sums.get(dimension).to_string();
    let Spent { used, reserved, reported, estimated, .. } = spent;
    let of = dimension.as_str().to_owned();
    [window, of, amount(used), most, amount(reserved), amount(reported), amount(estimated), fits]
}

/// Writes an amount of micro-dollars in dollars, exactly.
fn cost(microusd: u64) -> String {
    if microusd == 0 {
        return "-".to_owned();
    }
    let text = format!("{}.{:06}", microusd / 1_000_000, microusd % 1_000_000);
    let trimmed = text.trim_end_matches('0');
    let digits = trimmed.len().max(text.len() - 4);
    format!("${}", &text[..digits])
}

/// Says how much of the charged tokens stands at its estimate.
fn share(spent: &Spent) -> String {
    let tokens = |sums: &Sums| u128::from(sums.input_tokens) + u128::from(sums.output_tokens);
    let (estimated, charged) = (tokens(&spent.estimated), tokens(&spent.charged));
    (estimated * 100).checked_div(charged).map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
}

#[cfg(test)]
mod tests;
