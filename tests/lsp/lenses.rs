//! The row above each launched kernel.

use serde_json::json;
use warpsmith::judge::check::CheckEvent;
use warpsmith::judge::{Code, NotRun};
use warpsmith::oracle::OracleLabel;
use warpsmith::spec::Dtype;

use crate::support::{
    Builder, COPY, Call, LOAD_LINE, Server, case, could_not_run, failing, finding, launched, passed_report,
    place, report_of,
};

const PASSED: &str = "✓ AutoKernel copy · torch ref · 2 cases · f32 f16";

fn plan(call: &Call, cases: usize) {
    let oracle = OracleLabel { rung: 0, label: "AutoKernel copy · torch ref".to_owned() };
    call.event(CheckEvent::Planned { oracle, cases });
}

fn case_done(call: &Call, index: usize) {
    let record = std::sync::Arc::new(launched("copy_kernel", case(16, Dtype::Float32)));
    call.event(CheckEvent::CaseFinished { index, record });
}

#[test]
fn lenses_are_there_as_soon_as_the_file_is_open() {
    let mut server = Server::start();
    let text = COPY.replace(
        "def copy(x):",
        "@triton.jit\ndef helper(x):\n    return x\n\n\n@triton.jit\ndef other(x_ptr):\n    tl.store(x_ptr, helper(1))\n\n\ndef copy(x):\n    other[(1,)](x)",
    );
    let uri = server.open("copy.py", &text);
    let lenses = server.lenses(&uri);
    let lines: Vec<u32> = lenses.iter().map(|lens| lens.range.start.line).collect();
    // `helper` is launched by nobody.
    assert_eq!(lines, [5, 17]);
    let command = lenses[1].command.clone().expect("a command");
    assert_eq!((&*command.title, &*command.command), ("▶ check", "warpsmith.check"));
    assert_eq!(command.arguments, Some(vec![json!({ "uri": uri, "kernel": "other" })]));
}

#[test]
fn a_file_without_kernels_has_none_and_its_saves_run_nothing() {
    let mut server = Server::start();
    let uri = server.open("plain.py", "print('hello')\n");
    server.save(&uri, Some("print('hello')\n"));
    assert!(server.lenses(&uri).is_empty());
}

#[test]
fn a_file_of_another_language_has_none() {
    use tower_lsp::ls_types::{DidOpenTextDocumentParams, TextDocumentItem};
    let mut server = Server::start();
    let uri = Server::uri("notes.md");
    let text_document = TextDocumentItem::new(uri.clone(), "markdown".to_owned(), 1, COPY.to_owned());
    server.notify::<tower_lsp::ls_types::notification::DidOpenTextDocument>(DidOpenTextDocumentParams {
        text_document,
    });
    server.save(&uri, Some(COPY));
    assert!(server.lenses(&uri).is_empty());
}

#[test]
fn an_untitled_buffer_has_none() {
    let mut server = Server::start();
    let uri: tower_lsp::ls_types::Uri = "untitled:Untitled-1".parse().expect("a URI");
    server
        .raw_request("textDocument/codeLens", json!({ "textDocument": { "uri": uri } }))
        .expect("an answer");
    server.notify::<tower_lsp::ls_types::notification::DidOpenTextDocument>(
        serde_json::from_value(json!({
            "textDocument": { "uri": uri, "languageId": "python", "version": 1, "text": COPY }
        }))
        .expect("params"),
    );
    assert!(server.lenses(&uri).is_empty());
    let refused = server.command("warpsmith.check", &uri).expect_err("refused");
    assert!(refused["message"].as_str().expect("words").contains("save this buffer"));
}

#[test]
fn the_title_follows_the_check() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    let call = server.next_check();
    server.lens_until(&uri, "⟳ checking");
    plan(&call, 14);
    (0..3).for_each(|index| case_done(&call, index));
    server.lens_until(&uri, "⟳ checking 3/14");
    let command = server.lenses(&uri)[0].command.clone().expect("a command");
    assert_eq!(command.command, "warpsmith.cancel");
    call.finish(passed_report());
    server.lens_until(&uri, PASSED);

    // Comments change nothing; code does, and its way back too.
    server.edit(&uri, 2, (0, 0), (0, 0), "# a comment\n");
    assert_eq!(server.lens_titles(&uri), [PASSED]);
    server.edit(&uri, 3, (0, 0), (0, 0), "import math\n");
    assert_eq!(server.lens_titles(&uri), [format!("{PASSED} (stale)")]);
    server.edit(&uri, 4, (0, 0), (1, 0), "");
    assert_eq!(server.lens_titles(&uri), [PASSED]);
}

