"""The worker's end of the pipe: builds a pair's variants and times, checks or weighs what it is told.

Started as `python -m harness.worker_main RANKS SOCKET TASK`, or forked by `harness.fork_server`. It
decides nothing: no schedule, no statistics. With several ranks it starts torchrun, whose processes run
this file again with RANK set; rank 0 holds the pipe and hands each request to the others.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib
import json
import os
import random
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness.orphans import die_with_parent
from harness.worker import OUTPUT_LIMIT, WHERE

if TYPE_CHECKING:
    import torch

    from harness.equal import Hoard


NO_MEMORY = ("can't allocate memory", "out of memory", "_STATUS_ALLOC_FAILED")
"""In the messages of torch's allocators, and of cuBLAS, cuDNN and cuSOLVER, which have memory of their own."""

AGENT = "TIPBENCH_AGENT"
"""Environment variable of ranks: the process id of torchrun, which starts them."""


def bound_output() -> None:
    """Let no regular file grow past what nobody needs: a step that floods stdout then gets an OSError."""
    flooded = max(OUTPUT_LIMIT, 8 << 30)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if hard == resource.RLIM_INFINITY or hard > flooded:
        resource.setrlimit(resource.RLIMIT_FSIZE, (flooded, hard))


def run_ranks(ranks: int, path: str, task: str) -> None:
    """Be torchrun for `ranks` processes of this file, or for this node's share of them.

    With several nodes the rendezvous is static: torchrun's others number the nodes as they come, and rank 0
    must be where its pipe is.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    spread = json.loads(task)["rendezvous"]
    if spread:
        nodes, node, host, port = (str(spread[name]) for name in ("nodes", "node", "host", "port"))
        where = ["--nnodes", nodes, "--node-rank", node, "--master-addr", host, "--master-port", port]
        ranks_here = ranks // spread["nodes"]
    else:
        where, ranks_here = ["--standalone"], ranks
    # By itself gloo takes the address of the host's name, which may be that of another network, or of none.
    interface = spread["interface"] if spread else "lo" if sys.platform == "linux" else "lo0"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    os.environ[AGENT] = str(os.getpid())
    try:
        torchrun(
            [
                *(*where, "--nproc-per-node", str(ranks_here), "--monitor-interval", "1"),
                *("-m", "harness.worker_main", str(ranks), path, task),
            ]
        )
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        (Path(path).parent / "exit-codes.json").write_text(json.dumps(codes))
        raise


class Failed(Exception):
    """What the worker answers instead of a result: the kind and reason of a failed record."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Ranks:
    """The processes of one torchrun group in lockstep; alone, it does nothing."""

    def __init__(self, count: int, device: str) -> None:
        self.count = count
        self._control: Any = None
        self.rank = int(os.environ.get("RANK", "0"))
        if count > 1:
            import torch.distributed as dist

            dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
            # A group of its own, so that counting a step's collectives never counts the harness's.
            self._control = dist.new_group(backend="gloo")

    def meet(self) -> None:
        """Wait until all ranks are here."""
        if self.count > 1:
            import torch.distributed as dist

            dist.barrier(group=self._control)

    def share(self, request: Any) -> Any:
        """Rank 0's request, on every rank."""
        if self.count == 1:
            return request
        import torch.distributed as dist

        box = [request]
        dist.broadcast_object_list(box, src=0, group=self._control)
        return box[0]

    def gather(self, answer: Any) -> list[Any]:
        """Every rank's answer, on every rank."""
        if self.count == 1:
            return [answer]
        import torch.distributed as dist

        answers: list[Any] = [None] * self.count
        dist.all_gather_object(answers, answer, group=self._control)
        return answers


