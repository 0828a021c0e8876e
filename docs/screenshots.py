"""Take the pictures of docs/browser.md: a real server, a real training run, a real browser. ``make screenshots`` runs this."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

IMAGES = Path(__file__).parent / "img"
RLMEM = [sys.executable, "-m", "rlmem"]
TRAIN = """
import gymnasium as gym, numpy as np
from stable_baselines3 import SAC

class Camera(gym.ObservationWrapper):
    observation_space = gym.spaces.Dict(
        image=gym.spaces.Box(0, 255, (64, 64, 3), np.uint8), angles=gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    )
    def observation(self, seen):
        return {"image": np.random.default_rng().integers(0, 255, (64, 64, 3), np.uint8), "angles": seen}

model = SAC("MultiInputPolicy", Camera(gym.make("Pendulum-v1")), buffer_size=50_000, learning_starts=25_000)
model.learn(1_000_000)
"""


@contextmanager
def child(words: list[str], folder: Path, first: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A child process and the line in which it said that it is ready."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "RLMEM_DATA_DIR": str(folder), "PYTHONUNBUFFERED": "1", "PATH": path}
    started = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    try:
        line = started.stdout.readline() if first and started.stdout else ""
        yield started, line
    finally:
        started.send_signal(signal.SIGINT)
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()


def opened(browser: Browser, link: str, width: int, height: int, scheme: str, *, phone: bool = False) -> Page:
    """A page that may act, in some light."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        is_mobile=phone,
        device_scale_factor=2 if phone else 1,
    )
    page = context.new_page()
    page.goto(link)
    page.wait_for_url(link.partition("token/")[0])
    return page


def take(folder: Path) -> None:
    """All three."""
    script = folder / "camera_sac.py"
    script.write_text(TRAIN, encoding="utf-8")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium: apt-get install chromium, or name one in $CHROMIUM")
    IMAGES.mkdir(exist_ok=True)
    with (
        child([*RLMEM, "serve", "--port", "0"], folder, "link") as (_, line),
        child([*RLMEM, "run", "--", "python", script.name], folder),
        sync_playwright() as play,
    ):
        expect.set_options(timeout=60_000)  # on a busy machine
        link = re.findall(r"http\S+", line)[0]
        base = link.split("/token/")[0]
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = play.chromium.launch(executable_path=chromium, args=arguments)

        page = opened(browser, link, 1360, 900, "light")
        page.goto(f"{base}/?of=pidog-sac&ram=30GB&buffer_size=1000000")
        page.locator("#make-it-fit").click()
        expect(page.locator(".steps li").first).to_be_visible()
        page.screenshot(path=IMAGES / "planner-light.png")

        phone = opened(browser, link, 390, 844, "light", phone=True)
        phone.goto(f"{base}/?of=pyboy-ppo&ram=16GB&vram=8GB")
        expect(phone.locator(".verdict").first).to_be_visible()
        phone.screenshot(path=IMAGES / "planner-phone.png")

        live = opened(browser, link, 1360, 900, "dark")
        live.goto(f"{base}/live")
        row = live.locator("#processes tr", has_text=script.name).locator("a")
        expect(row).to_be_visible(timeout=60_000)
        number = row.inner_text()
        live.goto(f"{base}/live/{number}?warn=1500MB")
        time.sleep(90)  # something has to happen to be seen
        live.screenshot(path=IMAGES / "live-dark.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="rlmem-screenshots-") as place:
        take(Path(place))
