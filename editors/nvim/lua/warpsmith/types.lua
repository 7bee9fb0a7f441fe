---@meta

---`vim.g.warpsmith`
---@class warpsmith.Options
---Whether lenses are shown and kept up to date; true if absent.
---@field codelens? boolean
---Whether the time stands behind the `def`. If absent it does where no other server of the buffer has inlay hints.
---@field inlay_hints? boolean

---One thing that warpsmith is doing, as its last progress message told it.
---@class warpsmith.Progress
---@field title string
---@field message? string
---@field percentage? integer

---`experimental/serverStatus`
---@class warpsmith.ServerStatus
---@field health 'ok'|'warning'|'error'
---@field quiescent boolean
---@field message? string
---Whether code of the open kernels may be run.
---@field trusted? boolean

---What the lens row of one kernel says.
---@class warpsmith.KernelState
---0-based line of the lens.
---@field line integer
---@field kernel? string
---@field title string
---@field state 'wrong'|'other'|'unchecked'|'passed'

---What `warpsmith doctor --json` says.
---@class warpsmith.DoctorReport
---@field can_check boolean
---@field checks warpsmith.DoctorCheck[]

---@class warpsmith.DoctorCheck
---@field name string
---`found`, `missing`, `warning`, `not-applicable`
---@field state string
---@field detail string
---@field remedy? string

---What `settings.warpsmith` may hold. The server asks for it at the start and at every change, and tells mistakes itself.
---@class warpsmith.Settings
---@field python? { path?: string }
---`quick` if absent
---@field check? { onSave?: 'off'|'static'|'quick'|'full' }
---@field gpu? warpsmith.GpuSettings
---@field lint? warpsmith.LintSettings

---@class warpsmith.GpuSettings
---`auto` (if absent), `cpu`, `cuda`, `cuda:1` …
---@field device? string
---`correctness` if absent
---@field whenBusy? 'skip'|'correctness'

---@class warpsmith.LintSettings
---Whether static findings are shown; true if absent.
---@field enable? boolean
---Names of static findings that are not shown.
---@field disable? string[]
