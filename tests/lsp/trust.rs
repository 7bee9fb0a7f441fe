//! Nothing of a folder is run before somebody trusts it. A check that the test does not take fails it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tower_lsp::ls_types::Uri;
use tower_lsp::ls_types::notification::ShowMessage;
use tower_lsp::ls_types::request::ShowMessageRequest;
use warpsmith::lsp::ext::ServerStatus;
use warpsmith::trust::{Place, TrustFile};

use crate::support::{Builder, COPY, Server, passed_report};

const CLOSED: &str = "– not trusted: nothing is run";
const PASSED: &str = "✓ AutoKernel copy · torch ref · 2 cases · f32 f16";

/// A project, and a place for what is remembered.
struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("project")).expect("a folder");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).expect("it exists").join(name)
    }

    fn remembered(&self) -> PathBuf {
        self.path("state/trust.json")
    }

    fn file(&self) -> TrustFile {
        TrustFile::new(self.remembered())
    }

    fn builder(&self) -> Builder {
        Builder::default().asks_user(Some(&self.remembered())).folder(&self.path("project"))
    }

    /// A server with one kernel of the project open.
    fn start(&self) -> (Server, Uri) {
        let mut server = self.builder().start();
        let uri = server.open_file(&self.path("project/copy.py"), COPY);
        (server, uri)
    }
}

/// Takes the question; its id and its words.
#[track_caller]
fn question(server: &mut Server) -> (Value, String) {
    let (id, params) = server.client_request::<ShowMessageRequest>();
    let titles: Vec<String> =
        params.actions.unwrap_or_default().into_iter().map(|action| action.title).collect();
    assert_eq!(titles, ["Trust", "Not now"]);
    (id, params.message)
}

#[track_caller]
fn answer(server: &mut Server, title: &str) {
    let (id, _) = question(server);
    server.answer(id, json!({ "title": title }));
}

#[track_caller]
fn check_passes(server: &mut Server, uri: &Uri) {
    server.next_check().finish(passed_report());
    server.lens_until(uri, PASSED);
}

#[test]
fn nothing_runs_until_the_user_agrees_and_then_what_was_asked_for() {
    let scratch = Scratch::new();
    let (mut server, uri) = scratch.start();
    assert_eq!(server.lens_titles(&uri), [CLOSED]);
    server.save(&uri, None);
    let (id, words) = question(&mut server);
    let project = scratch.path("project");
    assert_eq!(
        words,
        format!(
            "warpsmith: checking copy.py runs its code. Do you trust {} and everything below it?",
            project.display()
        )
    );
    server.answer(id, json!({ "title": "Trust" }));
    check_passes(&mut server, &uri);
    assert!(scratch.file().read().expect("readable").covers(&project.join("other.py")));
    let other = server.open_file(&project.join("deep/other.py"), COPY);
    assert_eq!(server.lens_titles(&other), ["▶ check"]);
    drop(server);

    let (mut next, uri) = scratch.start();
    assert_eq!(next.lens_titles(&uri), ["▶ check"]);
    next.save(&uri, None);
    check_passes(&mut next, &uri);
}

#[test]
fn who_says_not_now_is_asked_again_by_a_command_only() {
    let scratch = Scratch::new();
    let (mut server, uri) = scratch.start();
    server.save(&uri, None);
    answer(&mut server, "Not now");
    for version in 2..5 {
        server.change(&uri, version, None, &format!("{COPY}# {version}\n"));
        server.save(&uri, None);
        assert_eq!(server.lens_titles(&uri), [CLOSED]);
    }
    server.command("warpsmith.check", &uri).expect("accepted");
    answer(&mut server, "Not now");
    server.command("warpsmith.trust", &uri).expect("accepted");
    answer(&mut server, "Trust");
    server.lens_until(&uri, "▶ check");
    server.command("warpsmith.trust", &uri).expect("accepted");
    let told = server.notification::<ShowMessage>().message;
    assert!(told.contains("trusted already"), "{told}");
}

#[test]
fn text_features_work_without_trust_and_the_action_offers_it() {
    let scratch = Scratch::new();
    let mut server = scratch.builder().start();
    let odd = COPY.replace("tl.arange(0, BLOCK)", "tl.arange(0, 96)");
    let uri = server.open_file(&scratch.path("project/copy.py"), &odd);
    assert_eq!(server.diagnostics().diagnostics.len(), 1);
    let range = json!({ "start": { "line": 6, "character": 0 }, "end": { "line": 6, "character": 0 } });
    let params = json!({ "textDocument": { "uri": uri }, "range": range, "context": { "diagnostics": [] } });
    let actions = server.raw_request("textDocument/codeAction", params).expect("actions");
    let commands: Vec<&Value> =
        actions.as_array().expect("a list").iter().filter_map(|action| action.get("command")).collect();
    let [command] = commands[..] else { panic!("not one: {actions:#}") };
    assert_eq!(command["command"], "warpsmith.trust");
    let params = json!({ "command": command["command"], "arguments": command["arguments"] });
    server.raw_request("workspace/executeCommand", params).expect("accepted");
    answer(&mut server, "Trust");
    server.lens_until(&uri, "▶ check");
}

