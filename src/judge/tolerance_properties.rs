//! The error model against simulated runs: honest float32 sums in any order are accepted, sums from coarser inputs
//! or with a narrow accumulator are not. (`tests/worker/test_error_model.py` does the same with PyTorch's own values
//! and the real comparison.)

use super::*;

/// Uniform draws from a seed (SplitMix64: millions of them are needed).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn unit(&mut self) -> f64 {
        self.next() as f64 / 2.0_f64.powi(64)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.unit() * choices.len() as f64) as usize]
    }

    /// Evenly over the orders of magnitude.
    fn over_magnitudes(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// The sum of four uniform numbers, as the judge draws its inputs.
    fn normal(&mut self) -> f64 {
        let word = self.next();
        let sum: u64 = (0..4).map(|part| (word >> (16 * part)) & 0xFFFF).sum();
        (sum as f64 - 131_070.0) / 37_837.0
    }
}

/// To `bits` explicit bits of mantissa, to nearest, ties to even.
fn rounded(value: f64, bits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = ((value.abs().to_bits() >> 52) as i32) - 1023;
    let step = 2.0_f64.powi(exponent - bits);
    (value / step).round_ties_even() * step
}

fn bits_of(dtype: Dtype) -> i32 {
    match dtype {
        Dtype::Float32 => 23,
        Dtype::Float16 => 10,
        Dtype::Bfloat16 => 7,
        other => panic!("{other} has no simulation"),
    }
}

/// How a kernel adds up the products of one element.
#[derive(Clone, Copy, Debug)]
enum Order {
    Forward,
    Backward,
    /// Chunks of this many, whose sums are added one after another.
    Chunks(usize),
    Pairwise,
    /// Every product added with a single rounding.
    Fused,
}

/// Factors of the products that are added up for one element.
type Terms = Vec<(f32, f32)>;

fn sum_of(terms: &[(f32, f32)], order: Order) -> f32 {
    let product = |&(left, right): &(f32, f32)| left * right;
    match order {
        Order::Forward => terms.iter().map(product).sum(),
        Order::Backward => terms.iter().rev().map(product).sum(),
        Order::Chunks(size) => terms.chunks(size).map(|chunk| chunk.iter().map(product).sum::<f32>()).sum(),
        Order::Fused => terms.iter().fold(0.0, |total, &(left, right)| left.mul_add(right, total)),
        Order::Pairwise => match terms {
            [] => 0.0,
            [one] => product(one),
            _ => {
                let (left, right) = terms.split_at(terms.len() / 2);
                sum_of(left, order) + sum_of(right, order)
            }
        },
    }
}

/// What PyTorch does on a CPU, about: blocks of a few vectors, their sums in pairs.
fn torch_sum(terms: &[(f32, f32)]) -> f32 {
    let lanes: Vec<f32> = (0..8)
        .map(|lane| terms.iter().skip(lane).step_by(8).map(|&(left, right)| left * right).sum::<f32>())
        .collect();
    lanes.chunks(2).map(|pair| pair.iter().sum::<f32>()).sum()
}

/// What the products that are added up have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signs {
    /// They cancel, as those of the inputs that the judge draws.
    Mixed,
    /// They have a mean, so that the sum grows with its length.
    Leaning,
}

/// One row of an output: each element the sum of `length` products.
struct Row {
    dtype: Dtype,
    terms: Vec<Terms>,
    expected: Vec<f64>,
    in_dtype: Vec<f64>,
    /// How far a relative 2⁻²³ of the inputs moves the row, as the worker measures it on small outputs.
    condition: f64,
    told: String,
}

impl Row {
    fn draw(numbers: &mut Numbers, dtype: Dtype, signs: Signs, width: usize, length: usize) -> Self {
        let scale = numbers.over_magnitudes(1e-6, 1e6);
        let mean = if signs == Signs::Mixed { 0.0 } else { numbers.one_of(&[0.5, 3.0]) };
        let mut value = |scale: f64| rounded((numbers.normal() + mean) * scale, bits_of(dtype)) as f32;
        let terms: Vec<Terms> =
            (0..width).map(|_| (0..length).map(|_| (value(scale), value(1.0))).collect()).collect();
        let exact = |terms: &Terms| {
            terms.iter().map(|&(left, right)| f64::from(left) * f64::from(right)).sum::<f64>()
        };
        let expected: Vec<f64> = terms.iter().map(exact).collect();
        let in_dtype =
            terms.iter().map(|terms| rounded(f64::from(torch_sum(terms)), bits_of(dtype))).collect();
        let told = format!("{width} {dtype} sums of {length} terms around {mean}, scale {scale:.1e}");
        let mut row = Self { dtype, terms, expected, in_dtype, condition: 0.0, told };
        if row.is_small() {
            row.condition = row.measured_condition(numbers);
        }
        row
    }

