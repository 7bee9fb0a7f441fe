//! How messages look on the line.

use super::*;

#[test]
fn a_request_is_one_flat_object() {
    let request = Request::Release { case: "k1".to_owned() };
    let line = serde_json::to_string(&Envelope { id: 7, request: &request }).expect("serializes");
    assert_eq!(line, r#"{"id":7,"op":"release","case":"k1"}"#);
}

#[test]
fn replies_and_events_are_told_apart() {
    let died = r#"{"id":3,"died":{"reason":"signal","signal":11,"status":null,"output":"x"}}"#;
    let Line::Reply(reply) = serde_json::from_str(died).expect("parses") else { panic!("not a reply") };
    assert!(matches!(
        reply.outcome,
        Outcome::Died(Died { reason: DeathReason::Signal, signal: Some(11), .. })
    ));

    let warm = r#"{"ev":"warm","import_ms":1.5,"resident_bytes":1,"later":"ignored"}"#;
    assert!(matches!(serde_json::from_str(warm).expect("parses"), Line::Event(Event::Warm { .. })));
}

#[test]
fn non_finite_numbers_travel_as_strings() {
    let sample: Sample =
        serde_json::from_str(r#"{"index":[0,3],"expected":1,"got":"NaN","allowed":"Infinity"}"#)
            .expect("parses");
    assert!(sample.got.0.is_nan());
    assert_eq!(serde_json::to_string(&sample.allowed).expect("serializes"), "\"Infinity\"");
}
