//! Findings in the text: where they stand, how they follow it, when they go.

use tower_lsp::ls_types::{
    Diagnostic, DiagnosticSeverity, NumberOrString, PublishDiagnosticsParams, Range, Uri,
};
use warpsmith::judge::{Code, Finding, Report};
use warpsmith::spec::Dtype;

use crate::support::{
    Builder, COPY, LOAD_LINE, Server, case, could_not_run, failing, finding, launched, mismatch,
    passed_report, place, report_of,
};

const FILE: &str = "/kernels/copy.py";

fn one_wrong(finding: Finding) -> Report {
    report_of(vec![failing(launched("copy_kernel", case(17, Dtype::Float16)), finding)])
}

fn out_of_bounds() -> Finding {
    finding(Code::OutOfBounds, Some(place(FILE, LOAD_LINE)), "reads element 16 of x, which has 16")
}

#[track_caller]
fn check(server: &mut Server, uri: &Uri, report: Report) -> PublishDiagnosticsParams {
    server.command("warpsmith.check", uri).expect("accepted");
    server.next_check().finish(report);
    server.diagnostics()
}

#[track_caller]
fn only(published: &PublishDiagnosticsParams) -> &Diagnostic {
    let [diagnostic] = &published.diagnostics[..] else { panic!("not one: {published:#?}") };
    diagnostic
}

fn lines(range: Range) -> (u32, u32, u32) {
    (range.start.line, range.start.character, range.end.character)
}

/// The line of the load, zero-based, with the columns of what is written on it.
const LOAD: (u32, u32, u32) = (8, 4, 32);

#[test]
fn save_wrong_fix_cleared() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(one_wrong(out_of_bounds()));
    let published = server.diagnostics();
    assert_eq!((&published.uri, published.version), (&uri, Some(1)));
    let diagnostic = only(&published);
    assert_eq!(lines(diagnostic.range), LOAD);
    assert_eq!(diagnostic.severity, Some(DiagnosticSeverity::ERROR));
    assert_eq!(diagnostic.code, Some(NumberOrString::String("out-of-bounds".to_owned())));
    assert_eq!(diagnostic.source.as_deref(), Some("warpsmith"));
    assert_eq!(diagnostic.message, "reads element 16 of x, which has 16\nN=17 · f16");

    let fixed = COPY.replace("x_ptr + offsets)", "x_ptr + offsets, mask=offsets < n)");
    server.change(&uri, 2, None, &fixed);
    let stale = server.diagnostics();
    assert_eq!(stale.version, Some(2));
    assert!(only(&stale).message.starts_with("(stale) reads element"), "{stale:?}");

    server.save(&uri, Some(&fixed));
    server.next_check().finish(passed_report());
    let cleared = server.diagnostics();
    assert_eq!((cleared.version, cleared.diagnostics.len()), (Some(2), 0));
}

#[test]
fn a_value_that_differs_stands_at_the_kernel_with_its_numbers() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let published = check(&mut server, &uri, one_wrong(mismatch()));
    let diagnostic = only(&published);
    assert_eq!(lines(diagnostic.range), (6, 4, 15));
    assert_eq!(
        diagnostic.message,
        "12 of 16 elements differ\nN=17 · f16 · y[0, 3]: expected 1.25, got NaN, allowed error 0.001"
    );
}

#[test]
fn the_same_finding_in_many_cases_is_one_diagnostic() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let cases = (1..=8).map(|n| failing(launched("copy_kernel", case(n, Dtype::Float32)), out_of_bounds()));
    let published = check(&mut server, &uri, report_of(cases.collect()));
    let diagnostic = only(&published);
    assert!(diagnostic.message.ends_with("N=1 · f32\nand 7 more cases"), "{}", diagnostic.message);
    let related = diagnostic.related_information.clone().expect("related information");
    let messages: Vec<&str> = related.iter().map(|related| &*related.message).collect();
    assert_eq!(
        messages,
        ["also in sweep case N=2 · f32", "also in sweep case N=3 · f32", "also in sweep case N=4 · f32"]
    );
    assert!(related.iter().all(|related| lines(related.location.range) == LOAD));
}

