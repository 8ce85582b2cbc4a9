"""Why there is no result: a code with fields, and the one place where codes become sentences.

Numbers and known words are fields, and may be published. What a person's code raised, printed or named is `detail`,
which stays on the machine that measured.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

WITHHELD = "why is kept on the machine that measured"


class Sentence(NamedTuple):
    """A sentence with the names of fields in braces, and {detail}.

    Attributes:
        text: what happened.
        remedy: what to do; may be empty.
        unnamed: replaces the detail where it is missing.
    """

    text: str
    remedy: str = ""
    unnamed: str = ""


@dataclass(frozen=True)
class Reason:
    """Why something has no result.

    Attributes:
        code: a key of SENTENCES; a code of another version shows its detail alone. The part before the dot is the kind
            of failure, or "needs" for what cannot run here.
        fields: numbers and words that the sentence names, and "rank", the rank it is about.
        detail: the part of the sentence that is a person's own.
        fix: what to do, if that names something of a person's; else the sentence's remedy holds.
    """

    code: str
    fields: Mapping[str, int | float | str] = field(default_factory=dict)
    detail: str = ""
    fix: str = ""

    @property
    def kind(self) -> str:
        """The kind of failure in two words, such as "step raised"; empty for what cannot run here."""
        kind = self.code.partition(".")[0]
        return "" if kind == NEEDS else kind.replace("-", " ")

    @property
    def text(self) -> str:
        """The sentence."""
        rank = " (rank {rank})" if "rank" in self.fields else ""
        return self._filled(SENTENCES.get(self.code, RAISED).text + rank)

    @property
    def remedy(self) -> str:
        """What a person can do about it; may be empty."""
        return self.fix or self._filled(SENTENCES.get(self.code, RAISED).remedy)

    def _filled(self, text: str) -> str:
        unnamed = SENTENCES.get(self.code, RAISED).unnamed
        return _WORDS.vformat(text, (), {**self.fields, "detail": self.detail or unnamed})


class _Words(string.Formatter):
    """`{count:GPU}` is "1 GPU" or "2 GPUs". A field that is missing, or of another type, never raises: records of
    other versions are read too."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key), "?")

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec[:1].isupper():
            return f"{value} {format_spec}{'s' * (value != 1)}"
        try:
            return format(value, format_spec)
        except (ValueError, OverflowError):  # "nan", for what JSON has no number for; a number beyond any float
            return str(value)


_WORDS = _Words()

NEEDS = "needs"
"""The first part of codes that are not failures."""

RAISED = Sentence("{detail}", unnamed=WITHHELD)
"""What a person's code raised or returned, which says it itself."""

NEWER_GPUS = "run on newer GPUs"
WITH_GPUS = "run on a machine with {wanted:GPU} and a CUDA build of torch"

NEEDS_SENTENCES = {
    "own": RAISED,
    "device": Sentence("runs on {devices}, not on {device}", "--device {other}"),
    "gpus": Sentence("needs {wanted:CUDA GPU}: {found} found{detail}", WITH_GPUS),
    "cuda": Sentence("needs {wanted:CUDA GPU}: this torch was built without CUDA{detail}", WITH_GPUS),
    "cores": Sentence("needs {wanted} cores: {found} available", "run on a larger machine, or widen the CPU affinity"),
    "c++-compiler": Sentence(
        "needs a C++ compiler: none of $CXX, g++, c++, clang++ found", "install g++ or clang++"
    ),
    "c-compiler": Sentence("needs a C compiler for Triton: none of $CC, gcc, clang, cc found", "install gcc or clang"),
    "triton": Sentence("needs Triton, which torch.compile uses on GPUs: it is not installed", "pip install triton"),
    "triton-gpu": Sentence("needs GPUs of compute capability 7.0, which are what Triton compiles for", NEWER_GPUS),
    "bfloat16-gpu": Sentence("needs GPUs of compute capability 8.0, which multiply bfloat16", NEWER_GPUS),
    "tf32-gpu": Sentence("needs GPUs of compute capability 8.0, which round to TF32", NEWER_GPUS),
    "bfloat16-cpu": Sentence(
        "needs AVX512-BF16 or AMX, which multiply bfloat16", "run on a newer processor, or on a GPU"
    ),
    "numa-nodes": Sentence("{found:NUMA node}; needs {wanted}", "run on a machine with several sockets"),
    "native": Sentence("{library} not found", "run `make native`"),
    "package": Sentence("the Python package {package} is not installed", "pip install {package}"),
    "torchvision": Sentence("torchvision cannot be imported{detail}", "install the torchvision that fits this torch"),
    "onednn-fusion": Sentence("this torch has no torch.jit.enable_onednn_fusion", "use torch.compile"),
    "onednn-graph": Sentence("this build of torch has no oneDNN Graph", "install a torch that has oneDNN"),
    "ranks": Sentence("has no ranks, so nothing of it would run on other nodes", "run it without --nnodes"),
    "even-ranks": Sentence(
        "{ranks} ranks cannot be shared out evenly among {nodes} nodes", "run it with another --nnodes"
    ),
}  # fmt: skip

