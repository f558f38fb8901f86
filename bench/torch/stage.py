#!/usr/bin/env python3
"""Measures the stage of `iota bench stage` in PyTorch on the CPU: forward; forward and backward, from a gradient at the
output to one at the input and those of all weights; and the AdamW step. It prints the same JSON under the same names.

Each measurement runs in a process of its own, with the environment that suits PyTorch best; see README.md.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

# Blocks, width, heads, heads of keys and values, feed-forward width, positions, rows: `iota bench stage` has the same.
CASES = {
    "reference": (4, 512, 8, 8, 1408, 256, 4),
    "tiny": (2, 128, 4, 2, 352, 128, 4),
    "small": (3, 384, 6, 2, 1088, 256, 4),
    "t2048": (4, 512, 8, 8, 1408, 2048, 1),
}
EPSILON, THETA = 1e-5, 10000.0


def gflop(case):
    """The work of a forward: with the pairs of query and key that causal attention needs, and with all pairs."""
    blocks, d, heads, kv_heads, f, t, batch = CASES[case]
    weights = blocks * (2 * d * d + 2 * d * (d // heads * kv_heads) + 3 * d * f)
    exact, full = (weights * batch * t + blocks * 2 * d * batch * pairs for pairs in (t * (t + 1) // 2, t * t))
    return 2e-9 * exact, 2e-9 * full


# What a process of its own does: measure one case.


def make_stage(case, mode):
    """Returns the functions forward, forward and backward, and step."""
    import torch
    import torch.nn.functional as F

    blocks, d, heads, kv_heads, f, t, batch = CASES[case]
    head, rows = d // heads, batch * t
    kind = torch.bfloat16 if mode == "weights" else torch.float32
    torch.manual_seed(1)

    shapes = {"norm1": (d,), "q": (d, d), "k": (kv_heads * head, d), "v": (kv_heads * head, d), "o": (d, d),
              "norm2": (d,), "gate": (f, d), "up": (f, d), "down": (d, f)}
    masters = [{name: torch.ones(shape) if len(shape) == 1 else 0.02 * torch.randn(shape) for name, shape in shapes.items()}
               for _ in range(blocks)]
    layers = [{name: w.to(kind).requires_grad_() for name, w in m.items()} for m in masters]
    weights = [w for layer in layers for w in layer.values()]

    angle = torch.arange(t)[:, None] * THETA ** (-2.0 * torch.arange(head // 2) / head)
    cos, sin = (torch.cat((x, x), 1).to(kind) for x in (angle.cos(), angle.sin()))
    mask = torch.full((t, t), float("-inf")).triu(1)
    fused_attention = getattr(F, "scaled_dot_product_attention", None)
    fused_norm = getattr(F, "rms_norm", None)

    def norm(x, w):
        if fused_norm:
            return fused_norm(x, (d,), w, EPSILON)
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)).to(x.dtype) * w

    def rotate(x):
        a, b = x.chunk(2, -1)
        return x * cos.to(x.dtype) + torch.cat((-b, a), -1) * sin.to(x.dtype)

    def split(x, n):
        return x.view(batch, t, n, head).transpose(1, 2)

    def attention(q, k, v):
        if kv_heads != heads:
            k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
        if fused_attention:
            return fused_attention(q, k, v, is_causal=True)
        q, k, v = (x.reshape(batch * heads, t, head) for x in (q, k, v))
        scores = torch.baddbmm(mask.to(q.dtype), q, k.transpose(1, 2), alpha=head ** -0.5)
        return torch.bmm(scores.softmax(-1), v).view(batch, heads, t, head)

    def block(x, w):
        n = norm(x, w["norm1"])
        q, k, v = split(F.linear(n, w["q"]), heads), split(F.linear(n, w["k"]), kv_heads), split(F.linear(n, w["v"]), kv_heads)
        mixed = attention(rotate(q), rotate(k), v).transpose(1, 2).reshape(rows, d)
        h = x + F.linear(mixed, w["o"])
        n = norm(h, w["norm2"])
        return h + F.linear(F.silu(F.linear(n, w["gate"])) * F.linear(n, w["up"]), w["down"])

    x = (0.1 * torch.randn(rows, d)).to(kind).requires_grad_()
    dy = (0.1 * torch.randn(rows, d)).to(kind)

    def forward():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "autocast"):
            y = x
            for layer in layers:
                y = block(y, layer)
        return y

    def both():
        for w in weights + [x]:
            w.grad = None  # as fast as zeroing them, within what runs vary
        y = forward()
        y.backward(dy.to(y.dtype))

    trained = [w for m in masters for w in m.values()] if mode == "weights" else weights
    optimizer = make_optimizer(trained)

    def step():
        if mode != "weights":
            optimizer.step()
            return
        for master, w in zip(trained, weights):
            master.grad = w.grad.float()
        optimizer.step()
        with torch.no_grad():
            for master, w in zip(trained, weights):
                w.copy_(master)

    return forward, both, step


def make_optimizer(weights):
    """AdamW in the fastest form that this version has: fused, or tensor by tensor, which beats foreach on a CPU."""
    import torch

    settings = {"lr": 1e-6, "betas": (0.9, 0.95), "weight_decay": 0.1}
    try:
        return torch.optim.AdamW(weights, fused=True, **settings)
    except (TypeError, RuntimeError):
        return torch.optim.AdamW(weights, foreach=False, **settings)


def timed(call, work):
    """Mean seconds of a call, over the least time of work."""
    began, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - began < work:
        call()
        calls += 1
    return (time.perf_counter() - began) / calls


def measure(case, precision, threads, rounds, work, mode):
    """Returns the results of one case."""
    import torch

    torch.set_num_threads(threads)
    forward, both, step = make_stage(case, mode if precision == "bf16" else "f32")
    for _ in range(2):  # warm up
        both()
        step()
    seconds = {"forward": [], "forward_backward": [], "step": []}
    for _ in range(rounds):
        for name, call in zip(seconds, (forward, both, step)):
            seconds[name].append(timed(call, work))
    times = {name: statistics.median(values) for name, values in seconds.items()}

    exact, full = gflop(case)
    numbers = [("forward_time", 1e3 * times["forward"], "ms"),
               ("forward_speed_exact", exact / times["forward"], "GFLOP/s"),
               ("forward_speed_full", full / times["forward"], "GFLOP/s"),
               ("forward_backward_time", 1e3 * times["forward_backward"], "ms"),
               ("forward_backward_speed_exact", 3 * exact / times["forward_backward"], "GFLOP/s"),
               ("forward_backward_speed_full", 3 * full / times["forward_backward"], "GFLOP/s"),
               ("step_time", 1e3 * times["step"], "ms")]
    peak = process_peak()
    if peak:
        numbers.append(("process_peak", peak / 1e6, "MB"))
    return [{"case": case, "precision": precision, "threads": threads, "metric": metric, "value": value, "unit": unit,
             "reference": "", "reference_value": 0, "ratio": 0} for metric, value, unit in numbers]


def process_peak():
    """The high-water mark of the process's resident memory in bytes, 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return 0


