"""Launches on a pretended GPU: what Triton would compile runs in its own interpreter, on the same memory.

Not the interpreter of `warpsmith_worker`: nothing is watched here, so a store that misses its tensor lands in
whatever lies there, as on a GPU.
"""


def pretend():
    """Replace how a `JITFunction` runs, before anything wraps that."""
    from triton.runtime.jit import JITFunction

    known = {}

    def interpreted(kernel):
        from triton.runtime.interpreter import InterpretedFunction

        # Not by the kernel: its hash reads the language's functions, which are exchanged while one runs.
        if kernel.fn not in known:
            known[kernel.fn] = InterpretedFunction(kernel.fn)
        return known[kernel.fn]

    def run(self, *arguments, grid, warmup, **named):
        return interpreted(self).run(*arguments, grid=grid, warmup=warmup, **named)

    def call(self, *arguments, **named):
        # A function that a kernel calls.
        return interpreted(self)(*arguments, **named)

    JITFunction.run = run
    JITFunction.__call__ = call
