"""report.html and `trainer report`. Seen renders pages in a headless Chromium, if one is installed."""

import json
import os
import re
import signal
import struct
import subprocess
import time
import unittest
import urllib.request
import zlib

from machines_test import free_port
from support import EndToEnd, last_step, peer, until

STEPS = {"training": {"max_steps": 6}}
BROWSER = peer("chromium") or peer("chromium-browser") or peer("google-chrome")
DARK = (0x12, 0x16, 0x1c)  # --page of page.css


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


    def test_a_page_follows_a_run_that_trains(self):
        job = self.job("output", {"training": {"max_steps": 100000}, "evaluation": None, "data": {"validation": None},
                                  "checkpoint": {"save_steps": 0}})
        run = self.start(job)
        until(lambda: last_step(self.folder / "output") > 3)
        port = free_port()
        server = self.trainer("report", self.folder / "output", "--serve", "--port", str(port))
        until(lambda: "http://" in server.out)

        def page():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
                return answer.read().decode()

        def updates():
            return int(re.search(r'updates</span><b>(\d+)', page()).group(1))

        self.assertIn('http-equiv="refresh"', page())
        first = updates()
        until(lambda: updates() > first)
        run.kill_with(signal.SIGINT)
        self.assertEqual(run.wait().code, 130)
        self.assertNotIn('http-equiv="refresh"', page())
        self.assertIn(f"checkpoint-{last_step(self.folder / 'output')} was saved", page())
        server.kill_with(signal.SIGINT)
        server.wait()


@unittest.skipUnless(BROWSER, "no Chromium is installed (tools/setup.sh --peers)")
class Seen(EndToEnd):
    def rendered(self, page, *flags):
        """The page's elements after its scripts have run, and what it wrote to the console."""
        run = self.browse(page, "--enable-logging=stderr", *flags, "--dump-dom")
        return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]

    def browse(self, page, *flags):
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/browser",
                   "--virtual-time-budget=3000", *flags, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def first_pixel(self, page, *flags):
        """Of a screenshot: its size, and red, green and blue of the corner."""
        picture = self.folder / "seen.png"
        self.browse(page, *flags, f"--screenshot={picture}")
        content = picture.read_bytes()
        width, height, depth, color = struct.unpack(">IIBB", content[16:26])
        self.assertEqual((depth, color in (2, 6)), (8, True))
        data, at = b"", 8
        while at < len(content):
            length, kind = struct.unpack(">I4s", content[at:at + 8])
            data += content[at + 8:at + 8 + length] if kind == b"IDAT" else b""
            at += length + 12
        row = zlib.decompressobj().decompress(data, 4)  # in the corner, no filter changes a value
        return (width, height), tuple(row[1:4])

    def test_curves_are_drawn_without_errors(self):
        ranks = {"distributed_type": "FSDP", "num_processes": 2,
                 "fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": "T5Block"}}
        self.launch(self.job("output", STEPS, ranks))
        self.launch(self.job("output", {"training": {"max_steps": 8}}, ranks))  # resumed
        page = self.folder / "output/report.html"
        count = page.read_text().count("<canvas")
        if count == 0:
            self.skipTest("built without Chart.js")
        probe = ("<script>parent.postMessage({drawn: drawnCharts.filter(chart => { const c = chart.canvas; "
                 "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; "
                 "return d.some(v => v !== 0) && chart.data.datasets.every(s => s.data.length > 0); }).length, "
                 "width: innerWidth, fits: document.documentElement.scrollWidth <= innerWidth, "
                 "color: getComputedStyle(document.body).backgroundColor}, '*');</script>")
        (self.folder / "seen.html").write_text(page.read_text().replace("</body>", probe + "</body>"))
        frame = self.folder / "frame.html"  # a window is never narrower than 500 pixels
        for width in (400, 800, 1600):
            frame.write_text(f"<body><iframe src='seen.html' style='border: 0; width: {width}px; height: 1000px'></iframe>"
                             "<script>onmessage = event => Object.assign(document.body.dataset, event.data)</script></body>")
            for flags in ((), ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")):
                with self.subTest(width=width, flags=flags):
                    color = DARK if flags else (255, 255, 255)
                    elements, console = self.rendered(frame, "--window-size=1700,1100", *flags)
                    self.assertEqual(console, [])
                    for name, value in (("drawn", count), ("width", width), ("fits", "true"), ("color", f"rgb{color}")):
                        self.assertIn(f'data-{name}="{value}"', elements)
                    self.assertEqual(self.first_pixel(page, f"--window-size={width},1000", *flags), ((width, 1000), color))
        for part in ("Resident memory by rank", "Time of an update by phase", "Lengths: source", "encoder.block.0",
                     "resumed with 2 ranks from checkpoint-6"):
            self.assertTrue(part in page.read_text(), part)


if __name__ == "__main__":
    unittest.main()
