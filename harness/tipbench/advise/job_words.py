"""What the survey says of a job as it is: where its time goes, and what of it makes measuring hard."""

from __future__ import annotations

from tipbench.given.diagnosis import DISTURBED, NOT_DIAGNOSED, diagnose
from tipbench.given.survey import SLOPE_PARTS, Survey
from tipbench.records.record import BACKWARD, FORWARD, LOADING, OPTIMIZER
from tipbench.tip.wording import percent, plural, seconds, size

PHASE_NAMES = {
    LOADING: "loading",
    FORWARD: "the forward pass",
    BACKWARD: "the backward pass",
    OPTIMIZER: "the optimizer",
}

SLOW_S = 10.0
"""To import or to build a job, from which on it is sentences."""

VISIBLE_SHARE = 0.005
"""Of a step's time: the least that is sentences of a phase."""


def headline(survey: Survey) -> str:
    """`train.py:job: a training of 11.2 M parameters, about 52.1 ms a step on cpu`."""
    kinds = {
        "training": "a training",
        "inference": "an inference",
        "step": "a step of which nothing is known",
        "command": "a command",
    }
    count = survey.parameters
    parameters = f" of {f'{count / 1e6:.1f} M' if count >= 1e6 else f'{count:,}'} parameters" if count else ""
    what = f"{kinds[survey.kind]}{parameters}"
    return f"{survey.name}: {what}, about {seconds(survey.step_s)} a step on {survey.device}"


def lost_cores(survey: Survey) -> list[str]:
    """That the job's own file takes cores from it, which no tip gives back."""
    if survey.cores >= survey.cores_before:
        return []
    left, file = plural(survey.cores, "core"), survey.name.rpartition(":")[0]
    return [
        f"{file} leaves the job {survey.cores} of the {survey.cores_before} cores that it was started with: before all "
        "else undo what binds it, such as os.sched_setaffinity in the file or in a library that it imports. What "
        f"follows holds for {left}."
    ]


def slow(survey: Survey) -> list[str]:
    """Sentences on what makes each measurement of this job take long, without its steps, or another one than the
    person's own program."""
    sentences, file = [], survey.name.rpartition(":")[0]
    if survey.variables:
        sentences.append(
            f"The job runs with {', '.join(survey.variables)}, from your shell{f' or from {file}' if file else ''}, on "
            f"both sides; torch has {plural(survey.threads, 'thread')}."
        )
    if survey.too_late:
        sentences.append(
            f"{file} sets {', '.join(survey.too_late)} after it has imported torch, which read its settings then: the "
            f"job runs with {plural(survey.threads, 'thread')}, as in your own program. Set them before."
        )
    if survey.unlike:
        first, again = map(seconds, survey.unlike)
        sentences.append(
            f"The first run took {first}, and the next {again}. If a run goes on from what an earlier one has left, as "
            "from a checkpoint, runs are not alike and no number here is of a whole one: let the command remove that."
            if survey.kind == "command"
            else f"Loading an item takes {first}, and {again} again, as the data set keeps it: a first "
            "epoch is unlike all later ones, most steps here are of first epochs, and memory grows with what is kept."
        )
    if survey.import_s >= SLOW_S:
        sentences.append(
            f"Importing {file} takes {seconds(survey.import_s)} in each process that measures: what runs a training "
            'belongs below `if __name__ == "__main__":`.'
        )
    if survey.build_s >= SLOW_S:
        sentences.append(
            f"Building the job takes {seconds(survey.build_s)}, and it is built about six times to check a tip and "
            "twice for each launch: give a budget of hours, or let it read from a file what it prepares."
        )
    return sentences


def where(survey: Survey) -> list[str]:
    """Sentences on where the time goes, the first of them in a word, and what no tip can bring more than; none of a
    step that is not known."""
    diagnosis = diagnose(survey)
    shares = {phase: share for phase in PHASE_NAMES if (share := survey.share(phase)) >= VISIBLE_SHARE}
    if diagnosis.word in (DISTURBED, NOT_DIAGNOSED):
        sentences = [_sentence(diagnosis.evidence)] if diagnosis.evidence else []
        return [*sentences, *slopes(survey)]
    spent = ", ".join(f"{PHASE_NAMES[phase]} {percent(share)}" for phase, share in shares.items())
    sentences = [f"Where the time goes: {diagnosis}."]
    sentences.append(f"Of a step's time: {spent}{' in a first epoch' if survey.unlike else ''}.")
    sentences += [_sentence(diagnosis.evidence)] if diagnosis.evidence else []
    for phase in (LOADING, OPTIMIZER):
        if phase in shares and shares[phase] < 1 and not (phase == LOADING and survey.unlike):
            sentences.append(f"Making {PHASE_NAMES[phase]} free would give at most {1 / (1 - shares[phase]):.2f}x.")
    if first := dict.fromkeys(way.tip for way in survey.ways if way.first and not way.why_not):
        sentences.append(f"Tried before all others, as they can act on that: {', '.join(first)}.")
    elif barred := next((way for way in survey.ways if way.first), None):
        sentences.append(f"What could act on that, {barred.tip}, is not tried: {barred.why_not}.")
    return [*sentences, *slopes(survey)]


def slopes(survey: Survey) -> list[str]:
    """What many steps in a row showed to change."""
    sentences, part = [], survey.steps // SLOPE_PARTS
    if survey.slower:
        sentences.append(
            f"Steps get slower: the last {part} of {survey.steps} took {survey.slower:.1f} times as long as the "
            f"first {part}. Look for what grows with each step, such as a list that is gone through."
        )
    if survey.grows:
        sentences.append(
            f"Memory grows: by {size(survey.grows)} with each of {survey.steps} steps. Look for what keeps them, such "
            "as a list of losses without .item(), or a cache without an end."
        )
    return sentences


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
