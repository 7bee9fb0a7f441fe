SCALE = 2.0


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64, "BLOK": 2}), triton.Config({"BLOCK": 128})],
    key=["N"],
)
@triton.jit
def everything(x_ptr, total_ptr, n, x_row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, 96)
    x = tl.load(x_ptr + row * x_row_stride + offsets)
    x = x * SCALE
    tl.store(x_ptr + row * x_row_stride + offsets, x)
    narrow = x.to(tl.bfloat16)
    tl.atomic_add(total_ptr, tl.sum(narrow, axis=0))


def run(x, batch_size):
    total = torch.empty(1)
    # warpsmith: allow(grid-axis-limit)
    everything[(4, batch_size)](x, total, x.numel(), x.stride(0))
    return total