DRAW = (
    "draw inputs or weights from the generators of random, numpy.random and torch, which are seeded before each build; "
    "a pair that has nothing to draw says `seeded = False`"
)
OUTPUT = "an output"
SWITCH = "a switch of the process was changed and left changed"

FAILURES = {
    **dict.fromkeys(
        (
            *("import-error", "build-raised", "step-raised", "work-raised", "out-of-memory", "not-storable"),
            "exited.raised",
        ),
        RAISED,
    ),
    "hang": Sentence("no answer within {seconds:g} s while doing: {doing}{detail}"),
    "killed": Sentence("ended by SIGKILL while doing: {doing}; most often the kernel's out-of-memory killer"),
    "crashed": Sentence("{signal} while doing: {doing}{detail}"),
    "exited": Sentence("left with exit code {code} while doing: {doing}{detail}"),
    "output-flood": Sentence("printed over {mib} MiB while doing: {doing}"),
    "unreadable-answer": Sentence("the worker's answer could not be read{detail}; while doing: {doing}"),
    "temporary-folder-full": Sentence("{detail}", unnamed="make room in it"),
    "global-switch.import": Sentence(
        "{detail}; both sides would run with it; enter and leave it with @within on the variant that is about it, or "
        "set it with @process_settings",
        unnamed=SWITCH,
    ),
    "global-switch.variant": Sentence(
        "{detail}; the other side runs with it too; enter and leave it with @within, or give the variant "
        "@process_settings of its own",
        unnamed=SWITCH,
    ),
    "global-switch.work": Sentence("{detail}; undo it there", unnamed=SWITCH),
    "shared-cache": Sentence(
        "{where} sets {detail}, and what that decides is kept in a cache of the process, from which the other side "
        "runs too; give the variant @process_settings(own_process=True)",
        unnamed="a switch",
    ),
    "no-output": Sentence(
        "{where}: the step returned {detail}", unnamed="nothing that can be compared; return what it computed"
    ),
    "not-finite": Sentence("{where}: {detail} holds NaN or infinity", unnamed=OUTPUT),
    "all-zeros": Sentence("{where}: every output is zero"),
    "different-results.names": Sentence("{where}: only one side returned {detail}", unnamed="some of the outputs"),
    "different-results.shapes": Sentence("{where}: {detail}", unnamed="an output has two shapes"),
    "different-results.error": Sentence("{where}: error {error:.2g} against fp64; {allowed:.2g} allowed"),
    "different-results.values": Sentence(
        "{where}: {detail} differs by {difference:.2g} of its largest value; {allowed:.2g} allowed", unnamed=OUTPUT
    ),
    "different-results.bits": Sentence(
        "{where}: {detail} differs by {difference:.2g} of its largest value; bitwise equality of values and dtypes is "
        "wanted",
        unnamed=OUTPUT,
    ),
    "stale-results.seeds": Sentence("{where}: the {side}'s outputs are the same for every seed; " + DRAW),
    "stale-results.step": Sentence(
        "{where}: step {step} returned what step {before} had returned, which the harness had overwritten meanwhile; "
        "compute it anew, or return a clone of what is updated in place, or of an input where the result is a view of "
        "one"
    ),
    "stale-results.nan": Sentence(
        "{where}: step {step} returned NaN, computed from what step {before} had returned, which the harness had "
        "overwritten meanwhile; compute it anew, or return a clone of what is updated in place, or of an input where "
        "the result is a view of one"
    ),
    "idle-step": Sentence(
        "{where}: step {step} returned what an earlier step had left in a tensor, and the harness had overwritten "
        "meanwhile; compute it anew in every step"
    ),
    "not-engaged": Sentence("{where}: {detail}", unnamed="the tip is not at work: see the mechanism's counts"),
}  # fmt: skip

BLIND = (
    "torch's profiler sees nothing of the GPU: CUPTI is missing or not permitted here, as on virtual GPUs, on "
    "instances of a card (MIG) and in some containers"
)
"""Why a mechanism on a GPU is not counted."""

SENTENCES: Mapping[str, Sentence] = {
    **{f"{NEEDS}.{what}": sentence for what, sentence in NEEDS_SENTENCES.items()},
    **FAILURES,
}


def field_names(code: str) -> frozenset[str]:
    """The fields that a sentence of SENTENCES may name, and "rank"."""
    sentence = SENTENCES[code]
    named = (name for _, name, _, _ in _WORDS.parse(sentence.text + sentence.remedy) if name)
    return frozenset({*named, "rank"} - {"detail"})