#[test]
fn the_one_lens_of_many_kernels_says_so_too() {
    let scratch = Scratch::new();
    let mut server = scratch.builder().start();
    let kernel = |number: usize| format!("\n\n@triton.jit\ndef k{number}(x):\n    tl.store(x, {number})\n");
    let text = format!("import triton\n{}", (0..9).map(kernel).collect::<String>())
        + "\n\ndef run(x):\n"
        + &(0..9).map(|number| format!("    k{number}[(1,)](x)\n")).collect::<String>();
    let uri = server.open_file(&scratch.path("project/many.py"), &text);
    assert_eq!(server.lens_titles(&uri), [format!("{CLOSED} · 9 kernels")]);
}

#[test]
fn trust_that_is_taken_back_ends_at_the_next_check() {
    let scratch = Scratch::new();
    let project = scratch.path("project");
    scratch.file().grant(&Place::below(&project)).expect("written");
    let (mut server, uri) = scratch.start();
    server.save(&uri, None);
    check_passes(&mut server, &uri);
    scratch.file().revoke(&project).expect("written");
    server.change(&uri, 2, None, &format!("{COPY}x = 1\n"));
    server.save(&uri, None);
    answer(&mut server, "Not now");
    server.lens_until(&uri, CLOSED);
    // A save of the code that was judged: its environment has changed, as far as anybody may look. No second question,
    // which the end of the session would find unanswered.
    server.memory.has_changed.store(true, std::sync::atomic::Ordering::Relaxed);
    server.change(&uri, 3, None, COPY);
    server.save(&uri, None);
    server.lens_until(&uri, CLOSED);
}

#[test]
fn the_command_line_grants_trust_to_a_server_that_runs() {
    let scratch = Scratch::new();
    let (mut server, uri) = scratch.start();
    server.save(&uri, None);
    answer(&mut server, "Not now");
    assert_eq!(server.lens_titles(&uri), [CLOSED]);
    scratch.file().grant(&Place::below(&scratch.path(""))).expect("written");
    server.save(&uri, None);
    check_passes(&mut server, &uri);
}

#[test]
fn a_broken_file_is_named_and_trusts_nothing() {
    let scratch = Scratch::new();
    scratch.file().grant(&Place::below(&scratch.path("project"))).expect("written");
    let text = fs::read_to_string(scratch.remembered()).expect("readable");
    fs::write(scratch.remembered(), &text[1..]).expect("written");
    let (mut server, uri) = scratch.start();
    let told = server.notification::<ShowMessage>().message;
    assert!(
        told.contains(scratch.remembered().to_str().expect("UTF-8")) && told.contains("delete it"),
        "{told}"
    );
    server.save(&uri, None);
    answer(&mut server, "Trust");
    let told = server.notification::<ShowMessage>().message;
    assert!(told.contains("until the server ends") && told.contains("broken"), "{told}");
    check_passes(&mut server, &uri);
    assert_eq!(fs::read_to_string(scratch.remembered()).expect("kept"), text[1..]);
}

#[test]
fn without_a_place_to_remember_it_trust_lasts_as_long_as_the_server() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        let mut server = Builder::default().asks_user(None).folder(&scratch.path("project")).start();
        let uri = server.open_file(&scratch.path("project/copy.py"), COPY);
        server.save(&uri, None);
        answer(&mut server, "Trust");
        let told = server.notification::<ShowMessage>().message;
        assert!(told.contains("until the server ends"), "{told}");
        check_passes(&mut server, &uri);
    }
}

#[test]
fn a_client_that_never_answers_has_everything_but_checks() {
    let scratch = Scratch::new();
    let (mut server, uri) = scratch.start();
    server.save(&uri, None);
    question(&mut server);
    server.change(&uri, 2, None, &format!("{COPY}x = 1\n"));
    server.save(&uri, None);
    assert_eq!(server.lens_titles(&uri), [CLOSED]);
    server.command("warpsmith.check", &uri).expect("accepted");
    let told = server.notification::<ShowMessage>().message;
    let project = scratch.path("project");
    assert!(told.contains(&format!("`warpsmith trust {}`", project.display())), "{told}");
    scratch.file().grant(&Place::below(&project)).expect("written");
    server.save(&uri, None);
    check_passes(&mut server, &uri);
}

#[test]
fn a_client_that_shows_no_question_is_told_the_command_line() {
    let scratch = Scratch::new();
    for refuses in [false, true] {
        let (mut server, uri) = scratch.start();
        server.save(&uri, None);
        let (id, _) = question(&mut server);
        if refuses {
            server.refuse(id);
        } else {
            server.answer(id, Value::Null);
        }
        let told = server.notification::<ShowMessage>().message;
        assert!(told.contains("`warpsmith trust "), "{told}");
        server.save(&uri, None);
        assert_eq!(server.lens_titles(&uri), [CLOSED]);
    }
}