    /// Lengths from `shortest` to 16384, evenly over the orders of magnitude.
    fn of_any_length(numbers: &mut Numbers, dtype: Dtype, signs: Signs, shortest: f64) -> Self {
        let length = numbers.over_magnitudes(shortest, 16_384.0).round() as usize;
        let width = if length > 2_000 { 16 } else { numbers.one_of(&[16, 40, 64, 100]) };
        Self::draw(numbers, dtype, signs, width, length)
    }

    /// Below this `comparison.rs` has the condition measured.
    fn is_small(&self) -> bool {
        self.terms.len() < 64
    }

    fn measured_condition(&self, numbers: &mut Numbers) -> f64 {
        const DRAWS: usize = 6;
        let step = 2.0_f64.powi(-23);
        let mut squares = 0.0;
        for _ in 0..DRAWS {
            let mut largest = 0.0_f64;
            for (terms, expected) in self.terms.iter().zip(&self.expected) {
                let mut moved = -expected;
                for &(left, right) in terms {
                    let word = numbers.next();
                    let sign = |bit: u64| if bit == 0 { step } else { -step };
                    moved +=
                        f64::from(left) * f64::from(right) * (1.0 + sign(word & 1)) * (1.0 + sign(word & 2));
                }
                largest = largest.max(moved.abs());
            }
            squares += largest * largest;
        }
        (squares / DRAWS as f64).sqrt()
    }

    fn tolerance(&self) -> ToleranceSpec {
        let sources = ErrorSources {
            case: self.dtype,
            reduction: self.terms[0].len() as u64,
            intermediate: 0,
            precision: Precision::Ieee,
        };
        let plain = tolerance(self.dtype, sources);
        if self.is_small() { with_conditioning(plain) } else { plain }
    }

    /// How many elements lie outside the tolerance; one row is measured alone, as rows of 16 and more are.
    fn violations(&self, got: &[f64]) -> usize {
        let spec = self.tolerance();
        let own = self.expected.iter().zip(&self.in_dtype).map(|(right, own)| (right - own).abs());
        let rms = (self.expected.iter().map(|value| value * value).sum::<f64>() / self.expected.len() as f64)
            .sqrt();
        let of_row = spec.reference_factor * own.fold(0.0, f64::max)
            + spec.row_rms_factor * rms
            + spec.condition_factor * self.condition;
        let is_wrong = |(right, got): &(&f64, &f64)| {
            let error = (*right - *got).abs();
            error.is_nan() || error > of_row + spec.absolute_ulp * right.abs()
        };
        self.expected.iter().zip(got).filter(is_wrong).count()
    }

    /// The outputs of a kernel, rounded once to the dtype of the output.
    fn run(&self, kernel: impl Fn(&Terms) -> f64) -> Vec<f64> {
        self.terms.iter().map(|terms| rounded(kernel(terms), bits_of(self.dtype))).collect()
    }

    /// The same with an accumulator of `bits` explicit bits, to which float32 sums of `tile` terms are added.
    fn run_narrow(&self, bits: i32, tile: usize) -> Vec<f64> {
        self.run(|terms| {
            terms
                .chunks(tile)
                .fold(0.0, |total, chunk| rounded(total + f64::from(sum_of(chunk, Order::Forward)), bits))
        })
    }
}

#[test]
fn honest_sums_are_accepted() {
    const ORDERS: [Order; 8] = [
        Order::Forward,
        Order::Backward,
        Order::Chunks(16),
        Order::Chunks(32),
        Order::Chunks(100),
        Order::Chunks(1024),
        Order::Pairwise,
        Order::Fused,
    ];
    let mut numbers = Numbers(11);
    for draw in 0..150 {
        let dtype = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16][draw % 3];
        let signs = [Signs::Mixed, Signs::Leaning][draw / 3 % 2];
        let row = Row::of_any_length(&mut numbers, dtype, signs, 1.0);
        for order in ORDERS {
            let got = row.run(|terms| f64::from(sum_of(terms, order)));
            assert_eq!(row.violations(&got), 0, "draw {draw}: {} {order:?}", row.told);
        }
        assert_eq!(row.violations(&row.in_dtype), 0, "draw {draw}: {} by PyTorch", row.told);
    }
}

