"""A file that ends the process which imports it."""

import os

from tipbench.tip.pair import Claim, Tip

TIP = Tip(id="import-exits", title="Leave at import", guide=(), claim=Claim.FASTER)

os._exit(7)