#[test]
fn a_change_of_the_function_around_the_launch_makes_the_verdict_stale() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
    let edited = COPY.replace("BLOCK=16", "BLOCK=32");
    server.change(&uri, 2, None, &edited);
    assert_eq!(server.lens_titles(&uri), [format!("{PASSED} (stale)")]);
    // And a save checks again although the kernel itself is the same.
    server.save(&uri, Some(&edited));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
}

#[test]
fn every_end_has_its_title() {
    let broken = finding(Code::OutOfBounds, Some(place("/kernels/copy.py", LOAD_LINE)), "reads past x");
    let elsewhere = warpsmith::judge::Finding { kernel: Some("other".to_owned()), ..broken.clone() };
    let with = |finding| {
        let good = launched("copy_kernel", case(16, Dtype::Float32));
        report_of(vec![good, failing(launched("copy_kernel", case(17, Dtype::Float16)), finding)])
    };
    let mut partly = passed_report();
    partly.not_run.push(NotRun { what: "stability".to_owned(), why: "not asked for".to_owned() });
    let weak = finding(Code::WeakTolerance, None, "zeros would pass");
    let ends = [
        (with(broken), "✗ wrong: out-of-bounds · N=17 · f16"),
        (with(elsewhere), "✗ wrong: out-of-bounds in other · N=17 · f16"),
        (could_not_run(Code::NoTorch, "There is no torch."), "– could not run: torch is missing"),
        (
            could_not_run(Code::Timeout, "It ran for 60 s. Make it faster."),
            "– could not run: It ran for 60 s",
        ),
        (report_of(vec![launched("other", case(1, Dtype::Float32))]), "– not launched in any case"),
        (partly, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16 · 1 not run"),
        (with(weak), "✓ AutoKernel copy · torch ref · 2 cases · f32 f16 · with warnings"),
    ];
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    for (report, title) in ends {
        server.command("warpsmith.check", &uri).expect("accepted");
        server.next_check().finish(report);
        server.lens_until(&uri, title);
    }
    // What stands in the text is the business of other tests; the close clears it last.
    server.close(&uri);
    while server.diagnostics().version.is_some() {}
}

/// complaint 23: hints that are refreshed after each edit make the editor ask twice. Typing asks for no refresh; the
/// start and the end of a check do. (Hints, which only a verdict changes: `times.rs`.)
#[test]
fn refreshes_come_with_the_start_and_the_end_and_one_at_a_time() {
    use tower_lsp::ls_types::request::CodeLensRefresh;
    let mut server = Builder::default().lens_refresh().start();
    let uri = server.open("copy.py", COPY);
    server.edit(&uri, 2, (0, 0), (0, 0), "# typing asks for no refresh\n");
    server.save(&uri, None);
    let (first, ()) = server.client_request::<CodeLensRefresh>();
    let call = server.next_check();
    call.finish(passed_report());
    server.lens_until(&uri, PASSED);
    server.answer(first, json!(null));
    // The changes since the first request come as one.
    let (second, ()) = server.client_request::<CodeLensRefresh>();
    server.answer(second, json!(null));
}

/// [`COPY`] with a second kernel and a second function, and a kernel that nothing here launches.
fn more_functions() -> String {
    let second = COPY.split_once("@triton.jit").map_or("", |(_, kernel)| kernel);
    let second = second.replace("copy_kernel", "move_kernel").replace("def copy(", "def move(");
    format!("{COPY}\n\n@triton.jit{second}\n\n@triton.jit\ndef lonely(x):\n    tl.store(x, 0)\n")
}

#[test]
fn each_lens_shows_what_became_of_its_own_function() {
    const LONELY: &str = "– not judged here: no launch of it was found in this file";
    let mut server = Server::start();
    let uri = server.open("copy.py", &more_functions());
    assert_eq!(server.lens_titles(&uri), ["▶ check", "▶ check", LONELY]);
    let part = |entry: &str, kernel: &str, report: warpsmith::judge::Report| warpsmith::judge::Report {
        entry: Some(entry.to_owned()),
        kernels: vec![kernel.to_owned()],
        ..report
    };
    let good = part("copy", "copy_kernel", passed_report());
    let wrong =
        warpsmith::judge::Finding { kernel: None, ..finding(Code::Raised, None, "raised ValueError") };
    let bad = part(
        "move",
        "move_kernel",
        report_of(vec![failing(launched("move_kernel", case(5, Dtype::Float32)), wrong)]),
    );
    let unknown = part("move", "move_kernel", could_not_run(Code::NoOracle, "`f61` is no dtype"));
    for (parts, second) in [
        (vec![good.clone(), bad], "✗ wrong: raised · N=5 · f32"),
        (vec![good.clone(), unknown], "– could not run: `f61` is no dtype"),
    ] {
        let verdict = parts[1].verdict;
        server.command("warpsmith.check", &uri).expect("accepted");
        let call = server.next_check();
        call.event(CheckEvent::Function { entry: Some("copy".to_owned()) });
        plan(&call, 2);
        case_done(&call, 0);
        case_done(&call, 1);
        call.event(CheckEvent::Function { entry: Some("move".to_owned()) });
        plan(&call, 3);
        server.lenses_until(&uri, &["⟳ checking 2/5", "⟳ checking 2/5", LONELY]);
        call.finish(warpsmith::judge::Report {
            parts,
            verdict,
            cases: Vec::new(),
            entry: None,
            ..passed_report()
        });
        server.lenses_until(&uri, &[PASSED, second, LONELY]);
        // The error comes with the first, and goes with the second.
        server.diagnostics();
    }
    let left = warpsmith::judge::NotJudged {
        kernel: "move_kernel".to_owned(),
        why: "only `move` launches it".to_owned(),
    };
    server.command("warpsmith.check", &uri).expect("accepted");
    server.next_check().finish(warpsmith::judge::Report { not_judged: vec![left], ..good });
    let not_judged = "– not judged: only `move` launches it";
    server.lenses_until(&uri, &[PASSED, not_judged, LONELY]);
}

/// No launch of it is seen in the code, but it was launched and judged.
#[test]
fn a_kernel_that_was_launched_in_a_hidden_way_shows_its_verdict() {
    let mut server = Server::start();
    let uri = server.open("copy.py", &format!("{COPY}\n\n@triton.jit\ndef hidden(x):\n    tl.store(x, 0)\n"));
    let mut both = launched("copy_kernel", case(16, Dtype::Float32));
    both.launches.extend(launched("hidden", case(16, Dtype::Float32)).launches);
    let wrong = warpsmith::judge::Finding { kernel: None, ..finding(Code::Mismatch, None, "off") };
    for (record, title) in [
        (both.clone(), "✓ AutoKernel copy · torch ref · 1 case · f32"),
        (failing(both, wrong), "✗ wrong: mismatch · N=16 · f32"),
    ] {
        server.command("warpsmith.check", &uri).expect("accepted");
        server.next_check().finish(report_of(vec![record]));
        server.lenses_until(&uri, &[title, title]);
    }
    server.diagnostics();
}

#[test]
fn two_kernels_of_one_function_show_its_verdict() {
    let mut server = Server::start();
    let text = COPY.replace("    return y", "    second[(1,)](y)\n    return y");
    let text = format!("{text}\n\n@triton.jit\ndef second(x):\n    tl.store(x, 0)\n");
    let uri = server.open("copy.py", &text);
    let both = |n| {
        let mut record = launched("copy_kernel", case(n, Dtype::Float32));
        record.launches.extend(launched("second", case(n, Dtype::Float32)).launches);
        record
    };
    let titles = [
        (report_of(vec![both(16)]), ["✓ AutoKernel copy · torch ref · 1 case · f32"; 2]),
        (
            report_of(vec![failing(
                both(16),
                finding(Code::OutOfBounds, Some(place("/kernels/copy.py", LOAD_LINE)), "reads past x"),
            )]),
            ["✗ wrong: out-of-bounds · N=16 · f32", "✗ wrong: out-of-bounds in copy_kernel · N=16 · f32"],
        ),
    ];
    for (report, expected) in titles {
        server.command("warpsmith.check", &uri).expect("accepted");
        server.next_check().finish(report);
        server.lenses_until(&uri, &expected);
    }
    server.close(&uri);
    while server.diagnostics().version.is_some() {}
}

/// What is the same as before is not called right, and a file as it was committed needs no check.
#[test]
fn a_comparison_with_head_carries_no_mark_of_being_right() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let label = OracleLabel { rung: 3, label: "= HEAD a1b2c3d (no reference)".to_owned() };
    let same = warpsmith::judge::Report { oracle: Some(label.clone()), ..passed_report() };
    let differs = finding(Code::DiffersFromHead, None, "16 of 16 elements differ");
    let other = failing(launched("copy_kernel", case(17, Dtype::Float16)), differs);
    let other = warpsmith::judge::Report { oracle: Some(label), ..report_of(vec![other]) };
    let unchanged = could_not_run(
        Code::UnchangedSinceHead,
        "unchanged since HEAD a1b2c3d, so there is nothing to compare",
    );
    for (report, title) in [
        (same, "= HEAD a1b2c3d · 2 cases · f32 f16"),
        (other, "✗ wrong: differs-from-head · N=17 · f16"),
        (unchanged, "– unchanged since HEAD a1b2c3d"),
    ] {
        // Each save checks again, though the text is the same: there may be another HEAD.
        server.save(&uri, Some(COPY));
        server.next_check().finish(report);
        server.lens_until(&uri, title);
    }
    // The difference was an error, and is gone with the text that it was in.
    assert_eq!(server.diagnostics().diagnostics.len(), 1);
    assert!(server.diagnostics().diagnostics.is_empty());
}

