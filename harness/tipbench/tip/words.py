"""All words a benchmark file is written in, so that it needs one import line: `from tipbench.tip.words import *`."""

# ruff: noqa: F403 - names are passed on here, and nothing else is done
from tipbench.tip.counts import *
from tipbench.tip.job import *
from tipbench.tip.mechanism import *
from tipbench.tip.needs import *
from tipbench.tip.pair import *
from tipbench.tip.process import *
from tipbench.tip.reason import *
from tipbench.tip.sizes import *
from tipbench.tip.training import *
from tipbench.tip.way import *
