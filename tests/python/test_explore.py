"""The page of `wirespeed explore`: over HTTP, as its own script asks, and in a browser where there is one."""

from __future__ import annotations

import base64
import hashlib
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from wirespeed import api, predict
from wirespeed import quantities as q
from wirespeed.errors import InputError
from wirespeed.explore import answers, forms, runs, talk
from wirespeed.explore.controls import ON
from wirespeed.explore.forms import Forms, ahead
from wirespeed.explore.place import Given, Place
from wirespeed.explore.server import Server
from wirespeed.explore.talk import RefusedError, Talk

# A machine that is filled soon, and a table that is made soon.
FEW = (
    *("machine.cores=2", "mempool.size=8192", "nic.rx_descriptors=512", "function.forward.prefixes=5000"),
    *("traffic.profile=min64", "traffic.load=0.05", "run.packets=3000", "run.warmup=2000", "run.curve=[]"),
)
GPU = ("machine.gpu.preset=a100",)
GIVEN = Given("forwarding", settings=FEW)
turns = itertools.count(1)


class Client:
    """What a browser sends, unless it is told otherwise."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str | None] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        host = f"127.0.0.1:{self.server.port}"
        sent = {"Host": host, "Origin": f"http://{host}", "Content-Type": "application/json", **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        try:
            content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
            kept = {name: value for name, value in sent.items() if value is not None}
            connection.request(method, path, content, kept)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    def ask(self, what: str, **more: Any) -> tuple[int, Any]:
        question = {"scenario": "forwarding", "page": "p", "turn": next(turns), "a": {}, "b": None, **more}
        status, headers, body = self.call("POST", f"/{self.server.token}/{what}", question)
        if headers["Content-Type"] == "application/x-ndjson":
            return status, [json.loads(line) for line in body.splitlines()]
        return status, json.loads(body)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    few = pytest.MonkeyPatch()
    few.setattr(runs, "PACKETS", 2000)
    few.setattr(runs, "LONG", 3000)
    few.setattr(runs, "CURVE_PACKETS", 1000)
    about = Talk(GIVEN, 2)
    server = Server(about, GIVEN.scenario)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Client(server)
    server.shutdown()
    server.server_close()
    about.close()
    few.undo()


@pytest.fixture(scope="module")
def place() -> Place:
    return Place(GIVEN)


def test_the_page_asks_its_own_server_alone(client: Client) -> None:
    status, headers, body = client.call("GET", f"/{client.server.token}/")
    html = body.decode()
    assert status == 200
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    named = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert (rules["default-src"], rules["connect-src"], rules["script-src"]) == (
        "'none'",
        "'self'",
        f"'sha256-{named}'",
    )
    assert rules["form-action"] == rules["base-uri"] == "'none'"
    # Nothing that a browser would load from elsewhere, and no handler within the page.
    assert re.findall(r"""(?:src|href)=["'](?!#)|url\((?!#)|@import|\son\w+=""", html) == []
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert client.server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"Host": "evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": "9999999"}, 422),
    ],
)
def test_who_is_not_this_page_is_answered_nothing(client: Client, change: dict[str, str | None], status: int) -> None:
    found, _, body = client.call("POST", f"/{client.server.token}/scene", {"scenario": "forwarding"}, change)
    assert found == status
    assert b"controls" not in body


def test_without_the_token_there_is_nothing(client: Client) -> None:
    for path in ("/", "/favicon.ico", "/wrong/", f"/{client.server.token}x/", "/../", "//", f"/{client.server.token}"):
        status, _, body = client.call("GET", path)
        assert (status, b"Explore" in body) == (404, False), path
    assert client.call("POST", "/wrong/scene", {"scenario": "forwarding"})[0] == 404
    assert client.call("GET", f"/{client.server.token}/answer")[0] == 404
    assert client.call("POST", f"/{client.server.token}/other", {})[0] == 404


def test_what_is_no_question_is_told_and_the_server_stays(client: Client) -> None:
    path = f"/{client.server.token}/answer"
    for body in (b"{", b"[]", b"[" * 50_000, b'{"turn": "x"}', b'{"turn": 1, "a": {"cores": 4}}', b"\xff\xfe"):
        status, _, told = client.call("POST", path, body)
        assert (status, set(json.loads(told))) == (422, {"error"}), body[:20]
    assert client.ask("answer")[0] == 200


