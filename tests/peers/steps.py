"""The step that a tool is asked to time."""

from __future__ import annotations

import os

import torch

from tests.peers import pairs
from tests.peers.cases import CASE, SEED, SIDE
from tipbench.tip.pair import Step


def chosen(side: str = "") -> Step:
    """Build the step of $PEERS_CASE. side: baseline or optimized; without one $PEERS_SIDE."""
    pair = getattr(pairs, os.environ[CASE])(torch.device("cpu"))
    torch.manual_seed(int(os.environ[SEED]))
    step: Step = getattr(pair, side or os.environ[SIDE])()
    return step
