"""The Python side of warpsmith: processes that run a user's Triton file and measure what it computes.

    supervisor   owns stdio, speaks JSON lines with the server, never imports user code
    └─ zygote    torch and Triton imported once; forks the runners
       ├─ judge      makes inputs, computes references, compares memory; runs only our code
       └─ candidate  one for each opened file; imports and calls the user's code

`protocol.rs` describes the messages between the server and the supervisor. What decides is memory that
the judge owns; a candidate only says "done" or "raised".
"""

PROTOCOL_VERSION = 1