def test_half_a_surrogate_pair_is_told_as_any_other_name(client: Client) -> None:
    for question in ({"a": {"\ud800": "x"}}, {"scenario": "\ud800"}, {"a": {"cores": "\ud800"}}):
        status, told = client.ask("answer", **question)
        assert status == 422
        assert "\ud800" in json.dumps(told, ensure_ascii=False)
        assert "bug" not in json.dumps(told)


def test_a_length_of_thousands_of_digits_is_refused(client: Client) -> None:
    for length in ("9" * 5000, "65537", "-1", "x", ""):
        status, _, told = client.call("POST", f"/{client.server.token}/answer", b"", {"Content-Length": length})
        assert (status, "Content-Length" in json.loads(told)["error"]) == (422, True), length[:9]


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), RuntimeError("x"), ZeroDivisionError("x")])
def test_an_error_that_nobody_expects_is_answered_as_a_bug(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: Any) -> Any:
        raise error

    for module, name, what in (
        (answers, "first", "answer"),
        (answers, "scene", "scene"),
        (answers, "_refined", "refine"),
    ):
        with monkeypatch.context() as failing:
            failing.setattr(module, name, fails)
            status, told = client.ask(what)
            # Within a stream it is the last line, behind a status that is sent, unless it came before the first.
            is_stream = isinstance(told, list)
            last = told[-1] if is_stream else told
            assert status == (200 if is_stream else 500)
            assert not is_stream or what == "refine"
            assert type(error).__name__ in last["error"]
            assert "this is a bug" in last["error"]
    with monkeypatch.context() as failing:
        failing.setattr(answers, "page", fails)
        status, _, body = client.call("GET", f"/{client.server.token}/")
        assert (status, "this is a bug" in json.loads(body)["error"]) == (500, True)
    assert client.ask("answer")[0] == 200