/// [`COPY`] with `count` kernels more, launched by the same function.
pub(crate) fn with_kernels(count: usize) -> String {
    let launches: String = (0..count).map(|number| format!("    k{number}[(1,)](y)\n")).collect();
    let kernels =
        (0..count).map(|number| format!("\n\n@triton.jit\ndef k{number}(x):\n    tl.store(x, {number})\n"));
    format!(
        "{}{}",
        COPY.replace("    return y", &format!("{launches}    return y")),
        kernels.collect::<String>()
    )
}

/// 46 kernels in one file are no flood of rows: more than eight share one, which stays where it is.
#[test]
fn many_kernels_share_one_row() {
    let mut server = Server::start();
    let uri = server.open("copy.py", &with_kernels(7));
    assert_eq!(server.lens_titles(&uri), ["▶ check"; 8]);
    server.change(&uri, 2, None, &with_kernels(45));
    let rows = server.lenses(&uri);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].range.start.line, rows[0].range.end.character), (0, 12));
    let command = rows[0].command.clone().expect("a command");
    assert_eq!((&*command.title, &*command.command), ("▶ check · 46 kernels", "warpsmith.check"));
    assert_eq!(command.arguments, Some(vec![json!({ "uri": uri })]));

    let launched_all = |names: &[String]| {
        let mut record = launched("copy_kernel", case(16, Dtype::Float32));
        let launches = names.iter().flat_map(|name| launched(name, case(16, Dtype::Float32)).launches);
        record.launches.extend(launches);
        record
    };
    let names: Vec<String> = (0..45).map(|number| format!("k{number}")).collect();
    let bad =
        warpsmith::judge::Finding { kernel: Some("k7".to_owned()), ..finding(Code::Mismatch, None, "off") };
    let reports = [
        (report_of(vec![launched_all(&names)]), "✓ 46 kernels: 46 passed"),
        (report_of(vec![launched_all(&names[..40])]), "– 46 kernels: 5 not judged · 41 passed"),
        (
            report_of(vec![failing(launched_all(&names), bad)]),
            "✗ 46 kernels: 46 wrong (mismatch in k7 · N=16 · f32)",
        ),
        (could_not_run(Code::NoTorch, "There is no torch."), "– 46 kernels: 46 not judged"),
    ];
    for (report, title) in reports {
        server.command("warpsmith.check", &uri).expect("accepted");
        let call = server.next_check();
        plan(&call, 3);
        case_done(&call, 0);
        server.lens_until(&uri, "⟳ checking 1/3");
        call.finish(report);
        server.lens_until(&uri, title);
    }
    server.close(&uri);
    while server.diagnostics().version.is_some() {}
}

