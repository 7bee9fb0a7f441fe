//! Clients that never answer what they are asked.

use crate::support::{Builder, COPY, passed_report};

/// Complaint 10: the server stops answering for good, because it waits for a client that does not answer it. Here
/// nothing waits for the client. The same with a real process: `a_soak_with_a_client_that_never_answers`.
#[test]
fn edits_go_on_when_nothing_is_answered() {
    let mut server = Builder::default().progress().lens_refresh().start();
    let uri = server.open("copy.py", COPY);
    let mut expected = COPY.to_owned();
    for round in 0..3 {
        let text = COPY.replace("BLOCK=16", &format!("BLOCK={}", 32 << round));
        server.change(&uri, 1000 * round + 2, None, &text);
        server.save(&uri, Some(&text));
        let call = server.next_check();
        for index in 0..100 {
            let line = format!("# {round} {index}\n");
            server.edit(&uri, 1000 * round + 3 + index, (0, 0), (0, 0), &line);
        }
        expected = (0..100).fold(text, |text, index| format!("# {round} {index}\n{text}"));
        call.finish(passed_report());
        server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
    }
    server.command("warpsmith.check", &uri).expect("accepted");
    let call = server.next_check();
    assert_eq!(&*call.request.text, expected);
    call.finish(passed_report());
    server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
    server.shutdown();
    server.exit();
    assert!(server.ended().after_shutdown);
    // Asked for the lenses once, and for progress at most once a check.
    let asked = server.ignore_unread();
    assert!((1..=5).contains(&asked), "{asked}");
}