#[test]
fn a_place_in_another_file_is_related_and_the_diagnostic_stands_at_the_caller() {
    let mut helper = finding(Code::Race, Some(place("/kernels/lib/helper.py", 4)), "two programs store y[0]");
    helper.called_from = vec![place("/kernels/lib/helper.py", 20), place(FILE, LOAD_LINE)];
    let mut unknown_caller = helper.clone();
    unknown_caller.called_from.clear();
    unknown_caller.code = Code::DuplicateStore;

    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let mut report = one_wrong(helper);
    report.cases[0].findings.push(unknown_caller);
    let published = check(&mut server, &uri, report);
    let [at_kernel, at_caller] = &published.diagnostics[..] else { panic!("{published:#?}") };
    assert_eq!(lines(at_kernel.range), (6, 4, 15));
    assert_eq!(lines(at_caller.range), LOAD);
    let related: Vec<(String, u32, String)> = at_caller
        .related_information
        .iter()
        .flatten()
        .map(|related| {
            let location = &related.location;
            (location.uri.to_string(), location.range.start.line, related.message.clone())
        })
        .collect();
    let helper = "file:///kernels/lib/helper.py".to_owned();
    let expected = [
        (helper.clone(), 3, "it happened here".to_owned()),
        (helper, 19, "called from here".to_owned()),
        (uri.to_string(), 8, "called from here".to_owned()),
    ];
    assert_eq!(related, expected);
}

#[test]
fn a_client_without_related_information_reads_it_in_the_message() {
    let mut server = Builder::default()
        .capability("/textDocument/publishDiagnostics/relatedInformation", false.into())
        .start();
    let uri = server.open("copy.py", COPY);
    let mut helper = finding(Code::Race, Some(place("/kernels/lib/helper.py", 4)), "two programs store y[0]");
    helper.called_from = vec![place(FILE, LOAD_LINE)];
    let published = check(&mut server, &uri, one_wrong(helper));
    let diagnostic = only(&published);
    assert_eq!(diagnostic.related_information, None);
    assert!(
        diagnostic
            .message
            .ends_with("it happened here (/kernels/lib/helper.py:4)\ncalled from here (line 9)"),
        "{}",
        diagnostic.message
    );
}

#[test]
fn what_could_not_run_is_quiet() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let published = check(&mut server, &uri, could_not_run(Code::ImportError, "No module named pydantic"));
    let diagnostic = only(&published);
    assert_eq!(
        (diagnostic.severity, diagnostic.range.start.line),
        (Some(DiagnosticSeverity::INFORMATION), 0)
    );

    let mut syntax = could_not_run(Code::SyntaxError, "invalid syntax");
    syntax.findings[0].place = Some(place(FILE, LOAD_LINE));
    let published = check(&mut server, &uri, syntax);
    let diagnostic = only(&published);
    assert_eq!((diagnostic.severity, lines(diagnostic.range)), (Some(DiagnosticSeverity::ERROR), LOAD));

    // Nothing of this text is at fault, but it is the only one that is open.
    let words = "/p/warpsmith.toml:5:1: `x=f61[M]`: `f61` is no dtype";
    let published = check(&mut server, &uri, could_not_run(Code::BadDescription, words));
    let diagnostic = only(&published);
    assert_eq!(
        (diagnostic.severity, diagnostic.range.start.line),
        (Some(DiagnosticSeverity::INFORMATION), 0)
    );
    assert!(diagnostic.message.contains("warpsmith.toml:5:1"), "{}", diagnostic.message);

    // No oracle is no fault of the text: the lens says it.
    assert!(check(&mut server, &uri, could_not_run(Code::NoOracle, "no reference")).diagnostics.is_empty());
    server.lens_until(&uri, "– could not run: no reference");
}

#[test]
fn no_edit_makes_a_missing_environment_old() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    check(&mut server, &uri, could_not_run(Code::NoTorch, "There is no torch."));
    // No diagnostic follows the edit, which the end of the test makes sure of.
    server.edit(&uri, 2, (1, 0), (1, 0), "import math\n");
    assert_eq!(server.lens_titles(&uri), ["– could not run: torch is missing"]);
    let published = check(&mut server, &uri, could_not_run(Code::ImportError, "No module named pydantic"));
    assert!(!only(&published).message.starts_with("(stale)"));
    server.edit(&uri, 3, (1, 0), (1, 0), "import sys\n");
    assert!(only(&server.diagnostics()).message.starts_with("(stale)"));
}

#[test]
fn warnings_of_a_passed_check_are_warnings() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let race = finding(Code::BenignRace, Some(place(FILE, LOAD_LINE)), "both programs store the same bytes");
    let published = check(&mut server, &uri, one_wrong(race));
    assert_eq!(only(&published).severity, Some(DiagnosticSeverity::WARNING));
}

