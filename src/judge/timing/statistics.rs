//! Medians, and how far they can be trusted: percentile bootstrap, the same for the same seed.
//!
//! Source: Efron, Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13 (percentile interval). A median,
//! because a sample that an interrupt or another process lengthened must not move the figure. A ratio is taken pair by
//! pair and not of two medians: a clock that drifts slows both samples of a pair alike, and their ratio stays.

use serde::{Deserialize, Serialize};

use crate::judge::philox::Draws;

/// Resamples of a bootstrap: enough that the ends of a 95 % interval move by far less than its width.
pub const RESAMPLES: usize = 2_000;
/// What is left out at either end of the resampled medians.
const TAIL: f64 = 0.025;

/// A median with its 95 % interval, in the unit of what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// A figure that came without an interval: taken as exact.
    pub fn exact(value: f64) -> Self {
        Self { median: value, low: value, high: value }
    }

    /// Half of the interval's width: what stands behind `±`.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// All three times `factor`, which is positive.
    pub fn scaled(&self, factor: f64) -> Self {
        Self { median: self.median * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// The middle value, or the mean of the two middle ones; `None` of nothing and of what is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values)?;
    Some(middle(&sorted))
}

/// The median with its 95 % interval. `None` of nothing and of what is not finite.
pub fn median_interval(values: &[f64], seed: u64) -> Option<Estimate> {
    let sorted = sorted(values)?;
    let mut medians = resampled_medians(&sorted, &mut Draws::new(seed, "bootstrap"));
    Some(interval(middle(&sorted), &mut medians))
}

/// How many times faster the candidate is: the median of `baseline[i] / candidate[i]`. `None` of nothing, of sides of
/// unlike length, and where a time is not positive.
pub fn paired_ratio(baseline: &[f64], candidate: &[f64], seed: u64) -> Option<Estimate> {
    let is_time = |time: &f64| *time > 0.0;
    if baseline.len() != candidate.len() || !baseline.iter().chain(candidate).all(is_time) {
        return None;
    }
    let ratios: Vec<f64> = baseline.iter().zip(candidate).map(|(baseline, own)| baseline / own).collect();
    median_interval(&ratios, seed)
}

/// `numerator / denominator` of two medians whose samples were not taken in pairs, such as those of two saves. Each
/// interval's half widths are added in quadrature on a logarithmic scale, as for independent errors: the product of
/// two log-normal spreads is log-normal, and its variance is the sum of theirs. `None` unless all figures are positive.
pub fn independent_ratio(numerator: &Estimate, denominator: &Estimate) -> Option<Estimate> {
    let figures = [numerator, denominator].map(|side| [side.low, side.median, side.high]);
    if !figures.iter().flatten().all(|figure| figure.is_finite() && *figure > 0.0) {
        return None;
    }
    let up = (numerator.high / numerator.median).ln().hypot((denominator.median / denominator.low).ln());
    let down = (numerator.median / numerator.low).ln().hypot((denominator.high / denominator.median).ln());
    let ratio = numerator.median / denominator.median;
    Some(Estimate { median: ratio, low: ratio * (-down).exp(), high: ratio * up.exp() })
}

/// The distance of the quartiles over the median: how much samples differ. `None` of nothing and of a median of 0.
pub fn relative_spread(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values)?;
    let middle = middle(&sorted);
    (middle != 0.0).then(|| (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / middle.abs())
}

/// Ascending; `None` of nothing and of what is not finite.
fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The median of ascending values, of which there is one at least.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    // Halved before they are added: the sum of two large values need not be finite.
    if sorted.len() % 2 == 1 { sorted[half] } else { sorted[half - 1] / 2.0 + sorted[half] / 2.0 }
}

/// Between the two nearest of ascending values, of which there is one at least.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

/// Medians of [`RESAMPLES`] draws with replacement. Which values were drawn is counted, so that each median takes one
/// walk over the sorted values and no sort.
fn resampled_medians(sorted: &[f64], draws: &mut Draws) -> Vec<f64> {
    let count = sorted.len();
    let mut drawn = vec![0_u32; count];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.fill(0);
        let mut left = count;
        while left > 0 {
            for word in draws.next_words().into_iter().take(left) {
                // Multiply and shift: uneven by less than the count over 2³².
                drawn[((u64::from(word) * count as u64) >> 32) as usize] += 1;
                left -= 1;
            }
        }
        medians.push(middle_of_drawn(sorted, &drawn));
    }
    medians
}

/// The median of the values that `drawn` counts.
fn middle_of_drawn(sorted: &[f64], drawn: &[u32]) -> f64 {
    let count = sorted.len();
    let (lower, upper) = ((count - 1) / 2, count / 2);
    let (mut seen, mut low) = (0, None);
    for (value, times) in sorted.iter().zip(drawn) {
        seen += *times as usize;
        if seen > lower && low.is_none() {
            low = Some(*value);
        }
        if seen > upper {
            return if lower == upper { *value } else { low.unwrap_or(*value) / 2.0 + *value / 2.0 };
        }
    }
    sorted[count - 1]
}

fn interval(median: f64, medians: &mut [f64]) -> Estimate {
    medians.sort_by(f64::total_cmp);
    let cut = (TAIL * medians.len() as f64) as usize;
    let (low, high) = (medians[cut], medians[medians.len() - 1 - cut]);
    Estimate { median, low: low.min(median), high: high.max(median) }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
