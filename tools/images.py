"""Draws the pictures of README.md from the example captures (``make images``)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import whydrop
from whydrop.explaining.replaying import with_models

ROOT = Path(__file__).parent.parent
EXAMPLE = "examples/policed-download.pcap.zst"
FAR_EXAMPLE = "examples/policed-download-far.pcap.zst"
FOLDER = ROOT / "docs" / "images"
BROWSERS = ("chromium", "google-chrome", "chromium-headless-shell")
CHARTS = ("model-close-up",)
PAIR_CHARTS = ("models-close-up",)
# A model that a user gives for the published case, which is 300 Mbit/s and 50 KB.
GIVEN = "policer:rate=280M,burst=80kB"
CHANGE = "policer.burst=400kB"
# Switches with a change of flow control, and the days around it that are drawn.
FLEET = "--sites dfw01,dfw02,dfw03,dfw04 --days 50 --change-day 2018-03-01 --speed-ratio 1.2 --seed 3"


def main() -> None:
    """Draw the charts that README.md shows, and the top of the report."""
    # The report shows the path as it is given: not the one on this machine.
    os.chdir(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = whydrop.explain(EXAMPLE)
    both = whydrop.explain(EXAMPLE, FAR_EXAMPLE)
    for explained, names in ((found, CHARTS), (both, PAIR_CHARTS)):
        for name in names:
            explained.chart(name).save(FOLDER / f"{name}.png", format="png", scale_factor=1.1)
    predict = [sys.executable, "-m", "whydrop", "predict", EXAMPLE, FAR_EXAMPLE, "--change", CHANGE]
    subprocess.run([*predict, "--charts", FOLDER, "--format", "svg"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        chart = with_models(published(Path(folder)), [GIVEN]).chart("models-close-up")
        chart.save(FOLDER / "model-given.png", format="png", scale_factor=1.1)
        photograph(found.write_report(Path(folder) / "report.html"), FOLDER / "report.png")
        shutil.copy(study(Path(folder)), FOLDER / "discards.png")


def published(folder: Path) -> whydrop.Explanation:
    """The published case of a policer, simulated and explained."""
    simulate = ["cargo", "run", "--quiet", "--release", "-p", "whydrop-simulate", "--", "published"]
    subprocess.run([*simulate, "--out", folder], check=True)
    return whydrop.explain(folder / "b.pcap", folder / "y.pcap")


def study(folder: Path) -> Path:
    """The picture of discards and retransmissions of a synthetic fleet."""
    fleet, report = folder / "fleet", folder / "study"
    subprocess.run([sys.executable, "-m", "bench.fleet", "--out", fleet, *FLEET.split()], check=True)
    whydrop: list[str | Path] = [
        sys.executable,
        "-m",
        "whydrop",
        "study",
        "discards",
        fleet,
        "--output",
        report,
        "--format",
        "png",
    ]
    subprocess.run([*whydrop, "--set", 'metros=["dfw"]'], check=True)
    return report / "figures" / "overlay.png"


def photograph(page: Path, picture: Path) -> None:
    """Take a picture of the top of a page as Chromium shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=next(filter(None, map(shutil.which, BROWSERS)), None),
            args=["--no-sandbox", "--disable-gpu"],
        )
        tab = browser.new_page(viewport={"width": 1200, "height": 1500})
        tab.goto(page.as_uri())
        tab.wait_for_timeout(500)
        tab.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main()
