"""The suite on many machines of a cluster. The folder of a fleet is all its state.

`plan` is what is wanted, `progress` what the folder and the queue say is done or in flight, `slurm` the four commands
of the scheduler, `node` what is started on each machine, `command` what a person types, `options` how it is typed.
"""