# What the first process does: find the environment, start the others, print.


def describe():
    """Versions and libraries, found in a process that has the environment of the measurements."""
    import ctypes
    import platform

    import torch

    about = {"torch": torch.__version__, "python": platform.python_version(), "cpus": os.cpu_count(), "blas": "", "kernel": "",
             "attention": "scaled_dot_product_attention" if hasattr(torch.nn.functional, "scaled_dot_product_attention") else "softmax",
             "onednn": torch.backends.mkldnn.is_available()}
    try:
        about["capability"] = torch.backends.cpu.get_cpu_capability()
    except AttributeError:
        lines = torch.__config__.show().splitlines()
        about["capability"] = next((line.split(":")[1].strip() for line in lines if "CPU capability" in line), "")
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "blas" in line}
    except OSError:
        paths = set()
    if torch.backends.mkl.is_available():
        about["blas"], paths = "MKL", set()  # an OpenBLAS in memory is that of numpy
    for path in sorted(paths):
        about["blas"] = about["blas"] or path
        try:
            library = ctypes.CDLL(path)
            library.openblas_get_corename.restype = ctypes.c_char_p
            about["blas"], about["kernel"] = path, library.openblas_get_corename().decode()
        except (OSError, AttributeError):
            continue
    # Old OpenBLAS builds have been wrong on processors newer than they are.
    a, b = torch.randn(257, 1030), torch.randn(1030, 129)
    error = ((a @ b).double() - a.double() @ b.double()).abs().max().item()
    about["product_error"] = error
    return about


def environment(threads, core=""):
    """The environment that suits PyTorch best. Threads that spin while they wait take the processor from the others, and
    glibc's usual thresholds give memory back to the system and fetch it again in every pass."""
    dropped = ("OPENBLAS_", "GOTO_", "OMP_", "GOMP_", "KMP_", "MKL_", "MALLOC_", "ATEN_", "DNNL_", "ONEDNN_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    env.update(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="PASSIVE", PYTHONDONTWRITEBYTECODE="1",
               MALLOC_MMAP_THRESHOLD_=str(1 << 30), MALLOC_TRIM_THRESHOLD_=str(8 << 30), MALLOC_TOP_PAD_=str(64 << 20))
    if core:
        env["OPENBLAS_CORETYPE"] = core
    return env


