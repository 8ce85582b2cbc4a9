"""A file that crashes the process which imports it."""

import ctypes

from tipbench.tip.pair import Claim, Tip

TIP = Tip(id="import-segfaults", title="Crash at import", guide=(), claim=Claim.FASTER)

ctypes.string_at(0)
