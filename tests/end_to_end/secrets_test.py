"""No output contains a secret: tokens of every shape are planted in the environment, arguments, files and names of a run,
and all its files and output are searched for them."""

import json
import subprocess

from support import JOB, PATIENCE, TINY_T5, TRAINER, EndToEnd, merged

LETTERS = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9"
HEX = "0123456789abcdef0123456789abcdef01234567"
# Concatenated, so that no secret scanner takes them for real tokens.
SHAPES = {name: prefix + LETTERS for name, prefix in {
    "Hugging Face": "hf_", "GitHub": "ghp_", "GitHub, fine-grained": "github_pat_", "GitLab": "glpat-", "Slack": "xoxb-",
    "AWS": "AKIA", "Google": "AIza", "OpenAI": "sk-proj-", "Anthropic": "sk-ant-api03-", "W&B": "wandb_v1_",
    "NVIDIA": "nvapi-", "PyPI": "pypi-", "npm": "npm_", "Docker": "dckr_pat_", "SendGrid": "SG."}.items()}
SHAPES["JSON web token"] = f"eyJhbGciOiJIUzI1NiJ9.{LETTERS}.{LETTERS}"
# Without a shape: recognized by the variable that holds them, or by their context.
BY_NAME = {"WANDB_API_KEY": HEX, "MLFLOW_TRACKING_PASSWORD": "correct4horse", "MLFLOW_TRACKING_TOKEN": "mlflow-0f1e2d3c4b5a",
           "AWS_SECRET_ACCESS_KEY": LETTERS[::-1], "TRAINER_SECRET": "open-sesame-7", "DB_PASSWORD": "batteryStaple"}
IN_ADDRESS = "pass4word4proxy"
PEM = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{HEX}{LETTERS}\n-----END OPENSSH PRIVATE KEY-----"
HIDDEN = [*SHAPES.values(), *BY_NAME.values(), IN_ADDRESS, HEX + LETTERS]


def planted():
    """An environment with secrets in the usual variables, and in variables that the engine prints."""
    environment = {f"PLANTED_{number}": token for number, token in enumerate(SHAPES.values())}
    environment.update({f"NCCL_PLANTED_{number}": token for number, token in enumerate(SHAPES.values())})
    environment.update(BY_NAME)
    environment.update(HTTPS_PROXY=f"http://me:{IN_ADDRESS}@proxy.example:3128", GLOO_PROXY=f"http://me:{IN_ADDRESS}@proxy",
                       SSH_KEY=PEM, NCCL_PEM=PEM, NCCL_LINE=f"WANDB_API_KEY={HEX} Bearer {LETTERS}")
    return [f"{name}={value}" for name, value in environment.items()]


def found_in(content, where):
    return [f"{secret} in {where}" for secret in HIDDEN if secret.encode() in content]


