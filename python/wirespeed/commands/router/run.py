"""`wirespeed router run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from wirespeed import router
from wirespeed.commands import options
from wirespeed.commands.exits import EXIT_STOPPED
from wirespeed.commands.fields import spread
from wirespeed.commands.options import OUTPUT, TablesOrJsonOpt
from wirespeed.commands.output import emit_json, say, show, stoppable
from wirespeed.commands.router.options import HOW, SOURCE, DriverOpt, Function, MadeSeedOpt, RoutesOpt, settings

_EPILOG: Final = (
    "Examples:\n\n"
    "  wirespeed router run --capture trace.pcap.gz --table rib.gz --out routed.pcap\n\n"
    "  wirespeed router run --profile imix --rate '0.5 Mpps' --seconds 5 --threads 2 --ordered\n\n"
    "  wirespeed router run --backend auto --capture trace.pcap --table rib.gz --format json | jq .forwarded\n\n"
    "  wirespeed router run --interface veth0 --reflect --packets 1000\n\n"
    "  wirespeed router run --interface eth1 --xdp auto --queues 4 --pin --reflect --seconds 60\n\n"
    "  wirespeed router run --function check,classify,inspect,lookup,ttl --search tuple-space --method bloom\n\n"
    "Without --rate and --speed packets are taken as fast as they go, and no delay is told.\n\n"
    "Exit code: 0 fine, 2 bad input or no GPU, 70 a bug, 130 stopped by Ctrl-C: report and --out have what was routed."
)

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)  # no slots: it is one of two bases
class Source:
    """Where packets and routes come from."""

    capture: Annotated[Path | None, options.capture("Route this capture.", SOURCE)] = None
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="Make traffic of this profile: isp, imix, min64, or a file.",
            show_default="isp",
            rich_help_panel=SOURCE,
        ),
    ] = None
    interface: Annotated[
        str | None,
        typer.Option(
            "--interface",
            metavar="NAME",
            help="Receive from this network interface (needs CAP_NET_RAW).",
            rich_help_panel=SOURCE,
        ),
    ] = None
    ring_mib: Annotated[
        int | None,
        typer.Option(
            "--ring",
            metavar="MIB",
            min=1,
            max=1024,
            help="Receive by a ring of so many MiB, shared with the kernel (TPACKET_V3); with --xdp: a queue's memory.",
            show_default="a call a packet; 16 with --xdp",
            rich_help_panel=SOURCE,
        ),
    ] = None
    xdp: Annotated[
        Literal["auto", "native", "generic"] | None,
        typer.Option(
            "--xdp",
            help="Receive and send by AF_XDP, its program in the driver (native), behind it (generic), or as can be.",
            show_default="off",
            rich_help_panel=SOURCE,
        ),
    ] = None
    xdp_copy: Annotated[
        Literal["auto", "zero-copy", "copy"],
        typer.Option(
            "--xdp-copy",
            help="With --xdp: the driver writes frames to the shared memory itself (zero-copy), or the kernel copies.",
            rich_help_panel=SOURCE,
        ),
    ] = "auto"
    queues: Annotated[
        int | None,
        typer.Option(
            "--queues",
            metavar="N",
            min=1,
            max=1024,
            help="Threads that receive and send, each with a queue or socket and workers of its own.",
            show_default="1",
            rich_help_panel=SOURCE,
        ),
    ] = None
    table: RoutesOpt = None


@dataclass(frozen=True, kw_only=True)
class Options(Function, Source):
    """What the command line says."""

    ports: Annotated[
        int,
        typer.Option(
            "--ports",
            metavar="N",
            min=1,
            max=65535,
            help="Ports of the router: next hop n is behind port n modulo N.",
            rich_help_panel=SOURCE,
        ),
    ] = 4
    packets: Annotated[
        int | None,
        typer.Option("--packets", metavar="N", min=1, help="End after so many.", rich_help_panel=SOURCE),
    ] = None
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", help="End after so long.", rich_help_panel=SOURCE),
    ] = None
    mpps: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="RATE",
            help="Offer so much, as '0.5 Mpps' or '500 kpps' (a bare number is Mpps), and measure delay.",
            rich_help_panel=SOURCE,
        ),
    ] = None
    speed: Annotated[
        float | None,
        typer.Option(
            "--speed",
            metavar="X",
            help="Offer the capture X times as fast as its timestamps, and measure delay.",
            rich_help_panel=SOURCE,
        ),
    ] = None
    seed: MadeSeedOpt = 0
    backend: Annotated[
        Literal["cpu", "cuda", "auto", "twin", "cpu+cuda", "cpu+twin"],
        typer.Option(
            "--backend",
            help="cpu: threads; cuda: a GPU; auto: a GPU, or else cpu; twin: its kernel on threads, for tests; "
            "cpu+cuda, cpu+twin: both, by measured cost or --share.",
            rich_help_panel=HOW,
        ),
    ] = "cpu"
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            metavar="X",
            help="Of two backends, the share of packets that go to the GPU.",
            show_default="by measured cost",
            rich_help_panel=HOW,
        ),
    ] = None
    mode: Annotated[
        Literal["zero-copy", "resident", "batch", "streams", "graph"],
        typer.Option(
            "--mode",
            help="On a GPU: a kernel that stays, packets in host memory (zero-copy) or its own (resident); or "
            "a kernel a batch: one at a time, three streams, a graph.",
            rich_help_panel=HOW,
        ),
    ] = "zero-copy"
    threads: Annotated[
        int | None,
        options.threads(
            "Workers; 0 with backend cpu: who receives and sends works as well (run to completion, a core a queue).",
            HOW,
            least=0,
            max=1024,
            show_default="cores less one",
        ),
    ] = None
    pin: Annotated[
        bool,
        typer.Option("--pin", help="Pin each thread to a CPU, near the interface's NIC first.", rich_help_panel=HOW),
    ] = False
    ordered: Annotated[
        bool,
        typer.Option("--ordered", help="Packets leave in the order they came in.", rich_help_panel=HOW),
    ] = False
    commit: Annotated[
        Literal["device", "host"] | None,
        typer.Option(
            "--commit",
            help="Where --ordered keeps what a kernel that stays has done: its memory or the host's.",
            show_default="device",
            rich_help_panel=HOW,
        ),
    ] = None
    warps_per_core: Annotated[
        int | None,
        typer.Option(
            "--mcw",
            metavar="N",
            min=1,
            help="Warps a core of a kernel that stays.",
            show_default="as fit",
            rich_help_panel=HOW,
        ),
    ] = None
    batch: Annotated[
        int,
        typer.Option("--batch", metavar="N", min=1, help="Packets to wait for.", rich_help_panel=HOW),
    ] = 32
    timeout_us: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="US",
            help="Microseconds that a batch waits to be full.",
            show_default="2 batch arrival times, estimated",
            rich_help_panel=HOW,
        ),
    ] = None
    verify_checksum: Annotated[
        bool,
        typer.Option("--verify-checksum", help="Verify IPv4 header checksums.", rich_help_panel=HOW),
    ] = False
    deadline_s: Annotated[
        float,
        typer.Option("--deadline", metavar="S", help="Give a backend up that is silent so long.", rich_help_panel=HOW),
    ] = 5.0
    driver: DriverOpt = None
    device: Annotated[int, typer.Option("--device", metavar="N", min=0, help="Which GPU.", rich_help_panel=HOW)] = 0
    out: Annotated[Path | None, options.out("Write what is forwarded to this pcap.", metavar="FILE")] = None
    reflect: Annotated[
        bool,
        typer.Option("--reflect", help="Send what is forwarded by the interface it came from.", rich_help_panel=OUTPUT),
    ] = False
    form: TablesOrJsonOpt = "table"


@app.command("run", epilog=_EPILOG)
@spread
def answer(given: Options) -> int:
    """Route packets of a capture, a generator or an interface; say what became of them and how long it took."""
    with stoppable():
        routed = router.run(**{**settings(given), "mpps": _rate(given.mpps)})
    if given.form == "json":
        emit_json(routed)
    else:
        for note in routed["notes"]:
            say(note)
        for table in router.tables(routed):
            show(table)
    return EXIT_STOPPED if routed["stopped"] else 0


def _rate(text: str | None) -> float | str | None:
    """What has a unit is for the simulator's own parser; a bare number is Mpps."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