/// complaint 19: code jumps as rows come and go. A row is there from the first moment to the last, at the same line,
/// whatever becomes of the check; only its words change.
#[test]
fn rows_stay_where_they_are() {
    let mut server = Server::start();
    let uri = server.open("copy.py", &more_functions());
    let lines = |server: &mut Server| -> Vec<u32> {
        server.lenses(&uri).iter().map(|lens| lens.range.start.line).collect()
    };
    let at_first = lines(&mut server);
    assert_eq!(at_first.len(), 3);
    let ends = [
        passed_report(),
        could_not_run(Code::NoTorch, "There is no torch."),
        report_of(vec![failing(
            launched("copy_kernel", case(5, Dtype::Float32)),
            finding(Code::Raised, None, "no"),
        )]),
    ];
    for end in ends {
        server.command("warpsmith.check", &uri).expect("accepted");
        assert_eq!(lines(&mut server), at_first);
        let call = server.next_check();
        plan(&call, 2);
        assert_eq!(lines(&mut server), at_first);
        case_done(&call, 0);
        assert_eq!(lines(&mut server), at_first);
        call.finish(end);
        assert_eq!(lines(&mut server), at_first);
    }
    server.command("warpsmith.check", &uri).expect("accepted");
    let call = server.next_check();
    server.command("warpsmith.cancel", &uri).expect("accepted");
    assert_eq!(lines(&mut server), at_first);
    call.finish_cancelled();
    // Half a line is typed: the text does not parse, and the rows only follow it.
    server.edit(&uri, 2, (0, 0), (0, 0), "x = (\n");
    assert_eq!(lines(&mut server), at_first.iter().map(|line| line + 1).collect::<Vec<_>>());
    server.edit(&uri, 3, (0, 0), (1, 0), "");
    assert_eq!(lines(&mut server), at_first);
    server.close(&uri);
    while server.diagnostics().version.is_some() {}
}