def test_an_error_does_not_end_what_looks_ahead(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    about = client.server.about
    tried: SimpleQueue[str] = SimpleQueue()

    def fails(name: str) -> Any:
        def failing(*_: Any) -> Any:
            tried.put(name)
            raise KeyError(name)

        return failing

    with monkeypatch.context() as broken:
        broken.setattr(Forms, "has", lambda *_: False)
        broken.setattr(Forms, "measure", fails("measure"))
        about._last = (about._scene("forwarding"), talk.Asked("forwarding", "z", next(turns), {}))
        about._moved.set()
        assert [tried.get(timeout=60) for _ in range(3)] == ["measure"] * 3  # the next machine is tried, too
    with monkeypatch.context() as broken:
        broken.setattr(about, "_profile_near", fails("near"))
        for _ in range(2):
            about._moved.set()
            assert next(name for name in iter(lambda: tried.get(timeout=60), None) if name == "near") == "near"
    assert about._thread.is_alive()


def test_closed_forms_answer_at_once_and_as_predict_does(client: Client) -> None:
    client.server.about._scene("forwarding").forms.measure({})
    status, told = client.ask("answer", a={"load": "0.1"})
    assert status == 200
    side = told["sides"]["a"]
    expected = api.predict("forwarding", set=[*FEW[:5], "traffic.load=0.1", *FEW[6:]])
    left_out = tuple(expected["left_out"])
    assert side["says"] == talk.sentence(forms.Answer(expected, [], left_out=left_out))
    assert q.mpps(expected["capacity_mpps"]) in side["says"]
    # What the command line set, and the page moved, is said once.
    assert "traffic.load=0.1" in side["command"]
    assert "traffic.load=0.05" not in side["command"]


def test_a_command_gives_the_machine_of_the_page(place: Place) -> None:
    chosen = {"cores": "4", "rx": "256", "sizes": "512", "iommu": "2 MiB", "prefetcher": ON}
    words = place.command(chosen)
    assert words.startswith("wirespeed run forwarding --set ")
    import shlex

    said = [word for before, word in itertools.pairwise(shlex.split(words)) if before == "--set"]
    assert api.resolve("forwarding", set=said) == place.judge(chosen, []).resolved
    # A comma that an operand's name would be cut at leaves no such command.
    assert place.comparison({}, chosen) is None
    both = place.comparison({}, {"cores": "4"})
    assert both is not None
    first, second = shlex.split(both)[2:4]
    assert api.resolve(second) == place.judge({"cores": "4"}, []).resolved
    assert api.resolve(first) == place.judge({}, []).resolved


def test_moves_that_nobody_has_profiled_together_are_factors(place: Place) -> None:
    found = Forms(place)
    assert found.answer({"cores": "4"}) is None
    for chosen in ({}, {"cores": "4"}, {"burst": "64"}):
        found.measure(chosen)
    base, cores, burst = (found.answer(each) for each in ({}, {"cores": "4"}, {"burst": "64"}))
    both = found.answer({"cores": "4", "burst": "64"})
    assert base is not None
    assert cores is not None
    assert burst is not None
    assert both is not None
    assert base.is_profiled
    assert cores.is_profiled
    product = cores.found["capacity_mpps"] * burst.found["capacity_mpps"] / base.found["capacity_mpps"]
    assert both.found["capacity_mpps"] == pytest.approx(product)
    assert len(both.factored) == 1  # it begins at one of both
    assert not both.is_exact
    assert "could carry about" in talk.sentence(both)
    found.measure({"cores": "4", "burst": "64"})
    exact = found.answer({"cores": "4", "burst": "64"})
    assert exact is not None
    assert exact.is_profiled
    assert both.found["capacity_mpps"] == pytest.approx(exact.found["capacity_mpps"], rel=0.1)
    near = found.answer({"cores": "6"})
    assert near is not None
    assert near.factored == ("Cores as at 4",)
    assert near.found["capacity_mpps"] == pytest.approx(cores.found["capacity_mpps"])
    unseen = found.answer({"cores": "4", "pool": "16384"})
    assert unseen is not None
    assert unseen.unseen == ("Pool of mbufs",)
    assert unseen.found == cores.found


def test_what_a_function_rejects_is_no_loss_in_the_sentence() -> None:
    rejecting = {"offered_mpps": 10.9, "rejected_mpps": 6.6, "carried_mpps": 4.3, "capacity_mpps": 21.6}
    answer = forms.Answer({**rejecting, "sojourn_ns": 1780.0}, [], factored=("Cores",))
    assert talk.sentence(answer).startswith("Carries all of 10.9 Mpps offered and could carry about 21.6 Mpps")
    full = forms.Answer({**rejecting, "carried_mpps": 2.0, "sojourn_ns": None}, [], unseen=("Cores",))
    assert talk.sentence(full) == "Carries about 2.00 Mpps of 10.9 Mpps offered and could carry about 21.6 Mpps."


def test_what_closed_forms_leave_out_stands_on_the_page_and_they_say_about(client: Client) -> None:
    client.server.about._scene("forwarding").forms.measure({})
    left_out = api.predict("forwarding", set=list(FEW))["left_out"]
    assert left_out  # its scenario has credits
    _, told = client.ask("answer")
    side = told["sides"]["a"]
    assert "By closed forms, about" in side["verdict"]
    assert all(words in side["verdict"] for words in left_out)
    assert "could carry about" in side["says"]


def test_two_machines_under_different_loads_are_told_to_see_different_traffic() -> None:
    few = {"run.packets": 1000, "run.warmup": 500, "run.curve": [], "function.forward.prefixes": 100}
    results = {
        side: api.run("forwarding", set={**few, "traffic.load": load}) for side, load in (("a", 0.1), ("b", 0.2))
    }
    pair = talk.Refined(results, 1.0).pair
    assert pair is not None
    assert [each.path for each in pair.differing] == ["traffic.load"]
    assert talk.difference(pair)[0].startswith("The runs saw different traffic")


def test_where_queues_are_long_a_closed_form_is_about_right_beside_the_number_and_in_json() -> None:
    found = {"offered_mpps": 1.0, "rejected_mpps": 0.0, "carried_mpps": 1.0, "capacity_mpps": 2.0, "sojourn_ns": 900.0}
    found |= {"bound": "offered load", "service_ns": 50.0, "cpi": 1.0}
    for busy, is_long in ((0.89, False), (0.91, True)):
        told = answers._formed({"a": forms.Answer({**found, "utilisation": busy}, [])})["sides"]["a"]
        assert told["longQueues"] is is_long
        for text in (told["verdict"], told["says"]):
            assert ("queues are long here" in text) is is_long
            assert ("about 900" in text.replace("\u00a0", " ")) is is_long
    beyond = forms.Answer({**found, "utilisation": 1.0, "sojourn_ns": None}, [])
    assert not answers._formed({"a": beyond})["sides"]["a"]["longQueues"]


def test_an_answer_that_leaves_nothing_out_is_exact_and_says_so() -> None:
    found = {"offered_mpps": 1.0, "rejected_mpps": 0.0, "carried_mpps": 1.0, "capacity_mpps": 2.0, "sojourn_ns": 900.0}
    answer = forms.Answer(found, [])
    assert (answer.is_exact, talk.sentence(answer)) == (True, predict.sentence(found))
    about = forms.Answer(found, [], left_out=("policy: the ways stay as they are",))
    assert (about.is_profiled, about.is_exact) == (True, False)
    full = forms.Answer({**found, "sojourn_ns": None}, [], left_out=about.left_out)
    assert talk.sentence(full).endswith("about 2.00 Mpps; queues grow without end.")
    assert "a: about " in talk.formed_difference(
        answer, forms.Answer({**found, "capacity_mpps": 3.0}, [], (), (), ("x",))
    )
    assert "about" not in talk.formed_difference(answer, forms.Answer({**found, "capacity_mpps": 3.0}, []))


def test_what_either_side_of_a_move_leaves_out_is_left_out(place: Place) -> None:
    found = Forms(place)
    for chosen in ({}, {"cores": "4"}, {"burst": "64"}):
        found.measure(chosen)
    other = next(iter(found._known.values()))

    class Told:
        def predict(self, load: float | None) -> str:
            return json.dumps({**json.loads(other.profile.predict(load)), "left_out": ["neighbours: none"]})

    moved = frozenset({("burst", "64")})
    found._known[moved] = forms._Known(Told(), other.ceiling)  # type: ignore[arg-type]
    both = found.answer({"cores": "4", "burst": "64"})
    assert both is not None
    assert {"neighbours: none", *other.at(None)["left_out"]} == set(both.left_out)


def test_a_machine_with_a_gpu_has_no_closed_form() -> None:
    found = Forms(Place(Given("forwarding", settings=(*FEW, *GPU))))
    for _ in range(2):
        with pytest.raises(InputError, match=r"machine\.gpu: closed forms let cores work on all packets"):
            found.measure({})
        assert found.has({})
        with pytest.raises(InputError, match=r"machine\.gpu"):
            found.answer({"load": "0.1"})


def test_a_capture_is_as_long_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    assert "sizes" not in Place(Given("forwarding", capture=file)).controls


def test_a_profile_answers_for_every_load(place: Place) -> None:
    found = Forms(place)
    found.measure({"load": "0.3"})
    assert found.has({"load": "0.9"})
    low, high = found.answer({"load": "0.05"}), found.answer({"load": "1"})
    assert low is not None
    assert high is not None
    assert (low.is_profiled, high.is_profiled) == (True, True)
    assert low.found["offered_mpps"] * 20 == pytest.approx(high.found["offered_mpps"])
    assert [point["load"] for point in low.curve] == list(forms.CURVE)


def test_runs_refine_with_pictures_and_a_difference(client: Client) -> None:
    status, told = client.ask("refine", b={"cores": "1"})
    assert status == 200
    kinds = [piece["kind"] for piece in told if "kind" in piece]
    assert kinds.index("short") < kinds.index("long")
    assert kinds[-1] == "longPictures"
    short, long = (next(piece for piece in told if piece.get("kind") == kind) for kind in ("short", "long"))
    assert "±" in short["sides"]["a"]["verdict"] or "p50" in short["sides"]["a"]["verdict"]
    assert re.search(r"b is (better|worse)|No sure difference|No difference", long["difference"])
    assert "wirespeed compare" in long["difference"]
    drawn = {
        side: part["pictures"] for piece in told for side, part in piece.get("sides", {}).items() if "pictures" in part
    }
    assert set(drawn) == {"a", "b"}
    for title in (
        "Where a core's cycles go",
        "The path of a packet",
        "Where the time goes",
        "over load",
        "How long packets",
    ):
        assert title in drawn["a"], title
    # Two reports on one page have no name in common.
    names = [set(re.findall(r'id="([^"]+)"', each)) for each in drawn.values()]
    assert names[0]
    assert names[0] & names[1] == set()
    progress = [piece["progress"] for piece in told if "progress" in piece]
    assert all(each["done"] <= each["total"] or not each["total"] for each in progress)


def test_a_run_ends_when_the_hand_moves_on(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PACKETS", 30_000_000)
    found: list[Any] = []
    asked = threading.Thread(target=lambda: found.append(client.ask("refine", page="moving", a={"burst": "16"})))
    asked.start()
    time.sleep(1.0)
    assert asked.is_alive()
    begun = time.monotonic()
    assert client.ask("answer", page="moving")[0] == 200
    asked.join(20)
    assert not asked.is_alive()
    assert time.monotonic() - begun < 20
    (_, told) = found[0]
    assert not [piece for piece in told if piece.get("kind") == "short"]


def test_a_run_ends_when_the_page_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PACKETS", 30_000_000)
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)
    host = f"127.0.0.1:{client.server.port}"
    question = {"scenario": "forwarding", "page": "closing", "turn": next(turns), "a": {"burst": "8"}, "b": None}
    headers = {"Origin": f"http://{host}", "Content-Type": "application/json"}
    connection.request("POST", f"/{client.server.token}/refine", json.dumps(question), headers)
    answer = connection.getresponse()
    answer.readline()
    answer.close()
    connection.close()
    until = time.monotonic() + 20
    while client.server.about._running.locked() and time.monotonic() < until:
        time.sleep(0.1)
    assert not client.server.about._running.locked()


@pytest.mark.parametrize(
    ("a", "control", "words"),
    [
        ({"rx": "4096", "pool": "4096"}, "pool", "mempool.size = 4096"),
        ({"rx": "4096", "pool": "4096"}, "rx", "nic.rx_descriptors"),
        ({"ddio": "40"}, "ddio", "machine.llc.io_ways"),
        ({"cores": "many"}, "cores", "no number"),
        ({"cores": "1000"}, "cores", "1000"),
        ({"processor": "xeon-gold-6141"}, "processor", "did you mean"),
        ({"iommu": "3 KiB"}, "iommu", "not offered"),
        ({"load": "2"}, "load", "traffic.load"),
    ],
)
def test_a_refused_setting_is_told_beside_its_control(
    client: Client, a: dict[str, str], control: str, words: str
) -> None:
    for what in ("answer", "refine"):
        status, told = client.ask(what, a=a, moved=control)
        assert status == 422
        message, beside = told["faults"]["a"]
        assert (beside, words in message) == (control, True), message
    assert client.ask("answer")[0] == 200


def test_of_two_machines_each_is_told_its_own_faults(client: Client) -> None:
    status, told = client.ask("answer", a={"ddio": "40"}, b={"rx": "nothing"})
    assert status == 422
    assert {side: beside for side, (_, beside) in told["faults"].items()} == {"a": "ddio", "b": "rx"}


def test_an_unknown_control_and_all_other_faults_are_told_at_once(place: Place) -> None:
    with pytest.raises(InputError, match=r"(?s)corse: .*did you mean `cores`.*Burst: `x` is no number"):
        place.overrides({"corse": "4", "burst": "x"})
    with pytest.raises(InputError, match="does not fit: there is one core"):
        place.overrides({"cores": "1", "pipeline": ON})


def test_a_scenario_that_is_not_offered_is_not_read(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "secret"\n')
    for name in (str(file), "/etc/passwd", "forwardin", 'name = "x"\n'):
        status, told = client.ask("answer", scenario=name)
        assert (status, "not offered" in told["error"], "secret" in told["error"]) == (422, True, False)
    assert "did you mean `forwarding`" in client.ask("scene", scenario="forwardin")[1]["error"]
    status, told = client.ask("scene", scenario="nat")
    assert status == 200
    assert told["title"] == "address translation"


def test_every_position_is_a_machine_or_is_refused_in_words(place: Place) -> None:
    judged, refused = 0, {}
    for name, position in ((c.name, position) for c in place.controls.values() for position in c.positions):
        try:
            place.judge({name: position.value} if position.value else {}, [])
            judged += 1
        except InputError as e:
            refused[name, position.value] = place.blamed(str(e), {name: position.value}, "")
    assert judged > 100
    assert all(beside == name for (name, _), beside in refused.items()), refused
    # A scenario stands at its own positions: they change nothing.
    own = [control.positions[control.own] for control in place.controls.values()]
    assert {position.value for position in own} == {""}
    assert {position.overrides for position in own} == {()}


def test_what_is_looked_at_ahead_is_one_move_away(place: Place) -> None:
    controls = list(place.controls.values())
    for chosen in ({}, {"cores": "4"}):
        near = list(ahead(controls, chosen))
        assert near
        for each in near:
            assert len({name for name in {**each, **chosen} if each.get(name, "") != chosen.get(name, "")}) == 1
            assert "load" not in each
    assert {"burst": "64"} in list(ahead(controls, {}))


def test_a_warm_machine_on_disk_that_is_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    of_llc = ("machine.llc.size=704 KiB", "machine.llc.slices=1")
    few = (*(each for each in FEW if not each.startswith("run.warmup")), *of_llc)

    def told() -> list[str]:
        found: list[str] = []
        machines = runs.Runs(Place(Given("forwarding", settings=few)), 1, found.extend)
        machines.await_warm(lambda *_: True)
        machines.close()
        return found

    assert told() == []
    (file,) = (tmp_path / "wirespeed" / "warm").iterdir()
    assert told() == []
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (line,) = told()
    assert re.fullmatch(rf"{file}: the state is damaged, \d+ bytes .*; it is made again", line)


def test_a_scenario_that_searches_is_refused() -> None:
    with pytest.raises(InputError, match=r"run\.search"):
        Talk(Given("forwarding", settings=("run.search=ndr",)))


def test_a_function_without_closed_forms_says_so_and_runs(client: Client) -> None:
    about = client.server.about
    chosen = {"pipeline": ON}
    question = talk.Asked("forwarding", "x", next(turns), chosen)
    kinds = dict(about.refine(question))
    assert {"form", "short", "long"} <= set(kinds)
    assert isinstance(kinds["form"]["a"], str)
    assert "pipeline" in kinds["form"]["a"]
    with pytest.raises(RefusedError):
        list(about.answer(talk.Asked("forwarding", "x", next(turns), {"cores": "0"})))


def test_a_port_in_use_is_bad_input(wirespeed: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = wirespeed("explore", *(w for s in FEW for w in ("--set", s)), "--port", str(port))
    assert (code, out) == (2, "")
    assert f"--port {port}: cannot be had on 127.0.0.1" in err
    assert "give another" in err
    code, _, err = wirespeed("explore", "forwardin")
    assert (code, "did you mean `forwarding`" in err) == (2, True)


def test_ctrl_c_ends_it_while_it_runs() -> None:
    words = [*(w for s in FEW[:-3] for w in ("--set", s)), "--set", "run.packets=30000000", "--set", "run.curve=[]"]
    command = [sys.executable, "-m", "wirespeed", "explore", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/\n", ran.stdout.readline())
        time.sleep(1)
        ran.send_signal(signal.SIGINT)
        out, err = ran.communicate(timeout=60)
    assert (ran.returncode, out) == (0, "")
    assert "Traceback" not in err
    assert err.endswith("wirespeed: ended\n")


def test_a_browser_shows_the_answer_and_complains_of_nothing(client: Client, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed: the page's script is not run")
    quiet = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]

    def opened(hash_: str) -> str:
        ran = subprocess.run(
            [
                *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-sync", "--enable-logging=stderr"),
                *(*quiet, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=900,900"),
                *("--virtual-time-budget=20000", "--dump-dom", f"{client.server.url}{hash_}"),
            ],
            capture_output=True,
            text=True,
            timeout=180,
            env={**os.environ, "LANG": "C.UTF-8"},
        )
        # A refused setting is a response that the console names; all else that is said there is a fault of the page.
        said = [line for line in ran.stderr.splitlines() if ":CONSOLE" in line and "422" not in line]
        assert said == []
        return ran.stdout

    # Whoever writes a setting of b by hand means two machines.
    shown = opened("#scenario=forwarding&a.cores=1&b.cores=2")
    assert re.search(r'id="b-command">wirespeed run forwarding [^<]*machine\.cores=2', shown)
    assert re.search(r'<strong id="a-says">[^<]+', shown)
    assert re.search(r'id="a-command">wirespeed run forwarding [^<]*machine\.cores=1', shown)
    assert re.search(r'data-name="cores"[^>]*>\s*<label for="b-cores">', shown)
    assert 'aria-live="polite"' in shown
    assert re.search(r"data-(first|short)-ms=", shown)
    refused = opened("#scenario=forwarding&a.rx=4096&a.pool=4096")
    assert re.search(r'id="a-(rx|pool)-fault">mempool\.size = 4096', refused)
    assert "did you mean `forwarding`" in opened("#scenario=forwardin")