class Session:
    """The variants of one pair in this process, and one method for each request."""

    def __init__(self, task: dict[str, Any], ranks: Ranks) -> None:
        import torch

        for package in task.get("imports", ()):
            with suppress(Exception):  # the pair meets the same, and tells it
                importlib.import_module(package)
        # With all that it imports: nothing that times or judges may be imported after the pair's file.
        from harness import switches
        from harness.clock import Card
        from harness.discover import load, pair_classes
        from harness.pair import variants

        self.file = Path(task["file"])
        self.clocks, self.switches = switches.clocks(), switches.read()
        module = load(self.file, Path(task["folder"]))
        self._expect_unmoved(
            f"importing {self.file.name}",
            "both sides would run with it; enter and leave it with @scoped on the variant that is about it, "
            "or set it with @surroundings",
        )
        (self.pair_class,) = (cls for cls in pair_classes(module) if cls.__name__ == task["pair"])
        self.variants = {variant.name: variant for variant in variants(self.pair_class)}
        card = os.environ.get("LOCAL_RANK", "0")  # of the ranks on this node
        self.device = torch.device(f"cuda:{card}" if task["device"] == "cuda" else task["device"])
        self.card = Card(self.device) if self.device.type == "cuda" else None
        self.ranks = ranks
        self.steps: dict[str, Callable[[], Any]] = {}
        self.outputs: dict[str, list[Any]] = {}

    def build(self, variant: str, seed: int) -> dict[str, float]:
        """Build a variant's step; answers {"seconds"}."""
        start = perf_counter()
        self.steps[variant] = self._built(variant, seed)
        seconds = perf_counter() - start
        self._expect_restored(variant)
        return {"seconds": seconds}

    def warm(self, variant: str) -> dict[str, float]:
        """Step a built variant until its timings stop falling; answers `clock.warm_up`."""
        from harness.clock import warm_up

        with self._scope(variant):
            # Ranks must take the same number of steps, or one waits for another that has left.
            if self.ranks.count > 1:
                return self._warm_together(variant)
            warm: dict[str, float] = self._guarded(variant, lambda: warm_up(self._numbered(variant), self.device))
            return warm

    def block(self, variant: str, steps: int) -> dict[str, Any]:
        """Time one block of a warm variant; answers `clock.time_block`, the slowest rank's seconds."""
        from harness.clock import time_block, together

        with self._scope(variant):
            step, meet = self.steps[variant], self.ranks.meet
            timed = self._guarded(variant, lambda: time_block(step, steps, self.device, meet, self._scratch))
        everyone = self.ranks.gather(timed)
        # The driver is asked once all ranks are through: while one is asked, no other may still be timed.
        told = {} if self.card is None else {"gpu": together(self.ranks.gather(self.card.read()))}
        return {**timed, "seconds": max(rank["seconds"] for rank in everyone), **told}

    @functools.cached_property
    def _scratch(self) -> torch.Tensor | None:
        """What is overwritten to empty the GPU's L2 cache; not there yet when memory is weighed."""
        import torch

        from harness.clock import EMPTYING_BYTES

        if self.device.type != "cuda" or not self.pair_class.cold:
            return None
        return torch.empty(EMPTYING_BYTES, dtype=torch.int8, device=self.device)

    def observe(self, variant: str, seed: int) -> Any:
        """Count the variant's mechanism on a fresh step; answers the count."""
        step = self._built(variant, seed)
        self._expect_restored(variant)
        pair = self._pair()
        with self._scope(variant):
            return self._guarded(variant, lambda: pair.mechanism(step))

    def work(self, seed: int) -> dict[str, int]:
        """`Pair.work`, added up over the ranks."""
        _seed(seed)
        mine = dict(self._explained("work raised", "work", self._pair().work))
        self._expect_unmoved("work", "undo it there")
        everyone = self.ranks.gather(mine)
        return {what: sum(rank[what] for rank in everyone) for what in mine}

    def engaged(self, baseline: Any, optimized: Any) -> dict[str, Any]:
        """Whether two counts show the tip at work; answers {"engaged", "what"}."""
        what = (self.pair_class.mechanism.__doc__ or "mechanism").strip().split("\n")[0].rstrip(".")
        return {"engaged": bool(self._pair().engaged(baseline, optimized)), "what": what}

    def results(self, variant: str, seeds: list[int], file: str = "") -> None:
        """Keep the variant's outputs after two steps from fresh inputs, one entry a seed; all ranks' also in `file`.

        Between the steps what the first returned is overwritten: handing it out again then shows. With the
        last seed, what a step has kept is too: see `_expect_work`.
        """
        import torch

        from harness.equal import Hoard, Unequal, floats, handed_out_again, scribble, snapshot

        kept: list[dict[str, torch.Tensor]] = []
        for seed in seeds:
            step = self._built(variant, seed) if variant != "reference" else self._reference(seed)
            self._expect_restored(variant)
            hoard = Hoard() if seed == seeds[-1] and self.ranks.count == 1 and variant != "reference" else None
            _seed(seed)
            with self._scope(variant):
                first = self._guarded(variant, step, 1)
                scribble(first)
                result = self._guarded(variant, step, 2)
            if handed_out_again(first, result):
                raise Failed(
                    "stale results",
                    f"{variant}: the second step returned what the first had returned, which the harness had "
                    "overwritten meanwhile; compute it anew, or return a clone of what is updated in place, or of "
                    "an input where the result is a view of one",
                )
            try:
                kept.append(snapshot(result))
            except Unequal as error:
                raise Failed(error.kind, f"{variant}: {error}") from None
            if hoard is not None:
                returned = floats(result)
                del first, result  # what else is alive of them now, the step keeps
                self._expect_work(variant, step, hoard, returned, kept[-1])
        self.outputs[variant] = kept
        if file:
            everyone = self.ranks.gather(kept)
            if self.ranks.rank == 0:
                torch.save(everyone, file)

    def compare(self, variant: str, baseline_file: str = "") -> dict[str, Any]:
        """Compare kept outputs with the baseline's; answers `VariantRecord.equal`."""
        import torch

        from harness.equal import Unequal, compare

        if baseline_file:
            # Each rank with its own outputs; where the baseline had fewer ranks, with the first one's. Only
            # the first rank reads: the file is on its node.
            everyone = self.ranks.share(torch.load(baseline_file) if self.ranks.rank == 0 else None)
            self.outputs["baseline"] = everyone[self.ranks.rank if self.ranks.rank < len(everyone) else 0]
        try:
            return compare(
                self.pair_class.equal,
                self.pair_class.tolerance,
                self.outputs["baseline"],
                self.outputs[variant],
                self.outputs.get("reference", []),
                self.pair_class.target,
            )
        except Unequal as error:
            raise Failed(error.kind, f"{variant}: {error}") from None

    def weigh(self, variant: str, seed: int) -> dict[str, Any]:
        """Cold build, warm-up, memory and energy of one variant; answers {"one_off", "memory", "energy"}."""
        from harness.memory import process_peaks, tensor_peak

        build_s = self.build(variant, seed)["seconds"]
        warm = self.warm(variant)
        with self._scope(variant):
            memory = self._guarded(variant, lambda: process_peaks(self.steps[variant], self.device))
        energy = self._energy(variant, warm["step_s"])
        del self.steps[variant]
        with self._scope(variant):
            live = self._guarded(variant, lambda: tensor_peak(lambda: self._built(variant, seed)))
        if live is not None:
            memory["tensor_peak"] = live
        everyone = self.ranks.gather(memory)
        together = {key: sum(rank[key] for rank in everyone) for key in memory}
        return {"one_off": {"build": build_s, "warm_up": warm["excess_s"]}, "memory": together, "energy": energy}

    def _energy(self, variant: str, step_s: float) -> dict[str, float]:
        card = self.card
        if card is None or self.ranks.count > 1:  # ranks would have to take the same number of steps
            return {}
        with self._scope(variant):
            joules = self._guarded(variant, lambda: card.joules_a_step(self.steps[variant], step_s))
        return {} if joules is None else {"joules_a_step": joules}

    def _pair(self) -> Any:
        return self.pair_class(self.device)

    def _built(self, variant: str, seed: int) -> Callable[[], Any]:
        chosen = self.variants[variant]
        _seed(seed)
        step = self._explained(
            "build raised", f"{variant}", lambda: getattr(self._pair(), chosen.builder)(**chosen.arguments)
        )
        if not callable(step):
            raise Failed(
                "build raised", f"{chosen.builder} returned a {type(step).__name__}; return the step, a callable"
            )
        return step  # type: ignore[no-any-return]

    def _reference(self, seed: int) -> Callable[[], Any]:
        _seed(seed)
        step: Callable[[], Any] = self._explained("build raised", "reference", self._pair().reference)
        return step

    @contextmanager
    def _scope(self, variant: str) -> Iterator[None]:
        """Within the variant's switch; what is changed beyond it and left so is a failure."""
        if variant in self.variants:
            with self.variants[variant].switch():
                yield
        else:
            yield
        self._expect_restored(variant)

    def _expect_restored(self, variant: str) -> None:
        mine = self.variants[variant].surroundings if variant in self.variants else None
        if sum(other.surroundings == mine for other in self.variants.values()) == 1:
            # Alone in its process it may change what cannot be undone: nobody else runs with it.
            from harness import switches

            self.switches = switches.read()
        self._expect_unmoved(
            variant,
            "the other side runs with it too; enter and leave it with @scoped, or give the variant @surroundings "
            "of its own",
        )

    def _expect_unmoved(self, who: str, remedy: str) -> None:
        """Raise Failed if a switch, or a function that times or judges, is not as it was before the pair's file."""
        from harness import switches

        if replaced := switches.replaced(self.clocks, switches.clocks()):
            raise Failed("patched clock", f"{who} replaced {replaced}, which the harness times and judges by")
        if moved := switches.moved(self.switches, switches.read()):
            raise Failed("global switch", f"{who} changed and left changed: {moved}; {remedy}")

    def _expect_work(
        self,
        variant: str,
        step: Callable[[], Any],
        hoard: Hoard,
        returned: list[torch.Tensor],
        ours: Mapping[str, torch.Tensor],
    ) -> None:
        """Raise Failed if the third or fourth step hands out a kept copy of what the one before `returned`.

        They run only where the step keeps such a copy at all. Two, as a step may work every second time.
        ours: the harness's own copies of it.
        """
        from harness.equal import floats, spoiled

        for number in (3, 4):
            if not hoard.spoil(returned, ours.values()):
                return
            with self._scope(variant):
                try:
                    result = self._guarded(variant, step, number)
                except Failed:
                    return  # it computes with what was overwritten, so it does compute
            if spoiled(result):
                raise Failed(
                    "idle step",
                    f"{variant}: step {number} returned what an earlier step had left in a tensor, and the harness "
                    "had overwritten meanwhile; compute it anew in every step",
                )
            returned = floats(result)
            del result

    def _numbered(self, variant: str) -> Callable[[], Any]:
        """The step, telling at which call it raised."""
        step, count = self.steps[variant], 0

        def numbered() -> Any:
            nonlocal count
            count += 1
            return self._guarded(variant, step, count)

        return numbered

    def _guarded(self, variant: str, work: Callable[[], Any], number: int | None = None) -> Any:
        which = f"{variant}, step {number}" if number else variant
        return self._explained("step raised", which, work)

    def _explained(self, kind: str, which: str, work: Callable[[], Any]) -> Any:
        from harness.discover import explain

        try:
            return work()
        except Failed:
            raise
        except BaseException as error:  # a pair may raise anything, SystemExit included
            self.check_output(which)  # a flood ends as an error of the disk or of `bound_output`
            text = str(error)
            if isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY):
                kind = "out of memory"
            raise Failed(kind, f"{which}: {explain(error, self.file)}") from error

    def _warm_together(self, variant: str) -> dict[str, float]:
        """A fixed number of steps for ranks, more for short ones; the slowest rank's best counts."""
        from harness.clock import seconds_on_cpu

        spent = [self._guarded(variant, lambda: seconds_on_cpu(self.steps[variant], 1), 1)]
        count = max(3, min(50, int(0.2 / max(self.ranks.gather(spent[0])))))
        spent += [self._guarded(variant, lambda: seconds_on_cpu(self.steps[variant], 1)) for _ in range(count)]
        best = max(self.ranks.gather(min(spent)))
        return {"step_s": best, "excess_s": max(0.0, sum(spent) - len(spent) * best)}

    def check_output(self, doing: str) -> None:
        """Raise Failed if a step flooded stdout; it is a file here, see `Worker`."""
        if os.fstat(1).st_size > OUTPUT_LIMIT:
            raise Failed("output flood", f"printed over {OUTPUT_LIMIT >> 20} MiB while doing: {doing}")


