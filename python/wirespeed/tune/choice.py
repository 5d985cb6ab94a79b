"""Which program is tuned, by what the command line says: targets, their usual knobs, and what a simulation says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wirespeed import _wirespeed
from wirespeed.errors import InputError
from wirespeed.programs import readings
from wirespeed.programs.testpmd import BUFFERS, BURST, CACHE, DESCRIPTORS, KIND, Defaults, Devices, Sampling, Setup
from wirespeed.progress import Callback
from wirespeed.tune import real
from wirespeed.tune.knobs import Knob
from wirespeed.tune.programs import NO_LOSS, STARTS, Predict, knobs_of, tune_program
from wirespeed.tune.real import Forwarder, Program
from wirespeed.tune.search import Plan
from wirespeed.tune.target import Settings
from wirespeed.tune.template import Template, Timing
from wirespeed.tune.tuning import Tuning

# 4 x 5 x 3 x 2 x 4 = 480 points. A mempool's cache of 250 is testpmd's own.
USUAL: Final[Mapping[str, str]] = {
    DESCRIPTORS: "256..4096*2",
    BUFFERS: "8192,32768,131072,262140",
    CACHE: "0,64,250",
    KIND: "fifo,lifo",
    BURST: "16..128*2",
}
# Without a ring.
USUAL_NULL: Final[Mapping[str, str]] = {path: values for path, values in USUAL.items() if path != DESCRIPTORS} | {
    BUFFERS: "2048..262144*2"
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line says of a program."""

    target: str
    defaults: Defaults = "testpmd"
    size: int = 1500
    devices: Devices = "memif"
    cpu: int | None = None
    command: str | None = None
    reads: str | None = None
    loss_reads: str | None = None
    counts: bool = False
    thread: str | None = None
    run_s: float = 2.0
    warmup_s: float = 0.3
    timeout_s: float = 30.0

    def program(self, knobs: Sequence[str], less: bool = False) -> tuple[Program, list[Knob]]:
        """The program and its knobs; `less`: a lower number is better.

        Raises InputError for options that do not go together.
        """
        if self.target != "command":
            for option, given in (
                ("--command", self.command),
                ("--reads", self.reads),
                ("--loss-reads", self.loss_reads),
            ):
                if given is not None:
                    raise InputError(f"{option}: is for --target command")
        if self.target == "testpmd":
            usual = USUAL if self.devices == "memif" else USUAL_NULL
            found = knobs_of(knobs, usual)
            pools = [v for each in found if each.path == BUFFERS for v in each.values if isinstance(v, int)]
            setup = Setup(self.size, self.devices, self.defaults, self.cpu)
            return Forwarder(setup, Sampling(), max(pools, default=64)), found
        if self.target == "ovs-dpdk":
            from wirespeed.tune.openvswitch import USUAL as OVS_USUAL
            from wirespeed.tune.openvswitch import Switch

            return Switch(self.size, self.cpu), knobs_of(knobs, OVS_USUAL)
        if self.target == "vpp":
            real.require_vpp()
            raise InputError(
                "--target vpp: start it by --target command, with its startup.conf settings in the template"
            )
        if self.command is None or self.reads is None:
            raise InputError(
                "--target command: wants --command 'prog --ring {nic.rx_descriptors=1024}' and --reads, "
                "for example --reads 'stdout:Mpps: ([0-9.]+)'"
            )
        reading = readings.parse(self.reads, self.counts)
        loss = readings.parse(self.loss_reads, self.counts) if self.loss_reads is not None else None
        timing = Timing(self.run_s, self.warmup_s, self.timeout_s)
        return Template(self.command, reading, loss, self.thread, timing, less), knobs_of(knobs, {})


def tune(
    chosen: Choice,
    knobs: Sequence[str],
    plan: Plan,
    starts: int = STARTS,
    machine: str | None = None,
    progress: Callback | None = None,
) -> Tuning:
    """Tunes what was chosen; `machine` is one to simulate testpmd on. Raises as `tune_program`."""
    program, found = chosen.program(knobs, plan.metric == "lowest")
    plan = replace(plan, metric=_metric(chosen, plan.metric), loss_limit=_loss_limit(chosen, plan.loss_limit))
    predict = None
    if machine is not None:
        if chosen.target != "testpmd":
            raise InputError(f"--machine: {chosen.target} has no model; only testpmd is simulated")
        predict = simulated(machine, chosen.devices, chosen.size, dict(program.defaults()))
    return tune_program(program, {each.path: each.values for each in found}, plan, starts, predict, progress)


def _metric(chosen: Choice, metric: str | None) -> str:
    """What is tuned for. Raises InputError where the target does not tell it."""
    told = chosen.target == "command" and not chosen.counts and not str(chosen.reads).startswith("telemetry")
    if metric is None:
        return "highest" if told else "cpu_mpps"
    if told == (metric == "cpu_mpps"):
        raise InputError(
            f"--metric {metric}: "
            + (
                "a number that is told as it is, is tuned by highest or lowest (if it is a running total: --counts)"
                if told
                else "what is counted is told per CPU-second: cpu_mpps"
            )
        )
    return metric


def _loss_limit(chosen: Choice, limit: float | None) -> float | None:
    """The most that may be lost. Raises InputError where nothing tells what is lost."""
    if limit is None and chosen.target in ("testpmd", "ovs-dpdk"):
        return NO_LOSS
    if limit is not None and chosen.target == "command" and chosen.loss_reads is None:
        raise InputError("--loss-limit: nothing tells the loss; give --loss-reads, too")
    return limit


def simulated(machine: str, devices: Devices, size: int, defaults: Mapping[str, object]) -> Predict:
    """What testpmd comes to on a machine: `cpu_mpps` and `loss`. Raises InputError for a machine that cannot be."""
    scenario = machine_of(machine)

    def predict(settings: Settings) -> Mapping[str, float] | None:
        spec = forward_loop({**defaults, **settings}, devices, size)
        try:
            (timed,) = json.loads(_wirespeed.run_loops(scenario, json.dumps([spec])))
        except InputError:
            return None
        return {"cpu_mpps": 1e3 / timed["ns"], "loss": 1 - timed["through"]}

    return predict


def machine_of(machine: str) -> _wirespeed.Scenario:
    """A scenario with nothing but a machine: a shipped one by its name, or a file's."""
    return _wirespeed.Scenario("", "--machine", [f"machine.preset={json.dumps(machine)}"])


def forward_loop(whole: Mapping[str, object], devices: Devices, size: int, **more: Any) -> dict[str, Any]:
    """Settings as the simulator's loop has them (`crates/studies/src/loops/forward.rs`).

    The pool that testpmd makes by itself has 163456 mbufs, as it prints.
    """
    return {
        "kind": "forward",
        "devices": devices,
        "size": size,
        "descriptors": whole.get(DESCRIPTORS, 1024),
        "burst": whole[BURST],
        "pool": whole.get(BUFFERS, 163_456),
        "cache": whole[CACHE],
        "order": whole[KIND],
        **more,
    }