class Secrets(EndToEnd):
    def tearDown(self):
        """After every test: no secret in its folder, nor in what is cached for the next run."""
        found = []
        for root in (self.folder, self.shared / "cache", self.shared / "hub"):
            for path in (path for path in root.rglob("*") if path.is_file() and path.suffix != ".planted"):
                found += found_in(path.read_bytes() + str(path.relative_to(self.folder if root == self.folder else root)
                                                          ).encode(), path)
        self.assertEqual(found, [])

    def planted_run(self, config, *flags):
        return self.start(config, *flags, before=("env", *planted())).wait()

    def test_a_run_of_two_ranks(self):
        job = self.job("output", {"distributed_type": "FSDP", "num_processes": 2, "debug": True, "deterministic": True,
                                  "logging": {"report_to": ["tensorboard"]}, "evaluation": {"generate": True}})
        run = self.planted_run(job)
        self.assertEqual(run.code, 0, run.err)
        self.assertTrue((self.folder / "output/checkpoint-12").is_dir())
        self.assertTrue(list((self.folder / "output/logs").iterdir()))

    def test_a_run_that_fails(self):
        job = self.job("output", {"distributed_type": "MULTI_CPU", "num_processes": 2, "training": {"learning_rate": 1e30}})
        run = self.planted_run(job)
        self.assertNotEqual(run.code, 0)
        self.assertTrue((self.folder / "output/outcome.json").exists())

    def test_the_environment_is_not_shown(self):
        for words in (["env"], ["check", "--config_file", self.job("output")], ["explain", "--config_file", self.job("other")],
                      ["check", "--json", "--config_file", self.job("third")]):
            with self.subTest(words[0]):
                self.trainer(*words, before=("env", *planted())).wait()

    def test_variables_of_the_launcher(self):
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS", "ACCELERATE_MIXED_PRECISION", "TRAINER_CONFIG"):
            with self.subTest(name):
                run = self.trainer("launch", "--config_file", self.job("output"), "--nproc_per_node", "1",
                                   before=("env", f"{name}={SHAPES['Hugging Face']}")).wait()
                self.assertNotIn("internal", run.err)

    def test_values_in_a_configuration(self):
        """Each value is refused, or printed without the secret."""
        places = {
            "an unknown key": lambda token: {token: 1},
            "the value of an unknown key": lambda token: {"hub": token},
            "a key that Hugging Face has": lambda token: {"training": {"hub_token": token}},
            "a number": lambda token: {"seed": token},
            "a name": lambda token: {"mixed_precision": token},
            "a path": lambda token: {"model": {"config": None, "path": f"models/{token}"}},
            "a part of the model": lambda token: {"model": {"config": {"note": token}}},
            "samples": lambda token: {"data": {"train": {"path": token}}},
            "a template": lambda token: {"data": {"source": f"{{{token}}}"}},
            "an address": lambda token: {"main_process_ip": token, "num_machines": 2, "num_processes": 2},
        }
        for place, change in places.items():
            for kind, token in SHAPES.items():
                path = self.folder / "job.planted"
                job = merged(JOB, {"model": {"config": TINY_T5}, "tokenizer": {"path": str(self.tokenizer)},
                                   "output_dir": str(self.folder / "output")})
                path.write_text(json.dumps(merged(job, change(token)), indent=1))
                with self.subTest(f"{kind} as {place}"):
                    done = self.ask("explain", "--config_file", path)
                    self.assertEqual(found_in(done.stdout + done.stderr, place), [])

    def test_arguments(self):
        token = SHAPES["Hugging Face"]
        job = self.job("output")
        for words in ([token], [f"--{token}", "1"], ["launch", token], ["launch", f"--{token}"], ["checkpoint", "list", token],
                      ["launch", "--config_file", f"{token}.yaml"], ["launch", "--config_file", job, "--set", f"seed={token}"],
                      ["launch", "--config_file", job, "--set", f"{token}=1"], ["merge", "--output", token],
                      ["explain", token], ["tokenize", "--tokenizer", token, "--ids", token],
                      ["launch", "--config_file", job, "--output_dir", token],
                      ["eval", "--config_file", job, "--model", token], ["config", "--config_file", f"/nowhere/{token}/x.yaml"]):
            with self.subTest(" ".join(map(str, words))):
                done = self.ask(*words)
                self.assertEqual(found_in(done.stdout + done.stderr, "the screen"), [])

    def test_files_of_others(self):
        """Names and values in a model's and a tokenizer's files, which messages may quote."""
        token = SHAPES["GitHub"]
        for name, text in (("config.json", json.dumps({"model_type": token})), ("config.json", f'{{"model_type": {token}'),
                           ("config.json", json.dumps({**TINY_T5, "feed_forward_proj": token})),
                           ("tokenizer.json", json.dumps({"model": {"type": token}}))):
            folder = self.shared / "planted"
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text)
            done = self.ask("check", "--config_file", self.job("output", {
                "model": {"config": None, "path": str(folder)}, "tokenizer": {"path": str(folder)}}))
            with self.subTest(text):
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(found_in(done.stdout + done.stderr, "the screen"), [])
            (folder / name).unlink()

    def ask(self, *words):
        return subprocess.run([TRAINER, *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PATIENCE, check=False)
