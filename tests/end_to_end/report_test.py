"""report.html and `trainer report`. Seen renders pages in a headless Chromium, if one is installed."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest
import urllib.request

from machines_test import free_port
from support import EndToEnd

STEPS = {"training": {"max_steps": 6}}
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Report(EndToEnd):
    def page(self, name="output"):
        return (self.folder / name / "report.html").read_text()

    def test_a_run_leaves_its_page(self):
        self.launch(self.job("output", STEPS))
        page = self.page()
        self.assertIn("<h1>output</h1>", page)
        self.assertIn("training.max_steps", page)
        self.assertNotIn("not finished", page)
        self.assertEqual(self.trainer("report", self.folder / "output").wait().code, 0)
        self.assertEqual(self.page(), page)

    def test_a_run_that_failed_says_why(self):
        self.launch(self.job("output", STEPS, {"training": {"learning_rate": 1e30, "max_grad_norm": 0.0}}), code=5)
        cause = json.loads((self.folder / "output/outcome.json").read_text())["message"].splitlines()[0]
        self.assertIn(cause, self.page())

    def test_runs_are_compared(self):
        for name, seed in (("a", 1), ("b", 2)):
            self.launch(self.job(name, STEPS, {"seed": seed}))
        page = self.folder / "both.html"
        self.assertEqual(self.trainer("report", self.folder / "a", self.folder / "b", "-o", page).wait().code, 0)
        text = page.read_text()
        self.assertRegex(text, r'<td class="key">seed</td><td>1</td><td>2</td>')
        self.assertNotIn('<td class="key">training.max_steps</td>', text)

    def test_what_is_no_run_is_refused(self):
        run = self.trainer("report", self.folder / "nothing").wait()
        self.assertEqual(run.code, 3)
        self.assertIn("nothing is not a run: it has no metrics.jsonl.", run.err)
        run = self.trainer("report").wait()
        self.assertEqual(run.code, 2)

    def test_a_page_is_served(self):
        self.launch(self.job("output", STEPS))
        port = free_port()
        run = self.trainer("report", self.folder / "output", "--serve", "--port", str(port))
        end = time.monotonic() + 20
        while "http://" not in run.out and time.monotonic() < end:
            time.sleep(0.05)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
            self.assertIn("<h1>output</h1>", answer.read().decode())
        again = self.trainer("report", self.folder / "output", "--serve", "--port", str(port)).wait()
        self.assertEqual(again.code, 4)
        self.assertIn(f"cannot serve the report on 127.0.0.1:{port}: the port is in use", again.err)
        self.assertIn("set another --port", again.err)
        os.kill(run.pid, signal.SIGINT)
        run.wait()


@unittest.skipUnless(BROWSER, "no Chromium is installed")
class Seen(EndToEnd):
    def rendered(self, page, *flags):
        """The page's elements after its scripts have run, and what it wrote to the console."""
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/browser",
                   "--virtual-time-budget=3000", "--enable-logging=stderr", *flags, "--dump-dom", page.as_uri()]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]

    def test_curves_are_drawn_without_errors(self):
        self.launch(self.job("output", STEPS, {"logging": {"logging_steps": 1}}))
        page = self.folder / "output/report.html"
        count = page.read_text().count("<canvas")
        if count == 0:
            self.skipTest("built without Chart.js")
        probe = ("<script>document.body.dataset.drawn = drawnCharts.filter(chart => { const c = chart.canvas; "
                 "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; "
                 "return d.some(v => v !== 0) && chart.data.datasets.every(s => s.data.length > 0); }).length;</script>")
        seen = self.folder / "seen.html"
        seen.write_text(page.read_text().replace("</body>", probe + "</body>"))
        for width in (400, 800, 1600):
            for flags in ((), ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")):
                with self.subTest(width=width, flags=flags):
                    elements, console = self.rendered(seen, f"--window-size={width},1000", *flags)
                    self.assertEqual(console, [])
                    self.assertIn(f'data-drawn="{count}"', elements)


if __name__ == "__main__":
    unittest.main()
