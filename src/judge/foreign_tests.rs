use super::*;
use crate::runner::protocol::Died;

fn foreign() -> ForeignRun {
    let source = Source {
        path: "/k.py".to_owned(),
        text_path: "/copy/k.py".to_owned(),
        text: "".into(),
        search_paths: Vec::new(),
        resident_bytes: 1 << 30,
        has_dot: false,
    };
    ForeignRun::new(source, "truth".to_owned(), false)
}

fn died(reason: &str) -> Died {
    serde_json::from_value(serde_json::json!({"reason": reason, "status": 1, "signal": 11, "output": ""}))
        .expect("a death")
}

/// Loading it and running it: both end with a check that is cancelled, and neither is then a failure.
#[test]
fn a_cancelled_check_is_no_failure_of_the_reference() {
    for (reason, code) in [
        ("killed", Code::Cancelled),
        ("exit", Code::ReferenceFailed),
        ("signal", Code::ReferenceFailed),
        ("timeout", Code::ReferenceFailed),
        ("memory", Code::ReferenceFailed),
    ] {
        let died = died(reason);
        for told in [ends::died_at_import_finding(&died, 1.0), ends::died_finding(&died, 1.0, false)] {
            let ended = foreign().ended(&told, "cannot be loaded");
            assert_eq!(ended.code, code, "{reason}");
            assert!(
                ended.message.starts_with("the reference `truth` cannot be loaded: "),
                "{}",
                ended.message
            );
        }
    }
}