/// One question for a folder, however many of its files are saved meanwhile; all of them run then.
#[test]
fn one_question_for_all_files_of_a_folder() {
    let scratch = Scratch::new();
    let (mut server, uri) = scratch.start();
    let other = server.open_file(&scratch.path("project/other.py"), COPY);
    server.save(&uri, None);
    let (id, _) = question(&mut server);
    server.save(&other, None);
    // Answered by the loop after the save's check was: nothing of it is on its way.
    server.command("warpsmith.check", &other).expect("accepted");
    server.notification::<ShowMessage>();
    server.answer(id, json!({ "title": "Trust" }));
    check_passes(&mut server, &uri);
    check_passes(&mut server, &other);
}

#[test]
fn a_file_of_no_project_is_trusted_with_its_neighbours_alone() {
    let scratch = Scratch::new();
    let (mut server, _) = scratch.start();
    let loose = server.open_file(&scratch.path("loose.py"), COPY);
    let cloned = server.open_file(&scratch.path("cloned/copy.py"), COPY);
    server.save(&loose, None);
    let (id, words) = question(&mut server);
    assert!(words.contains("the files in") && words.contains("not those in folders below"), "{words}");
    server.answer(id, json!({ "title": "Trust" }));
    check_passes(&mut server, &loose);
    assert_eq!(server.lens_titles(&cloned), [CLOSED]);
    let neighbour = server.open_file(&scratch.path("neighbour.py"), COPY);
    assert_eq!(server.lens_titles(&neighbour), ["▶ check"]);
}

/// What a link leads to is what would be run.
#[test]
fn a_link_is_what_it_leads_to() {
    let scratch = Scratch::new();
    let (project, link, other) = (scratch.path("project"), scratch.path("link"), scratch.path("other"));
    symlink(&project, &link).expect("a link");
    fs::create_dir(&other).expect("a folder");
    fs::write(other.join("copy.py"), COPY).expect("written");
    symlink(other.join("copy.py"), project.join("linked.py")).expect("a link");
    scratch.file().grant(&Place::below(&link)).expect("written");
    let mut server = Builder::default().asks_user(Some(&scratch.remembered())).folder(&link).start();
    let through_link = server.open_file(&link.join("copy.py"), COPY);
    assert_eq!(server.lens_titles(&through_link), ["▶ check"]);
    let linked = server.open_file(&link.join("linked.py"), COPY);
    assert_eq!(server.lens_titles(&linked), [CLOSED]);
    server.save(&linked, None);
    let (id, words) = question(&mut server);
    assert!(words.contains(&format!("the files in {}", other.display())), "{words}");
    server.answer(id, json!({ "title": "Not now" }));
    // A link that is turned round between the look at it and the run.
    server.save(&through_link, None);
    check_passes(&mut server, &through_link);
    fs::remove_file(&link).expect("it was there");
    symlink(&other, &link).expect("a link");
    server.change(&through_link, 2, None, &format!("{COPY}x = 1\n"));
    server.save(&through_link, None);
    server.lens_until(&through_link, CLOSED);
}

#[test]
fn an_editor_with_a_trust_of_its_own_decides() {
    let scratch = Scratch::new();
    scratch.file().grant(&Place::below(Path::new("/"))).expect("written");
    let mut server = Builder::default().restricted().folder(&scratch.path("project")).start();
    let uri = server.open_file(&scratch.path("project/copy.py"), COPY);
    assert_eq!(server.lens_titles(&uri), [CLOSED]);
    server.save(&uri, None);
    server.command("warpsmith.check", &uri).expect("accepted");
    let told = server.notification::<ShowMessage>().message;
    assert!(told.contains("trust this workspace in your editor"), "{told}");
    let refused = server.command("warpsmith.trust", &uri).expect_err("refused");
    assert!(refused["message"].as_str().is_some_and(|words| words.contains("in your editor")), "{refused}");
}

/// Some editors let a folder set these options, and a folder must not vouch for itself.
#[test]
fn the_option_alone_grants_nothing() {
    let scratch = Scratch::new();
    let mut server = scratch.builder().settings(json!({ "untrustedWorkspace": false })).start();
    let told = server.notification::<ShowMessage>().message;
    assert!(told.contains("`untrustedWorkspace` is false"), "{told}");
    let uri = server.open_file(&scratch.path("project/copy.py"), COPY);
    server.save(&uri, None);
    answer(&mut server, "Not now");
    assert_eq!(server.lens_titles(&uri), [CLOSED]);
}

#[test]
fn the_status_says_so() {
    let scratch = Scratch::new();
    let mut server =
        scratch.builder().capability("/experimental/serverStatusNotification", json!(true)).start();
    let status = server.notification::<ServerStatus>();
    assert_eq!((status.trusted, status.message.as_deref()), (false, Some("not trusted: nothing is run")));
    let uri = server.open_file(&scratch.path("project/copy.py"), COPY);
    server.command("warpsmith.trust", &uri).expect("accepted");
    answer(&mut server, "Trust");
    let status = server.notification::<ServerStatus>();
    assert_eq!((status.trusted, status.message), (true, None));
}
