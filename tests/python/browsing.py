"""A headless Chromium that a test looks into, by its pipe: nothing is installed for it."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

NAME: Final = shutil.which("chromium") or shutil.which("chromium-browser")
_QUIET: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-sync", "--no-first-run", "--disable-quic"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1400,1100"),
)
WIDTHS: Final = (390, 600, 1280)
"""Of a telephone, half a screen and a screen, in pixels."""
_LOOKING: Final = Path(__file__).with_name("looking.js")
_SAID: Final = ("Runtime.consoleAPICalled", "Log.entryAdded", "Runtime.exceptionThrown")


class Chromium:
    """One page of a browser."""

    def __init__(self, profile: Path) -> None:
        reads, self._asks = os.pipe()
        self._hears, writes = os.pipe()
        command = [str(NAME), *_QUIET, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        # Chromium looks for the pipes at 3 and 4. A shell knows descriptors of one digit: ours may have two.
        moved = 'exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null'
        self._process = subprocess.Popen(
            ["sh", "-c", moved, *command], stdin=reads, stdout=writes, stderr=subprocess.DEVNULL
        )
        os.close(reads)
        os.close(writes)
        self._buffer, self._asked = b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        try:
            self._attach()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._asks)
        os.close(self._hears)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers to a command of its protocol."""
        self._asked += 1
        session = {} if self._session is None else {"sessionId": self._session}
        told = json.dumps({"id": self._asked, "method": method, "params": params, **session})
        os.write(self._asks, told.encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._asked:
                assert "error" not in found, found
                answer: dict[str, Any] = found["result"]
                return answer
            self.events.append(found)

    def value(self, script: str) -> Any:
        """What an expression is in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str, seconds: float) -> Any:
        """The expression once it is true."""
        end = time.monotonic() + seconds
        while not (found := self.value(script)):
            assert time.monotonic() < end, f"{script} is not so after {seconds} s; said: {self.said()}"
            time.sleep(0.05)
        return found

    def opened(self, url: str, width: int, scheme: str, until: str = "document.readyState === 'complete'") -> None:
        """Opens a page in a window so wide, light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)
        self.until(until, 120)

    def hindrances(self) -> list[str]:
        """What in the page is cut, overlaps, is too small or too faint, or makes it wider than its window."""
        found: list[str] = self.value(_LOOKING.read_text(encoding="utf-8"))
        return found

    def said(self) -> list[str]:
        """What the console shows."""
        return [json.dumps(each["params"])[:500] for each in self.events if each.get("method") in _SAID]

    def _attach(self) -> None:
        pages = self.call("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in pages if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._hears], [], [], 60)[0], "the browser says nothing"
            self._buffer += os.read(self._hears, 1 << 16)
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found
