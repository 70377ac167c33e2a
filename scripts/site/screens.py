"""Opens each page of build/site in headless Chromium, wide and narrow, light and dark.

Writes pictures to build/screens, and prints these faults: a page that scrolls sideways, a line of
code that is cut off and cannot be scrolled, a picture that is missing or too small, and a picture
that is shown in the light theme but made for the dark one, or the reverse. A line of code of the
home page must also fit into the wide window. Exits with 1 if there is a fault.

Needs Chromium (Debian's package `chromium`), which is controlled through two pipes. Arguments name
pages, such as `index.html statements/index.html`. Without arguments, all pages are opened.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
PICTURES = ROOT / "build" / "screens"
WIDTHS = {1440: 1000, 420: 800}
"""Maps the width of each window to its height, in CSS pixels."""
SCHEMES = ("light", "dark")
HOME = "index.html"
_TALLEST = 5000
"""The maximum height of a picture, in pixels."""

CHECKS = """
async (wanted, fits) => {
  const scheme = () => document.body.dataset.mdColorScheme == "slate" ? "dark" : "light";
  // The theme sets the colors after the page is loaded, and with them which pictures are shown.
  for (let i = 0; i < 100 && (i < 2 || scheme() != wanted); i++)
    await new Promise(resolve => setTimeout(resolve, 100));
  const faults = scheme() == wanted ? [] : [`the page is ${scheme()}`];
  const shown = element => element.getClientRects().length > 0;
  const page = document.scrollingElement;
  for (const block of document.querySelectorAll("details")) block.open = true;
  const sideways = () => {
    if (page.scrollWidth <= window.innerWidth) return;
    const wide = [...document.querySelectorAll("article *")].filter(
      element => element.getBoundingClientRect().right > window.innerWidth + 1);
    faults.push(`the page scrolls sideways: ${page.scrollWidth} pixels, ` +
      [...new Set(wide.slice(0, 3).map(element => element.outerHTML.slice(0, 60)))].join(" "));
  };
  const scrolls = element => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const code = () => {
    for (const block of document.querySelectorAll("pre > code")) {
      if (!shown(block) || block.scrollWidth <= block.clientWidth) continue;
      const line = block.textContent.trim().split("\\n")[0].slice(0, 50);
      if (!scrolls(block) && !scrolls(block.parentElement)) faults.push(`code is cut: ${line}`);
      else if (fits) faults.push(`code does not fit: ${line}`);
    }
  };
  const pictures = () => {
    for (const image of document.querySelectorAll("article img")) {
      const [, theme] = image.getAttribute("src").split("#only-");
      if (theme && theme != wanted) {
        if (shown(image)) faults.push(`a picture of the other theme: ${image.src}`);
      } else if (!image.naturalWidth || image.width < 100 || image.height < 50) {
        faults.push(`a picture of ${image.width} x ${image.height}: ${image.src}`);
      }
    }
  };
  const tabs = [...document.querySelectorAll(".tabbed-set > input")];
  for (const tab of tabs.length ? tabs : [null]) {
    if (tab) tab.checked = true;
    sideways();
    code();
  }
  if (tabs.length) tabs[0].checked = true;
  pictures();
  for (const block of document.querySelectorAll("details")) block.open = false;
  // A picture that is taken during an animation shows an unfinished state.
  const ended = Promise.allSettled(document.getAnimations().map(each => each.finished));
  await Promise.race([ended, new Promise(resolve => setTimeout(resolve, 2000))]);
  return [...new Set(faults)];
}
"""
"""A JavaScript function that is called in a page. It opens the collapsed blocks and the tabs, and
returns messages about what is wrong with the page."""


class Browser:
    """A Chromium without a window, and one page in it."""

    def __init__(self, program: str, folder: str) -> None:
        ours, theirs = os.pipe(), os.pipe()
        command = [program, "--headless", "--disable-gpu", "--hide-scrollbars"]
        command += ["--remote-debugging-pipe", f"--user-data-dir={folder}"]
        # As root, Chromium refuses to run with its sandbox.
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "sh", *command],
            pass_fds=(ours[0], theirs[1]),
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._writer, self._reader = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self._calls = 0
        self._read = b""
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")
        # Without this script, the site would keep the color scheme of the first page.
        self.call("Page.addScriptToEvaluateOnNewDocument", source="localStorage.clear()")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result.

        Raises: RuntimeError if Chromium answers with an error, or has ended.
        """
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        self._writer.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._calls:
                break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return dict(answer["result"])

    def open(self, address: str) -> None:
        """Opens a page. Returns once the page and its pictures are loaded."""
        self.call("Page.navigate", url=address)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, function: str, *arguments: object) -> Any:
        """Calls a function of JavaScript in the page and returns its result.

        Raises: RuntimeError if the function raises.
        """
        result = self.call(
            "Runtime.evaluate",
            expression=f"({function})({', '.join(map(json.dumps, arguments))})",
            returnByValue=True,
            awaitPromise=True,
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def close(self) -> None:
        """Ends Chromium."""
        self._session = None
        self.call("Browser.close")
        self.process.wait(10)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            read = os.read(self._reader.fileno(), 1 << 20)
            if not read:
                raise RuntimeError("Chromium has ended")
            self._read += read
        message, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(message))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Prints nothing about a request."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder on this machine, and yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def faults_of(browser: Browser, address: str, page: str) -> Iterator[str]:
    """Opens a page in every window, writes its pictures, and yields what is wrong."""
    for scheme in SCHEMES:
        # The current page is closed first. Otherwise it would notice the new color scheme, and
        # might store the scheme while the next page loads.
        browser.open("about:blank")
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.call("Emulation.setEmulatedMedia", features=[feature])
        for width, height in WIDTHS.items():
            size = {"width": width, "height": height, "deviceScaleFactor": 1}
            browser.call("Emulation.setDeviceMetricsOverride", **size, mobile=False)
            browser.open(f"{address}/{page}")
            fits = page == HOME and width == max(WIDTHS)
            faults = browser.run(CHECKS, scheme, fits)
            yield from (f"{page}, {width}, {scheme}: {fault}" for fault in faults)
            tall = browser.run("() => document.scrollingElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": min(tall, _TALLEST), "scale": 1}
            shot = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
            name = page.removesuffix(".html").removesuffix("/index").replace("/", "-")
            picture = PICTURES / f"{width}-{scheme}" / f"{name}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(base64.b64decode(shot["data"]))


def main(pages: list[str]) -> int:
    """Opens the pages and returns the exit status: 1 if anything is wrong."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    pages = pages or sorted(str(path.relative_to(SITE)) for path in SITE.rglob("index.html"))
    faults = []
    with tempfile.TemporaryDirectory() as folder, served(SITE) as address:
        browser = Browser(program, folder)
        try:
            for page in pages:
                for fault in faults_of(browser, address, page):
                    print(fault, flush=True)
                    faults.append(fault)
        finally:
            browser.close()
    count = len(pages) * len(SCHEMES) * len(WIDTHS)
    print(f"{count} pictures in {PICTURES.relative_to(ROOT)}, {len(faults)} faults")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