#[test]
fn findings_follow_the_text_while_it_is_typed() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    assert_eq!(lines(only(&check(&mut server, &uri, one_wrong(out_of_bounds()))).range), LOAD);

    // A comment above moves it without making it old.
    server.edit(&uri, 2, (0, 0), (0, 0), "# one\n# two\n");
    let moved = server.diagnostics();
    assert_eq!((moved.version, lines(only(&moved).range)), (Some(2), (10, 4, 32)));
    assert!(!only(&moved).message.starts_with("(stale)"));

    // A statement inside the kernel, above the line, moves it too.
    server.edit(&uri, 3, (9, 0), (9, 0), "    tl.device_assert(n > 0)\n");
    let moved = server.diagnostics();
    assert_eq!((moved.version, lines(only(&moved).range)), (Some(3), (11, 4, 32)));
    assert!(only(&moved).message.starts_with("(stale) "));

    // A half-typed line hides the kernel from the parser; the finding stays.
    server.edit(&uri, 4, (8, 49), (8, 59), "");
    server.edit(&uri, 5, (0, 0), (1, 0), "");
    let mut moved = server.diagnostics();
    if moved.version == Some(4) {
        moved = server.diagnostics();
    }
    assert_eq!((moved.version, lines(only(&moved).range)), (Some(5), (10, 4, 32)));
}

#[test]
fn typing_during_a_run_places_its_findings_in_the_newer_text() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    let call = server.next_check();
    server.edit(&uri, 2, (0, 0), (0, 0), "import math\n\n\n");
    // The line itself is typed anew: only its kernel and its place in it are left.
    server.edit(&uri, 3, (10, 0), (12, 0), "    value = 1\n    loaded = tl.load(x_ptr)\n");
    assert_eq!(server.lens_titles(&uri), ["⟳ checking"]);
    call.finish(one_wrong(out_of_bounds()));
    let published = server.diagnostics();
    assert_eq!((published.version, only(&published).range.start.line), (Some(3), 11));
    assert!(only(&published).message.starts_with("(stale) "));
    server.lens_until(&uri, "✗ wrong: out-of-bounds · N=17 · f16 (stale)");
}

#[test]
fn a_deleted_kernel_takes_its_findings_with_it_and_brings_them_back() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    check(&mut server, &uri, one_wrong(out_of_bounds()));
    let kernel_start = COPY.find("@triton.jit").expect("a kernel");
    let kernel_end = COPY.find("def copy(x)").expect("a wrapper");
    let kernel = &COPY[kernel_start..kernel_end];
    server.edit(&uri, 2, (5, 0), (12, 0), "");
    assert!(server.diagnostics().diagnostics.is_empty());
    server.edit(&uri, 3, (0, 0), (0, 0), kernel);
    let back = server.diagnostics();
    assert_eq!(lines(only(&back).range), (3, 4, 32));
}

#[test]
fn a_cancelled_check_leaves_the_old_findings() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    check(&mut server, &uri, one_wrong(out_of_bounds()));
    server.command("warpsmith.check", &uri).expect("accepted");
    let call = server.next_check();
    server.command("warpsmith.cancel", &uri).expect("accepted");
    call.finish_cancelled();
    server.lens_until(&uri, "✗ wrong: out-of-bounds · N=17 · f16");
}

#[test]
fn nothing_is_published_when_nothing_changed() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    check(&mut server, &uri, one_wrong(out_of_bounds()));
    server.edit(&uri, 2, (15, 0), (15, 0), "# below\n");
    server.command("warpsmith.check", &uri).expect("accepted");
    server.next_check().finish(one_wrong(out_of_bounds()));
    server.lens_until(&uri, "✗ wrong: out-of-bounds · N=17 · f16");
}

#[test]
fn closing_clears() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    check(&mut server, &uri, one_wrong(out_of_bounds()));
    server.close(&uri);
    let cleared = server.diagnostics();
    assert_eq!((cleared.version, cleared.diagnostics.len()), (None, 0));
}

#[test]
fn a_flood_of_findings_is_cut_and_said() {
    let mut server = Server::start();
    let text = format!("{COPY}{}", "x = 1\n".repeat(200));
    let uri = server.open("copy.py", &text);
    let findings = (1..=200).map(|line| finding(Code::Race, Some(place(FILE, line)), "a race"));
    let mut record = launched("copy_kernel", case(1, Dtype::Float32));
    record.findings = findings.collect();
    record.verdict = warpsmith::judge::Verdict::Wrong;
    let published = check(&mut server, &uri, report_of(vec![record]));
    assert_eq!(published.diagnostics.len(), 64);
    let said = |diagnostic: &&Diagnostic| diagnostic.message == "137 more findings are not shown";
    assert_eq!(published.diagnostics.iter().filter(said).count(), 1);
}

#[test]
fn a_document_opened_twice_starts_anew() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    check(&mut server, &uri, one_wrong(out_of_bounds()));
    server.open("copy.py", COPY);
    assert!(server.diagnostics().diagnostics.is_empty());
    assert_eq!(server.lens_titles(&uri), ["▶ check"]);
}
