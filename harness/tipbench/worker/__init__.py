"""The measured process: it builds a pair's variants, and times, checks and counts what the parent requests.

It decides nothing, and knows no schedule and no statistics. `engine` and this room share `protocol` alone.

From the entry point inwards: `serve` answers the requests that `protocol` carries, `session` has one method for each,
`ranks` keeps several processes in lockstep, `guard` runs the pair's code. A variant is examined by `checks`, with
`outputs` (are two results the same?), `reuse` (was an earlier result handed out again?) and `answers` (can a record
hold it?); it is measured by `clock`, `disturbance` and `memory`. Nothing that times or judges may be imported after
the pair's file, which `guard` imports: `switches` knows what must not be replaced or left changed.
"""
