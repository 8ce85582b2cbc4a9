"""Why there is no result, or no clear one: a code with fields, and the one place where codes become sentences.

Numbers and known words are fields, and may be published. What a person's code raised, printed or named is `detail`,
which stays on the machine that measured.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tipbench.tip.wording import lines_of

WITHHELD = "why is kept on the machine that measured"


class Sentence(NamedTuple):
    """A sentence with the names of fields in braces, and {detail}.

    Attributes:
        text: what happened, without the place.
        remedy: what to do; may be empty.
        unnamed: replaces the detail where it is missing.
    """

    text: str
    remedy: str = ""
    unnamed: str = ""


@dataclass(frozen=True)
class Reason:
    """Why something has no result, or no clear one.

    Attributes:
        code: a key of SENTENCES; a code of another version shows its detail alone. The part before the dot is the kind
            of failure, or one of NO_FAILURE.
        fields: numbers and words that the sentence names, "where" (the variant or its step, or an action) and "rank".
        detail: the part of the sentence that is a person's own.
        fix: what to do, if that names something of a person's; else the sentence's remedy holds.
    """

    code: str
    fields: Mapping[str, int | float | str] = field(default_factory=dict)
    detail: str = ""
    fix: str = ""

    @property
    def kind(self) -> str:
        """The kind of failure in two words, such as "step raised"; empty if it is no failure."""
        kind = self.code.partition(".")[0]
        return "" if kind in NO_FAILURE else kind.replace("-", " ")

    @property
    def is_chance(self) -> bool:
        """Whether the same code need not fail so again: its process was ended, or it raised, as where memory or a file
        was missing for a moment. What its results show stays so."""
        return self.code.partition(".")[0] in CHANCE

    @property
    def text(self) -> str:
        """The sentence, after the place."""
        is_named = "where" in _names(SENTENCES.get(self.code, RAISED).text)
        place = f"{self.fields['where']}: " if "where" in self.fields and not is_named else ""
        return lines_of(place + self.what)

    @property
    def what(self) -> str:
        """The sentence without the place."""
        rank = " (rank {rank})" if "rank" in self.fields else ""
        return self._filled(SENTENCES.get(self.code, RAISED).text + rank)

    @property
    def remedy(self) -> str:
        """What a person can do about it; may be empty."""
        return lines_of(self.fix) or self._filled(SENTENCES.get(self.code, RAISED).remedy)

    def _filled(self, text: str) -> str:
        unnamed = SENTENCES.get(self.code, RAISED).unnamed
        return lines_of(_WORDS.vformat(text, (), {**self.fields, "detail": self.detail or unnamed}))


class _Words(string.Formatter):
    """`{count:GPU}` is "1 GPU" or "2 GPUs", `{effect:change}` by `percent_change`. A field that is missing, or of
    another type, never raises: records of other versions are read too."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key), "?")

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec[:1].isupper():
            return f"{value} {format_spec}{'s' * (value != 1)}"
        try:
            return percent_change(value) if format_spec == "change" else format(value, format_spec)
        except (TypeError, ValueError, OverflowError):  # "nan", for what JSON has no number for; beyond any float
            return str(value)


_WORDS = _Words()


def _names(text: str) -> set[str]:
    return {name for _, name, _, _ in _WORDS.parse(text) if name}


def percent_change(effect: float) -> str:
    """`5 % faster`, `0.4 % slower`. effect: ln t_baseline - ln t_variant."""
    percent = 100 * math.expm1(abs(effect))
    return f"{percent:.{0 if percent >= 2 else 1}f} % {'faster' if effect > 0 else 'slower'}"


NEEDS = "needs"
"""The first part of codes of what cannot run here."""

VERDICT = "verdict"
"""The first part of codes of what was measured and has no clear verdict."""

NO_FAILURE = (NEEDS, VERDICT)

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
    "float8-gpu": Sentence("needs GPUs of compute capability 8.9, which multiply float8", NEWER_GPUS),
    "bfloat16-cpu": Sentence(
        "this machine shows no AVX512-BF16 or AMX, without which it would be slower",
        "run on a newer processor, or on a GPU",
    ),
    "int8-cpu": Sentence(
        "needs AVX512-VNNI or AMX, which multiply integers of 8 bits", "run on a newer processor"
    ),
    "amx": Sentence(
        "this machine shows no AMX, which float32 products in bfloat16 need; amp does not",
        "run on an Intel Xeon whose AMX no virtual machine hides",
    ),
    "numa-nodes": Sentence("{found:NUMA node}; needs {wanted}", "run on a machine with several sockets"),
    "native": Sentence("{library} not found", "run `make native`"),
    "native-path": Sentence(
        "LD_PRELOAD cannot hold the path of {detail}: it has a blank, a colon or a dollar sign",
        "export XDG_CACHE_HOME=/a/path/without/them, then run `make native`; of a library of your own: link to it",
        unnamed="a library",
    ),
    "torch": Sentence("needs torch {wanted}", "pip install --upgrade torch torchvision"),
    "torchao": Sentence("the Python package torchao is not installed", "pip install 'tipbench[low-bit]'"),
    "torchvision": Sentence("torchvision cannot be imported{detail}", "install the torchvision that fits this torch"),
    "onednn-fusion": Sentence("this torch has no torch.jit.enable_onednn_fusion", "use torch.compile"),
    "onednn-graph": Sentence("this build of torch has no oneDNN Graph", "install a torch that has oneDNN"),
}  # fmt: skip

