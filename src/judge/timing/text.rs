//! How a time is said: a title, a hint, a line of the command line, and the long text of a hover.

use std::fmt::Write;

use super::outcome::differ;
use super::{Against, Bound, Change, Estimate, NoTiming, NoTimingCode, Subject, Timing};

/// Significant figures of a time.
const FIGURES: i32 = 3;
/// Units of time, each with its length in µs, the largest first.
const UNITS: [(&str, f64); 4] = [("s", 1e6), ("ms", 1e3), ("µs", 1.0), ("ns", 1e-3)];

/// `1.83× torch (412 ± 3 µs · f16 4096×4096 · 91 % of a copy of these bytes)`.
pub fn title(timing: &Timing) -> String {
    let (head, interval) = headline(timing);
    let mut parts: Vec<String> = interval.into_iter().collect();
    let time = time_with_error(&timing.latency.cold_us);
    if head.is_some() {
        parts.push(time.clone());
    }
    parts.push(timing.subject.label());
    parts.extend(what_holds_it_down(timing));
    if timing.is_disturbed {
        parts.push("disturbed".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    format!("{} ({})", head.unwrap_or(time), parts.join(" · "))
}

/// The short title, for the end of a line of code: `1.83× torch · 412 µs`, with the first sure change.
pub fn hint(timing: &Timing) -> String {
    let mut parts: Vec<String> = headline(timing).0.into_iter().collect();
    parts.push(time(timing.latency.cold_us.median));
    parts.extend(timing.changes.first().map(change));
    parts.join(" · ")
}

/// One line for the command line: the title, behind it what it rests on and what changed.
pub fn line(timing: &Timing) -> String {
    let mut parts = vec![format!("{}: {}", timing.subject.entry, title(timing))];
    // A title that claims no speedup has the interval already.
    let claimed = timing.speedup.filter(|speedup| !speedup.cold.contains(1.0));
    parts.extend(claimed.map(|speedup| format!("{} (95 %)", ratio_range(&speedup.cold))));
    parts.push(format!("{} {}", timing.n, if timing.speedup.is_some() { "pairs" } else { "samples" }));
    parts.push(timing.gpu.name.clone());
    parts.extend(timing.changes.iter().map(change));
    parts.extend(timing.baseline_failed.as_ref().map(|why| format!("no speedup: {}", one_line(why))));
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// `12 % slower than the last save`.
pub fn change(change: &Change) -> String {
    let against = match change.against {
        Against::LastSave => "the last save",
        Against::Head => "HEAD",
    };
    let share = (change.ratio - 1.0).abs() * 100.0;
    let word = if change.ratio > 1.0 { "slower" } else { "faster" };
    format!("{} % {word} than {against}", figures(share, 2))
}

/// Why a time is missing: `no GPU here`, `not timed: …`.
pub fn not_timed(missing: &NoTiming) -> String {
    let what = missing.subject.as_ref().map(|subject| format!(" {}", named(subject))).unwrap_or_default();
    match missing.code {
        NoTimingCode::NoGpu => "no GPU here".to_owned(),
        _ => format!("not timed{what}: {}", one_line(&missing.why)),
    }
}

/// `softmax f16 4096×4096`.
fn named(subject: &Subject) -> String {
    let parts = [subject.entry.clone(), subject.label()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The speedup and, where it is none, the interval that says so.
fn headline(timing: &Timing) -> (Option<String>, Option<String>) {
    let (Some(baseline), Some(speedup)) = (&timing.baseline, &timing.speedup) else { return (None, None) };
    if speedup.cold.contains(1.0) {
        return (Some(format!("≈ {baseline}")), Some(ratio_range(&speedup.cold)));
    }
    (Some(format!("{}× {baseline}", ratio(speedup.cold.median))), None)
}

/// `91 % of a copy of these bytes`, `71 % of the float16 peak`, `host-bound`.
fn what_holds_it_down(timing: &Timing) -> Vec<String> {
    let host = "host-bound".to_owned();
    // The time is the host's and says nothing of the GPU.
    if timing.is_host_bound && !timing.is_of_graph() {
        return vec![host];
    }
    let share = match (&timing.roofline, &timing.share_of_copy) {
        (Some(roofline), _) => Some(format!("{} of {}", percent(roofline.share.median), roofline.limit)),
        (None, Some(share)) => Some(format!("{} of a copy of these bytes", percent(share.median))),
        (None, None) => None,
    };
    share.into_iter().chain(timing.is_host_bound.then(|| format!("{host} without a graph"))).collect()
}

/// The long text of a hover, in Markdown: every time with its interval, the roofline by shape, what it rests on, and
/// what was not timed. Empty when there is nothing to say.
pub fn long(timings: &[Timing], not_timed: &[NoTiming]) -> String {
    let mut text = String::new();
    if !timings.is_empty() {
        write_times(&mut text, timings);
        write_warm(&mut text, timings);
        write_roofline(&mut text, timings);
        write_notes(&mut text, timings);
        write_circumstances(&mut text, timings);
    }
    for missing in not_timed {
        let _ = writeln!(text, "\n{}", capitalised(&self::not_timed(missing)));
    }
    text
}

fn write_times(text: &mut String, timings: &[Timing]) {
    text.push_str("\n| timed | kernel | against | baseline | times as fast (95 %) | n |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for timing in timings {
        let baseline = timing.baseline_latency.map(|latency| time_with_error(&latency.cold_us));
        let speedup = timing
            .speedup
            .map(|speedup| format!("{}× ({})", ratio(speedup.cold.median), ratio_range(&speedup.cold)));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            cell(&timing.subject.label()),
            time_with_error(&timing.latency.cold_us),
            cell(timing.baseline.as_deref().unwrap_or("nothing")),
            baseline.unwrap_or_else(not_measured),
            speedup.unwrap_or_else(not_measured),
            timing.n,
        );
    }
}

/// Both figures where calls that follow one another are another matter.
fn write_warm(text: &mut String, timings: &[Timing]) {
    for timing in timings {
        let cold = timing.latency.cold_us;
        let Some(warm) = timing.latency.warm_us.filter(|warm| differ(cold.median, warm.median)) else {
            continue;
        };
        let speedup = timing.speedup.and_then(|speedup| speedup.warm).zip(timing.baseline.as_ref());
        let speedup = speedup
            .map(|(warm, baseline)| format!(", {}× {baseline} ({})", ratio(warm.median), ratio_range(&warm)));
        let _ = writeln!(
            text,
            "\n{}: {} with L2 flushed before each call, {} right after another call{}",
            timing.subject.label(),
            time_with_error(&cold),
            time_with_error(&warm),
            speedup.unwrap_or_default(),
        );
    }
}

fn write_roofline(text: &mut String, timings: &[Timing]) {
    let mut shown: Vec<&Subject> = Vec::new();
    for timing in timings.iter().filter(|timing| timing.roofline.is_some() || timing.share_of_copy.is_some())
    {
        // The same kernel against another baseline has the same roofline.
        if shown.contains(&&timing.subject) {
            continue;
        }
        if shown.is_empty() {
            text.push_str("\n| roofline | FLOP/byte | ridge | bound by | limit | allows | share |\n");
            text.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
        }
        shown.push(&timing.subject);
        let _ = writeln!(
            text,
            "| {} | {} |",
            cell(&timing.subject.label()),
            roofline_cells(timing).map(|column| cell(&column)).join(" | ")
        );
    }
}

fn roofline_cells(timing: &Timing) -> [String; 6] {
    let of_share = |share: &Estimate| {
        format!("{} ({:.0}–{:.0})", percent(share.median), share.low * 100.0, share.high * 100.0)
    };
    let Some(roofline) = &timing.roofline else {
        let share = timing.share_of_copy.as_ref();
        let allows = share.map(|share| time(share.median * timing.latency.cold_us.median));
        let unknown = || "unknown".to_owned();
        return [
            unknown(),
            unknown(),
            unknown(),
            "a copy of these bytes".to_owned(),
            allows.unwrap_or_else(unknown),
            share.map_or_else(unknown, of_share),
        ];
    };
    let bound = match roofline.bound {
        Bound::Memory => "memory",
        Bound::Compute => "compute",
    };
    [
        figures(roofline.intensity, FIGURES),
        figures(roofline.ridge, FIGURES),
        bound.to_owned(),
        roofline.limit.clone(),
        time(roofline.limit_us),
        of_share(&roofline.share),
    ]
}

/// What a reader must know of each time; a sentence that holds for several is told once.
fn write_notes(text: &mut String, timings: &[Timing]) {
    let mut notes: Vec<String> = Vec::new();
    for timing in timings {
        let label = timing.subject.label();
        let own = |sentence: String| if label.is_empty() { sentence } else { format!("{label}: {sentence}") };
        let mut of_timing: Vec<String> = timing.changes.iter().map(|found| own(long_change(found))).collect();
        if let Some(why) = &timing.baseline_failed {
            let baseline = timing.baseline.as_deref().unwrap_or("a baseline");
            of_timing.push(own(format!("no time of {baseline}: {}", one_line(why))));
        }
        if timing.is_host_bound {
            let host = time(timing.host_us);
            let when =
                if timing.is_of_graph() { "without a graph the GPU would wait" } else { "the GPU waits" };
            of_timing.push(own(format!("{when} for the host, where a call takes {host}")));
        }
        if !timing.graph_refused.is_empty() {
            of_timing.push(own(format!("not replayed as a CUDA graph: {}", one_line(&timing.graph_refused))));
        }
        of_timing.extend(timing.conditions.iter().map(|sentence| one_line(sentence)));
        for note in of_timing {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
}

fn long_change(found: &Change) -> String {
    format!(
        "{} (time ratio {}–{}; of two runs, so not by pairs)",
        change(found),
        ratio(found.low),
        ratio(found.high)
    )
}

/// GPU, versions and method: of the first time, and of each later one that differs.
fn write_circumstances(text: &mut String, timings: &[Timing]) {
    let mut told: Vec<String> = Vec::new();
    let has_pairs = timings.iter().any(|timing| timing.speedup.is_some());
    for timing in timings {
        let line = circumstances(timing, has_pairs);
        if !told.contains(&line) {
            let _ = writeln!(text, "\n{line}");
            told.push(line);
        }
    }
}

fn circumstances(timing: &Timing, has_pairs: bool) -> String {
    let versions = [
        ("driver", &timing.versions.driver),
        ("CUDA", &timing.versions.cuda),
        ("torch", &timing.versions.torch),
        ("triton", &timing.versions.triton),
    ];
    let mut parts = vec![timing.gpu.name.clone()];
    parts.extend(versions.iter().filter_map(|(name, version)| Some(format!("{name} {}", version.as_ref()?))));
    parts.push(
        if timing.is_of_graph() { "a CUDA graph of several calls" } else { "CUDA events around each call" }
            .to_owned(),
    );
    parts.push("L2 flushed before each call".to_owned());
    parts.push("medians with 95 % bootstrap intervals".to_owned());
    if has_pairs {
        parts.push("times as fast by interleaved pairs".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

fn not_measured() -> String {
    "n/a".to_owned()
}

/// `412 ± 3 µs`: the error has the decimals of the time, or one figure where it would be 0.
pub fn time_with_error(estimate: &Estimate) -> String {
    let (unit, length) = unit(estimate.median);
    let value = estimate.median / length;
    let decimals = decimals(value, FIGURES);
    let half = estimate.half_width() / length;
    let written = format!("{half:.decimals$}");
    let error = if half > 0.0 && written.parse() == Ok(0.0) { figures(half, 1) } else { written };
    format!("{value:.decimals$} ± {error} {unit}")
}

/// `412 µs`, `3.07 ms`: three significant figures.
pub fn time(us: f64) -> String {
    let (unit, length) = unit(us);
    format!("{} {unit}", figures(us / length, FIGURES))
}

/// The largest unit of which a time has one, after rounding to [`FIGURES`].
fn unit(us: f64) -> (&'static str, f64) {
    let has_one = |(_, length): &(&str, f64)| us / length >= 1.0 - 0.5 * 10_f64.powi(-FIGURES);
    UNITS.into_iter().find(has_one).unwrap_or(UNITS[UNITS.len() - 1])
}

/// Decimals that leave this many significant figures, none of a large value.
fn decimals(value: f64, figures: i32) -> usize {
    if !(value.is_finite() && value != 0.0) {
        return 0;
    }
    // Rounding may make a figure more of it: 9.996 is 10.0.
    let digits = |value: f64| value.abs().log10().floor() as i32 + 1;
    let scale = 10_f64.powi(figures - digits(value));
    let rounded = (value * scale).round() / scale;
    usize::try_from(figures - digits(rounded)).unwrap_or(0)
}

fn figures(value: f64, figures: i32) -> String {
    let decimals = decimals(value, figures);
    format!("{value:.decimals$}")
}

/// `1.83`, `0.662`, `12.4`: a ratio to three figures, but never more than two decimals above a half.
fn ratio(value: f64) -> String {
    let decimals = decimals(value, FIGURES).min(if value >= 0.1 { 2 } else { 4 });
    format!("{value:.decimals$}")
}

/// `0.99–1.02×`.
fn ratio_range(estimate: &Estimate) -> String {
    format!("{}–{}×", ratio(estimate.low), ratio(estimate.high))
}

fn percent(share: f64) -> String {
    format!("{} %", if share < 0.1 { figures(share * 100.0, 2) } else { format!("{:.0}", share * 100.0) })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Text that cannot break a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
