"""A file that cannot be imported."""

from tipbench.tip.pair import Claim, Tip

TIP = Tip(id="import-raises", title="Raise at import", guide=(), claim=Claim.FASTER)

raise RuntimeError("no such weights")