DRAW = (
    "draw inputs or weights from the generators of random, numpy.random and torch, which are seeded before each build; "
    "a pair that has nothing to draw says `seeded = False`"
)
ANEW = (
    "which the harness had overwritten meanwhile; compute it anew, or return a clone of what is updated in place, or "
    "of an input where the result is a view of one"
)
OUTPUT = "an output"
SWITCH = "a switch of the process was changed and left changed"

CAUGHT = ("import-error", "build-raised", "step-raised", "out-of-memory")
CHANCE = (*CAUGHT, "hang", "killed", "crashed", "exited", "unreadable-answer", "temporary-folder-full")
"""Kinds of failure that need not come again, as codes begin."""

FAILURES = {
    **dict.fromkeys((*CAUGHT, "exited.raised", "not-storable"), RAISED),
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
    "shared-cache": Sentence(
        "{where} sets {detail}, and what that decides is kept in a cache of the process, from which the other side "
        "runs too; give the variant @process_settings(own_process=True)",
        unnamed="a switch",
    ),
    "no-output": Sentence(
        "the step returned {detail}", unnamed="nothing that can be compared; return what it computed"
    ),
    "not-finite": Sentence("{detail} holds NaN or infinity", unnamed=OUTPUT),
    "all-zeros": Sentence("every output is zero"),
    "different-results.names": Sentence("only one side returned {detail}", unnamed="some of the outputs"),
    "different-results.shapes": Sentence("{detail}", unnamed="an output has two shapes"),
    "different-results.error": Sentence("error {error:.2g} against fp64; {allowed:.2g} allowed"),
    "different-results.values": Sentence(
        "{detail} differs by {difference:.2g} of its largest value; {allowed:.2g} allowed", unnamed=OUTPUT
    ),
    "different-results.bits": Sentence(
        "{detail} differs by {difference:.2g} of its largest value; bitwise equality of values and dtypes is "
        "wanted",
        unnamed=OUTPUT,
    ),
    "stale-results.seeds": Sentence("the {side}'s outputs are the same for every seed; " + DRAW),
    "stale-results.step": Sentence("step {step} returned what step {before} had returned, " + ANEW),
    "stale-results.nan": Sentence("step {step} returned NaN, computed from what step {before} had returned, " + ANEW),
    "works-ahead": Sentence(
        "works ahead between blocks: timed alone for longer, a step takes {ratio:.3g} times as long (at least "
        "{least:.3g} times), because what its blocks take was computed while other sides were timed; let the step wait "
        "for all that it starts, or take some batches in each step and stop the workers between steps, as "
        "benchmarks/jobs/loading.py does"
    ),
    "loads-much": Sentence(
        "loading takes {percent:g} % of a step on this card, so that a tip about something else cannot show; give the "
        "job batches that are on the card, as benchmarks/jobs/images.py does"
    ),
    "not-engaged": Sentence("{detail}", unnamed="the tip is not at work: see the mechanism's counts"),
}  # fmt: skip

VERDICTS = {
    "another-launch": Sentence("a verdict needs another launch"),
    "all-launches": Sentence("after all {launches} launches"),
    "disturbed": Sentence("{disturbed} of {launches} launches were too disturbed (throttling or stolen time)"),
    "shortage": Sentence(
        "tasks waited for a core {percent:.0f} % of the time: other programs' or the pair's own"
    ),
    "between": Sentence("between {low:change} and {high:change}"),
    "clock": Sentence(
        "the GPU ran the baseline at {baseline_mhz:.0f} MHz and this side at {variant_mhz:.0f} MHz: that may be all of "
        "the effect",
        "lock its clock (as root: nvidia-smi -lgc {lowest_mhz:.0f}), and measure again",
    ),
}  # fmt: skip
"""Why a verdict is inconclusive. Effects and ends of intervals are ln t_baseline - ln t_variant."""

BLIND = (
    "torch's profiler sees nothing of the GPU: CUPTI is missing or not permitted here, as on virtual GPUs, on "
    "instances of a card (MIG) and in some containers"
)
"""Why a mechanism on a GPU is not counted."""

SENTENCES: Mapping[str, Sentence] = {
    **{f"{NEEDS}.{what}": sentence for what, sentence in NEEDS_SENTENCES.items()},
    **FAILURES,
    **{f"{VERDICT}.{what}": sentence for what, sentence in VERDICTS.items()},
}


def reasons_text(reasons: Sequence[Reason]) -> str:
    """The sentences of reasons, each after its kind of failure."""
    sentences = (f"{reason.kind}: {reason.text}" if reason.kind else reason.text for reason in reasons)
    return "; ".join(filter(None, sentences))


def remedies(reasons: Sequence[Reason]) -> str:
    """What a person can do about reasons; may be empty."""
    return "; ".join(filter(None, (reason.remedy for reason in reasons)))


def field_names(code: str) -> frozenset[str]:
    """The fields that a sentence of SENTENCES may name, and those that any may have: "where" and "rank"."""
    sentence = SENTENCES[code]
    return frozenset({*_names(sentence.text + sentence.remedy), "where", "rank"} - {"detail"})
