use proptest::prelude::*;

use super::*;
use crate::runner::protocol::MatrixRate;

/// Like an H200: copies of 8 to 537 MB, reads a little faster, one product.
pub(in crate::device) fn h200() -> Ceilings {
    let points = |by: f64| {
        let measured =
            [(8_388_608, 904.0), (67_108_864, 2837.0), (268_435_456, 3783.0), (536_870_912, 4025.0)];
        measured.map(|(bytes, gb_per_s)| point(bytes, bytes as f64 / (gb_per_s * by * 1e3))).to_vec()
    };
    let measured = MeasuredCeilings {
        copy: points(1.0),
        read: points(1.05),
        matrix: vec![MatrixRate { kind: "float16".to_owned(), flops_per_s: 7e14, side: 8192 }],
        launch_floor_us: Some(2.0),
        took_s: 1.5,
    };
    Ceilings::new("GPU-0000", "NVIDIA H200", "580.126.20", 1_796_000_000, measured)
}

fn point(bytes: u64, time_us: f64) -> BandwidthPoint {
    BandwidthPoint { bytes, time_us }
}

#[test]
fn points_are_met_and_between_them_lie_times_between_theirs() {
    let ceilings = h200();
    for point in &ceilings.measured.copy {
        let time_us = ceilings.copy_time_us(point.bytes).unwrap();
        assert!((time_us / point.time_us - 1.0).abs() < 1e-12, "{point:?}: {time_us}");
    }
    // The middle in logarithms of 8 MiB and 64 MiB.
    let middle = ceilings.copy_time_us(23_726_566).unwrap();
    let ends = (ceilings.measured.copy[0].time_us * ceilings.measured.copy[1].time_us).sqrt();
    assert!((middle / ends - 1.0).abs() < 1e-6, "{middle} {ends}");
}

#[test]
fn outside_of_the_points() {
    let ceilings = h200();
    assert_eq!(ceilings.copy_time_us(0), Some(2.0));
    assert_eq!(ceilings.copy_time_us(1000), Some(2.0));
    let smallest = ceilings.measured.copy[0].time_us;
    assert!((ceilings.copy_time_us(4_194_304).unwrap() / (smallest / 2.0) - 1.0).abs() < 1e-12);
    let largest = ceilings.measured.copy[3].time_us;
    assert!((ceilings.copy_time_us(1 << 30).unwrap() / (2.0 * largest) - 1.0).abs() < 1e-12);
    let without = Ceilings { measured: MeasuredCeilings::default(), ..ceilings };
    assert_eq!((without.copy_time_us(9), without.read_time_us(9)), (None, None));
    assert_eq!((without.matrix_rate(MatrixKind::Float16), without.launch_floor_us()), (None, None));
}

#[test]
fn useless_points_and_rates_are_left_out() {
    let mut ceilings = h200();
    let kept = ceilings.copy_time_us(100_000_000);
    for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        ceilings.measured.copy.push(point(100_000_000, bad));
        let rate = MatrixRate { kind: "tf32".to_owned(), flops_per_s: bad, side: 1 };
        ceilings.measured.matrix.push(rate);
    }
    ceilings.measured.copy.push(point(0, 1.0));
    assert_eq!(ceilings.copy_time_us(100_000_000), kept);
    assert_eq!(ceilings.matrix_rate(MatrixKind::Tf32), None);
    assert_eq!(ceilings.matrix_rate(MatrixKind::Float16), Some(7e14));
}

#[test]
fn dtypes_have_their_matrix_kind() {
    let kinds = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "int8"];
    let strict = kinds.map(|dtype| MatrixKind::of(dtype, false).map_or("-", MatrixKind::as_str));
    assert_eq!(strict, ["float16", "bfloat16", "float32", "float64", "-", "-"]);
    assert_eq!(MatrixKind::of("float32", true), Some(MatrixKind::Tf32));
}

#[test]
fn they_are_kept_by_gpu_and_driver() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("ceilings");
    let ceilings = h200();
    let load = || Ceilings::load(&below, "GPU-0000", "580.126.20");
    assert_eq!(load(), None);
    ceilings.store(&below).unwrap();
    assert_eq!(load(), Some(ceilings.clone()));
    assert_eq!(Ceilings::load(&below, "GPU-0000", "590.1"), None);
    assert_eq!(std::fs::read_dir(&below).unwrap().count(), 1, "nothing unfinished is left");

    let path = file(&below, "GPU-0000", "580.126.20");
    std::fs::write(&path, "{\"schema\":").unwrap();
    assert_eq!(load(), None, "what cannot be read is measured anew");
    let other = Ceilings { uuid: "GPU-1111".to_owned(), ..ceilings.clone() };
    std::fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
    assert_eq!(load(), None, "a file of another GPU is not taken");
    ceilings.store(&below).unwrap();
    assert_eq!(load(), Some(ceilings));
}

#[test]
fn a_name_from_outside_stays_in_the_folder() {
    let path = file(Path::new("/c"), "../../x", "a/b");
    assert_eq!(path, Path::new("/c/.._.._x-a_b.json"));
}

proptest! {
    /// More bytes never take less time, whatever was measured.
    #[test]
    fn time_grows_with_bytes(
        measured in proptest::collection::vec((1_u64..1 << 34, 0.5_f64..1e5), 1..8),
        floor_us in proptest::option::of(0.1_f64..50.0),
        sizes in proptest::collection::vec(0_u64..1 << 36, 2..30),
    ) {
        let points: Vec<BandwidthPoint> = measured.iter().map(|&(bytes, us)| point(bytes, us)).collect();
        let mut sizes: Vec<u64> = sizes.into_iter().chain(measured.iter().map(|(bytes, _)| *bytes)).collect();
        sizes.sort_unstable();
        let times: Vec<f64> = sizes.iter().map(|bytes| time_us(&points, floor_us, *bytes).unwrap()).collect();
        for (pair, sizes) in times.windows(2).zip(sizes.windows(2)) {
            prop_assert!(pair[0] <= pair[1] * (1.0 + 1e-12), "{sizes:?} bytes: {pair:?} µs");
        }
    }

    /// A limit is never above what was measured at that size.
    #[test]
    fn no_point_is_slower_than_its_measurement(
        measured in proptest::collection::vec((1_u64..1 << 34, 0.5_f64..1e5), 1..8),
        floor_us in proptest::option::of(0.1_f64..50.0),
    ) {
        let points: Vec<BandwidthPoint> = measured.iter().map(|&(bytes, us)| point(bytes, us)).collect();
        for point in &points {
            let limit_us = time_us(&points, floor_us, point.bytes).unwrap();
            prop_assert!(limit_us <= point.time_us * (1.0 + 1e-12));
        }
    }
}