def child(env, *args):
    """Runs this file in a process of its own and returns what it prints."""
    done = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), *args], env=env, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("stage.py: a measurement failed")
    return json.loads(done.stdout)


# OpenBLAS kernels that use AVX2 or AVX-512, and what a processor needs for the ones that may be asked for.
GOOD_CORES = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"}
ASKED_CORES = (("SkylakeX", {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}), ("Haswell", {"avx2", "fma"}))


def best_core(kernel):
    """The OpenBLAS kernels to ask for, "" to leave it alone. A processor newer than the build is taken for a very old
    one, and then products are ten times slower than they need be."""
    try:
        with open("/proc/cpuinfo") as info:
            flags = next((set(line.split(":")[1].split()) for line in info if line.startswith("flags")), set())
    except OSError:
        return ""
    name, _ = next(((n, needs) for n, needs in ASKED_CORES if needs <= flags), ("", None))
    wide = {"SkylakeX", "Cooperlake", "Sapphirerapids"}
    if not kernel or not name or kernel in wide or (kernel in GOOD_CORES and name == "Haswell"):
        return ""
    return name


def run(options):
    """Measures all that is asked for and returns the report."""
    about = child(environment(1), "--describe")
    core = best_core(about["kernel"])
    if core:
        about = child(environment(1, core), "--describe")
    about.update(kernel_asked_for=core, bf16=options.bf16, gradients="none before each pass", rounds=options.rounds,
                 work_seconds=options.work)
    if about["product_error"] > 1e-2:
        sys.exit("stage.py: this BLAS computes wrong products: error %g" % about["product_error"])
    results = []
    for case in options.case:
        for precision in options.precision:
            for threads in options.threads:
                results += child(environment(threads, core), "--measure", case, precision, str(threads), str(options.rounds),
                                 str(options.work), options.bf16)
    return {"name": "torch-stage", "config": about, "results": results}


def show(report):
    """Prints one row per measurement."""
    rows = {}
    for r in report["results"]:
        rows.setdefault((r["case"], r["precision"], r["threads"]), {})[r["metric"]] = r["value"]
    line = "%-10s %-9s %7s %9s %11s %8s %14s %7s %8s"
    print(line % ("case", "precision", "threads", "fwd ms", "fwd+bwd ms", "step ms", "GFLOP/s exact", "full", "peak MB"))
    for key, m in rows.items():
        print(line % (*key, "%.1f" % m["forward_time"], "%.1f" % m["forward_backward_time"], "%.2f" % m["step_time"],
                      "%.1f" % m["forward_backward_speed_exact"], "%.1f" % m["forward_backward_speed_full"],
                      "%.0f" % m.get("process_peak", 0)))
    about = report["config"]
    print("PyTorch %s, %s %s, bf16 by %s" % (about["torch"], about["blas"] or "its own BLAS", about["kernel"], about["bf16"]))


def listed(kind, known=None):
    """An argument that is a comma list."""
    def parse(text):
        values = [kind(part) for part in text.split(",")]
        for value in values:
            if known and value not in known or kind is int and value < 1:
                raise argparse.ArgumentTypeError("%r: use %s" % (value, ", ".join(known) if known else "1 or more"))
        return values
    return parse


def main():
    if sys.argv[1:2] == ["--describe"]:
        return print(json.dumps(describe()))
    if sys.argv[1:2] == ["--measure"]:
        case, precision, threads, rounds, work, mode = sys.argv[2:]
        return print(json.dumps(measure(case, precision, int(threads), int(rounds), float(work), mode)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", type=listed(str, list(CASES)), default=["reference"], help="comma list of " + ", ".join(CASES))
    parser.add_argument("--precision", type=listed(str, ["f32", "bf16"]), default=["f32", "bf16"])
    parser.add_argument("--threads", type=listed(int), default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the median counts")
    parser.add_argument("--work", type=float, default=0.3, help="least seconds of each kind of work in a round")
    parser.add_argument("--bf16", choices=["weights", "autocast"], default="weights",
                        help="bf16 copies of float32 master weights, or autocast")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        sys.exit("stage.py: %s has no PyTorch: bench/torch/README.md says how to install it" % sys.executable)
    report = run(options)
    print(json.dumps(report, indent=2)) if options.json else show(report)


if __name__ == "__main__":
    main()
