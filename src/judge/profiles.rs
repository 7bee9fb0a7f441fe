//! The value profiles of the stability stage by name, and what they mean for one dtype.

use crate::spec::{Definition, Dtype, Profile};

/// A profile of the stability stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueProfile {
    pub(super) name: &'static str,
    /// Whether all values are finite. Others are tried only where the Definition names them.
    pub(super) is_finite: bool,
    of: fn(Dtype) -> Profile,
}

const ALL: [ValueProfile; 13] = [
    finite("heavy-tails", |_| Profile::HeavyTails),
    finite("mixed-scale", |_| Profile::MixedScale),
    finite("large", |dtype| Profile::Scaled { exponent: large_exponent(dtype) }),
    finite("subnormal", |dtype| Profile::Scaled { exponent: subnormal_exponent(dtype) }),
    finite("signed-zeros", |_| Profile::SignedZeros),
    finite("ties", |_| Profile::Ties),
    finite("one-hot", |_| Profile::OneHot),
    finite("equal", |_| Profile::Equal),
    finite("offset", |_| Profile::Offset),
    finite(EXACT_INTEGERS, |_| Profile::ExactIntegers),
    non_finite("negative-infinity-rows", |_| Profile::NegativeInfinityRows),
    non_finite("infinity", |_| Profile::Infinity),
    non_finite("nan", |_| Profile::Nan),
];

/// In a Definition's list: all finite profiles.
const FINITE: &str = "finite";
/// The profile on which every float input is a small whole number, so that linear operations are exact.
pub(super) const EXACT_INTEGERS: &str = "exact-integers";

const fn finite(name: &'static str, of: fn(Dtype) -> Profile) -> ValueProfile {
    ValueProfile { name, is_finite: true, of }
}

const fn non_finite(name: &'static str, of: fn(Dtype) -> Profile) -> ValueProfile {
    ValueProfile { name, is_finite: false, of }
}

impl ValueProfile {
    pub(super) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|profile| profile.name == name)
    }

    pub(super) fn in_dtype(self, dtype: Dtype) -> Profile {
        (self.of)(dtype)
    }
}

/// The profiles of a Definition: those that it names (`finite` names them all), else all finite ones. Second: names of which nobody
/// knows what they mean.
pub(super) fn of(definition: &Definition) -> (Vec<ValueProfile>, Vec<&str>) {
    let named = &definition.extras.profiles;
    if named.is_empty() {
        return (ALL.into_iter().filter(|profile| profile.is_finite).collect(), Vec::new());
    }
    let is_unknown = |name: &&str| *name != FINITE && ValueProfile::named(name).is_none();
    let unknown = named.iter().map(String::as_str).filter(is_unknown);
    let known = ALL.into_iter().filter(|profile| {
        named.iter().any(|name| name == profile.name || (name == FINITE && profile.is_finite))
    });
    (known.collect(), unknown.collect())
}

/// The power of two by which values of size 1 become as large as squares and long sums in float32 allow
/// (float32, bfloat16), or near the largest value of a narrow dtype.
fn large_exponent(dtype: Dtype) -> i32 {
    match dtype {
        Dtype::Float16 => 11,
        Dtype::Float8E4m3fn => 4,
        Dtype::Float8E5m2 => 8,
        _ => 50,
    }
}

/// The power of two by which values of size 1 become subnormal in the dtype.
fn subnormal_exponent(dtype: Dtype) -> i32 {
    match dtype {
        Dtype::Float16 => -17,
        Dtype::Float8E4m3fn => -7,
        Dtype::Float8E5m2 => -15,
        _ => -130,
    }
}
