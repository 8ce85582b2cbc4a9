"""The harness's own sentences: which reason, remedy or notice of a results file may be published, and what of it.

A reason may quote what a person's code raised or printed, and that may hold anything. So a sentence passes only as
one of those below, of which all that varies is a number or a word of a short list.
"""

from __future__ import annotations

import builtins
import re

KINDS = (
    "all zeros",
    "build raised",
    "crashed",
    "different results",
    "exited",
    "global switch",
    "hang",
    "idle step",
    "import error",
    "killed",
    "no output",
    "not engaged",
    "not finite",
    "not storable",
    "out of memory",
    "output flood",
    "patched clock",
    "shared cache",
    "stale results",
    "step raised",
    "temporary folder full",
    "unreadable answer",
    "work raised",
)
"""What a failed record's `kind` can be."""

N = r"\d{1,6}"
NUMBER = r"[-+]?(?:\d{1,12}(?:\.\d{1,6})?(?:e[-+]?\d{1,3})?|inf|nan)"
PACKAGE = r"(?:torchvision|triton|sklearn|scikit-learn|skimage|PIL|pillow|numpy|scipy)"
DEVICE = r"(?:cpu|cuda|mps|xpu)"
CAPABLE = r"(?:multiply bfloat16|round to TF32|are what Triton compiles for)"
RANK = rf"(?:rank {N} )?"
TORCH = r"\d\.\d{1,2}(?:\.\d{1,2})?"
COMMANDS = "starting|build|warm|block|observe|work|engaged|results|compare|measure_memory|weigh"
DOING = rf"(?:{COMMANDS})(?: (?:baseline|optimized))?\b"
TORCHS = (
    *("AcceleratorError", "BackendCompilerFailed", "CppCompileError", "DistBackendError", "DistNetworkError"),
    *("DistStoreError", "InductorError", "InternalTorchDynamoError", "LinAlgError", "OutOfMemoryError", "Unsupported"),
)
PYTHONS = (
    name for name, found in vars(builtins).items() if isinstance(found, type) and issubclass(found, BaseException)
)
RAISED = "|".join(sorted({*PYTHONS, *TORCHS}))
"""Classes of exceptions that Python and torch raise; one of a person's own may be called anything."""