/// TF32 and float16 keep ten bits of a factor, bfloat16 seven; the sum itself is as good as can be.
///
/// Where all terms have one sign, their errors cancel and the sum does not: a sum of thousands of TF32 products is
/// then no worse than honest float32 additions one after another, and nobody can tell the two apart. The judge's own
/// inputs have no sign in common.
#[test]
fn float32_sums_of_coarser_factors_are_rejected() {
    let mut numbers = Numbers(12);
    for draw in 0..120 {
        let signs = [Signs::Mixed, Signs::Leaning][draw % 2];
        let longest = if signs == Signs::Mixed { 16_384.0 } else { 1_000.0 };
        let length = numbers.over_magnitudes(1.0, longest).round() as usize;
        let width = if length > 2_000 { 16 } else { 64 };
        let row = Row::draw(&mut numbers, Dtype::Float32, signs, width, length);
        for bits in [10, 7] {
            let coarse = |value: f32| rounded(f64::from(value), bits);
            let got = row.run(|terms| terms.iter().map(|&(left, right)| coarse(left) * coarse(right)).sum());
            assert!(row.violations(&got) > 0, "draw {draw}: {} with {bits} bits", row.told);
        }
    }
}

/// An accumulator of the output's own 16 bits. Of few additions, one more rounding or two is all there is to see, and
/// a kernel is granted as much.
#[test]
fn narrow_accumulators_are_rejected() {
    let mut numbers = Numbers(13);
    for draw in 0..20 {
        let dtype = [Dtype::Float16, Dtype::Bfloat16][draw % 2];
        let signs = [Signs::Mixed, Signs::Leaning][draw / 2 % 2];
        for (tile, shortest) in [(1, 512.0), (16, 8_192.0)] {
            let length = numbers.over_magnitudes(shortest, 16_384.0).round() as usize;
            let row = Row::draw(&mut numbers, dtype, signs, 64, length);
            let got = row.run_narrow(bits_of(dtype), tile);
            assert!(row.violations(&got) > 0, "draw {draw}: {} in tiles of {tile}", row.told);
        }
    }
}

/// A float32 output whose accumulator was 16 bits wide, however short the sum.
#[test]
fn float32_sums_in_narrow_accumulators_are_rejected() {
    let mut numbers = Numbers(14);
    for draw in 0..120 {
        let signs = [Signs::Mixed, Signs::Leaning][draw % 2];
        let row = Row::of_any_length(&mut numbers, Dtype::Float32, signs, 1.0);
        for bits in [10, 7] {
            assert!(row.violations(&row.run_narrow(bits, 1)) > 0, "draw {draw}: {} in {bits} bits", row.told);
        }
    }
}

/// The factors that the worker's own tests of the error model use are those of this module.
#[test]
fn the_workers_tests_use_these_factors() {
    const FIXTURE: &str = include_str!("../../tests/worker/fixtures/tolerances.json");
    const DTYPES: [Dtype; 5] =
        [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16, Dtype::Float8E4m3fn, Dtype::Float8E5m2];
    const LENGTHS: [u64; 16] = [1, 2, 3, 5, 17, 31, 64, 127, 256, 521, 1000, 1024, 2048, 4093, 8192, 16_384];
    let line = |dtype, reduction| {
        let sources = ErrorSources { case: dtype, reduction, intermediate: 0, precision: Precision::Ieee };
        let spec = with_conditioning(tolerance(dtype, sources));
        serde_json::json!({"dtype": dtype, "reduction": reduction, "tolerance": spec}).to_string()
    };
    let lines: Vec<String> =
        DTYPES.into_iter().flat_map(|dtype| LENGTHS.map(|length| line(dtype, length))).collect();
    let written = format!("[\n{}\n]\n", lines.join(",\n"));
    if std::env::var_os("WARPSMITH_WRITE_TOLERANCES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/worker/fixtures/tolerances.json");
        std::fs::write(path, &written).expect("a file of this repository");
    }
    assert!(written == FIXTURE, "run this test with WARPSMITH_WRITE_TOLERANCES=1 and look at what changed");
}
