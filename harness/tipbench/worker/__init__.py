"""The measured process: it builds a pair's variants, and times, checks and counts what the parent requests.

It decides nothing, and knows no schedule and no statistics. `engine` imports only `protocol` of this room.

From the entry point inwards: `serve` answers the requests that `protocol` carries, `session` has one method for each,
`ranks` keeps several processes in lockstep, `guard` runs the pair's code. `checks` examines a variant, with `outputs`
(are two results the same?) and `reuse` (was an earlier result returned again?); `clock`, `disturbance` and `memory`
measure it. Nothing that times or judges may be imported after the pair's file,
which `guard` imports. `switches` lists the process-wide switches that a variant must not leave changed.
"""