SENTENCES: tuple[tuple[str, str], ...] = (
    # of needs that are not met
    (rf"needs {N} CUDA GPUs?: {N} found(?:, and no pair is written for {DEVICE})?", ""),
    (rf"needs {N} CUDA GPUs?: this torch was built without CUDA(?:, and no pair is written for {DEVICE})?", ""),
    (rf"needs {N} cores: {N} available", ""),
    (r"needs a C\+\+ compiler: none of \$CXX, g\+\+, c\+\+, clang\+\+ found", ""),
    (r"LD_PRELOAD is tried on Linux only", ""),
    (r"lib(?:jemalloc|tcmalloc|iomp5|numa) not found", ""),
    (r"numactl not found", ""),
    (r"reads /proc, which only Linux has", ""),
    (rf"{N} NUMA nodes?; needs {N}", ""),
    (r"needs units for bfloat16: neither a GPU of compute capability 8\.0 nor AVX512-BF16 or AMX found", ""),
    (rf"needs GPUs of compute capability \d\.\d, which {CAPABLE}", ""),
    (r"needs Triton, which torch\.compile uses on GPUs: it is not installed", ""),
    (r"needs a C compiler for Triton: none of \$CC, gcc, clang, cc found", ""),
    (r"needs AVX512-BF16 or AMX, which multiply bfloat16", ""),
    (rf"the Python package {PACKAGE} is not installed", ""),
    (r"(torchvision cannot be imported)(?:: .*)?", r"\1"),
    (rf"runs on {DEVICE}(?: or {DEVICE})?, not on {DEVICE}", ""),
    (r"has no ranks, so nothing of it would run on other nodes", ""),
    (rf"{N} ranks cannot be shared out evenly among {N} nodes", ""),
    (rf"torch {TORCH}(?:\+cpu|\+cu{N})? has no torch\.jit\.enable_onednn_fusion", ""),
    (r"this build of torch has no oneDNN Graph", ""),
    (r"torch's profiler sees nothing of the GPU: CUPTI is missing or not permitted here, [a-zA-Z ,()]+", ""),
    # of failures
    (rf"(no answer within {NUMBER} s while doing: {DOING}).*", r"\1"),
    (rf"{RANK}(ended by SIGKILL while doing: {DOING}).*", r"\1; most often the kernel's out-of-memory killer"),
    (rf"{RANK}(SIG[A-Z]{{2,6}} while doing: {DOING}).*", r"\1"),
    (rf"{RANK}(left with exit code {N} while doing: {DOING}).*", r"\1"),
    (rf"(printed over {N} MiB while doing: {DOING}).*", r"\1"),
    (rf".*(error {NUMBER} against fp64; {NUMBER} allowed).*", r"\1"),
    (rf".* (differs by {NUMBER} of its largest value; {NUMBER} allowed).*", r"an output \1"),
    (rf".* (differs by {NUMBER} of its largest value; bitwise equality of values and dtypes).*", r"an output \1"),
    (rf".* (missed the target of {NUMBER} with {N} of {N} seeds: its lowest score is {NUMBER}).*", r"a side \1"),
    (r".* has shapes (\([\d, ]{0,60}\) and \([\d, ]{0,60}\)).*", r"an output has shapes \1"),
    (
        r".*the (baseline|variant)'s outputs are the same for every seed.*",
        r"the \1's outputs are the same for every seed",
    ),
    (rf".*: ({NUMBER}) -> ({NUMBER})(?: \(rank {N}\))?", r"the mechanism counted \1 -> \2"),
    (rf"(?:[\w=.]+(?:, step {N})?: )?({RAISED})(?::| \().*", r"\1; its message is kept on the machine that measured"),
)
"""(form, what is published of it; "": all of it)."""

REMEDIES = (
    r"run `make native`",
    r"run on a machine with several sockets",
    rf"run on a machine with {N} GPUs? and a CUDA build of torch",
    r"run on a larger machine, or widen the CPU affinity",
    r"install g\+\+ or clang\+\+",
    r"run on Linux(?:, with a torch that has oneDNN)?",
    r"run on a newer GPU or processor",
    r"run on newer GPUs",
    r"install gcc or clang",
    r"run on a newer processor, or on a GPU",
    rf"pip install {PACKAGE}",
    r"install the torchvision that fits this torch",
    rf"--device {DEVICE}",
    r"run it without --nnodes",
    r"run it with another --nnodes",
    r"use torch\.compile",
)

WITHHELD = "why is kept on the machine that measured"

NOTICES = {
    "truncated:": "truncated: the run was ended while it wrote this record; the pair's measurement is lost",
    "not a valid record": "not a valid record; this pair's measurement is lost",
    "not JSON": "not JSON; the record it held is lost",
}
"""By its beginning, what is said of a line that could not be used."""

LONGEST = 600
"""Characters of a sentence that are looked at."""


def kind(found: str) -> str:
    """The kind of a failure, empty where the harness has none of that name."""
    return found if found in KINDS else ""


def reason(found: str) -> str:
    """Why there is no result, as far as it may be published; empty for none."""
    if not found.strip():
        return ""
    for form, published in SENTENCES:
        if fits := re.fullmatch(form, found[:LONGEST], re.DOTALL):
            return fits.expand(published) if published else found
    return WITHHELD


def remedy(found: str) -> str:
    """What a person can do, where it names nothing of theirs; else empty."""
    return found if any(re.fullmatch(form, found) for form in REMEDIES) else ""


def notice(found: str) -> str:
    """What was wrong with a line of a results file."""
    known = next((text for begun, text in NOTICES.items() if found.startswith(begun)), None)
    return known or "it could not be used"