def _seed(seed: int) -> None:
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed)  # pairs that use NumPy's global generator must repeat too
    torch.manual_seed(seed)


REQUESTS = ("build", "warm", "block", "observe", "work", "engaged", "results", "compare", "weigh")


def serve(ranks: Ranks, path: str, task: dict[str, Any]) -> None:
    """Answer requests until the pipe closes."""
    pipe = None
    if ranks.rank == 0:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        pipe = Connection(connected.detach())

    def reply(answer: dict[str, Any]) -> None:
        if ranks.count > 1 and "failed" in answer:
            # The others wait for this rank in a collective: leave a report and let torchrun end them.
            (Path(path).parent / f"rank-{ranks.rank}.json").write_text(json.dumps(answer))
            os._exit(1)
        if pipe is not None:
            pipe.send_bytes(json.dumps(answer).encode())

    from harness.discover import explain

    try:
        session = Session(task, ranks)
        ranks.meet()
        reply({"answer": "ready"})
    except Failed as failure:
        reply({"failed": failure.kind, "reason": failure.reason})
        return
    except BaseException as error:  # a pair file may raise anything at import
        reply({"failed": "import error", "reason": explain(error, Path(task["file"]))})
        return
    while True:
        try:
            request = ranks.share(json.loads(pipe.recv_bytes()) if pipe is not None else None)
        except EOFError:
            return
        command = request.pop("command")
        assert command in REQUESTS, command
        try:
            answer = getattr(session, command)(**request)
            session.check_output(f"{command} {request.get('variant', '')}".strip())
            reply({"answer": answer})
        except Failed as failure:
            where = f" (rank {ranks.rank})" if ranks.count > 1 else ""
            reply({"failed": failure.kind, "reason": failure.reason + where})
        except Exception as error:
            if ranks.count == 1:
                raise
            # A rank that is lost shows in the others as an error of whatever collective comes next.
            reply({"failed": "exited", "reason": f"{command}: {explain(error, session.file)} (rank {ranks.rank})"})


def main(ranks: str, path: str, task: str) -> None:
    # A rank whose torchrun is gone already would wait for its store for minutes.
    die_with_parent(int(os.environ[AGENT]) if AGENT in os.environ else None)
    work(int(ranks), path, task)


def work(ranks: int, path: str, task: str) -> None:
    """Be a worker, or torchrun for several, until the pipe closes."""
    bound_output()
    faulthandler.register(WHERE)
    if ranks > 1 and "RANK" not in os.environ:
        run_ranks(ranks, path, task)
        return
    described = json.loads(task)
    serve(Ranks(ranks, described["device"]), path, described)


if __name__ == "__main__":
    main(*sys.argv[1:])
