//! One file per method of the protocol. Those that change state get `&mut GlobalState`; those that only
//! read get a [`super::global_state::Snapshot`] and run on a worker.

pub(crate) mod code_action;
pub(crate) mod code_lens;
pub(crate) mod did_change;
pub(crate) mod did_change_configuration;
pub(crate) mod did_close;
pub(crate) mod did_open;
pub(crate) mod did_save;
pub(crate) mod execute_command;
pub(crate) mod hover;
pub(crate) mod initialize;
pub(crate) mod initialized;
pub(crate) mod inlay_hint;
pub(crate) mod shutdown;
pub(crate) mod work_done_progress_cancel;
