// `trainer env`: what it hides, and what it shows.
#include <nlohmann/json.hpp>

#include "engine/cli/env_facts.h"
#include "engine/cli/env_privacy.h"
#include "engine/config/document/problems.h"
#include "tests/cli/program.h"

namespace trainer {
namespace {

using cli::public_text;

TEST(EnvPrivacy, NamesHintAtSecrets) {
  for (const char* name : {"HF_TOKEN", "wandb_api_key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "TRAINER_SECRET_FILE",
                           "credentials", "passphrase", "SSH_KEY", "apikey", "basic_auth", "HF_TOKEN_PATH", "KEYS"})
    EXPECT_TRUE(cli::hints_at_secret(name)) << name;
  for (const char* name : {"TOKENIZERS_PARALLELISM", "num_key_value_heads", "tokenizer", "NCCL_DEBUG", "monkeys_count",
                           "author", "key_dim"})
    EXPECT_FALSE(cli::hints_at_secret(name)) << name;
}

TEST(EnvPrivacy, HomesAndUserNamesAreTildes) {
  EXPECT_EQ(public_text("/home/ada/x:/home/ada", "/home/ada", "ada"), "~/x:~");
  EXPECT_EQ(public_text("/scratch/ada/run, /data/adam/x", "/home/ada", "ada"), "/scratch/~/run, /data/adam/x");
  EXPECT_EQ(public_text("/home/ada2/x ada", "/home/ada", "ada"), "/home/ada2/x ada");
  EXPECT_EQ(public_text("/mnt/home/ada/x", "/home/ada", ""), "/mnt/home/ada/x");
  EXPECT_EQ(public_text("/x/root/y", "/", "root"), "/x/root/y");
  EXPECT_EQ(public_text("\x1b[2J hf_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3", "", ""), "\\x1b[2J <secret>");
}

TEST(EnvPrivacy, DocumentsLoseSecretsAtEveryDepth) {
  config::Problems problems;
  const auto document = config::parse_yaml(
      "hub_token: |\n  one\n  two\na: [{api_key: three}, {x: {password: [four, five]}}]  # six\n"
      "model: {pad_token_id: 7, num_key_value_heads: 2}\nempty_token:\n",
      "f.yaml", problems);
  EXPECT_EQ(config::to_yaml(cli::public_document(document)),
            "hub_token: set\na:\n-\n    api_key: set\n-\n    x:\n      password: set\nmodel:\n  pad_token_id: 7\n"
            "  num_key_value_heads: 2\nempty_token: null\n");
}

TEST(EnvFacts, ReadsAMachine) {
  const fs::path root = fs::temp_directory_path() / fmt::format("env-{}", getpid());
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  write("etc/os-release", "NAME=\"Some Linux\"\nPRETTY_NAME=\"Some Linux 12\"\n");
  write("run/.containerenv", "");
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU @ 3\nflags\t\t: fpu avx2 sse avx512_bf16 fma\n");
  write("proc/meminfo", "MemTotal:       2048 kB\nMemAvailable:    1024 kB\n");
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "1048576\n");
  write("sys/devices/system/node/node0/x", "");
  write("sys/devices/system/node/node1/x", "");
  write("sys/class/net/eth7/operstate", "up\n");
  write("sys/class/net/eth7/speed", "25000\n");
  write("sys/class/infiniband/mlx5_0/x", "");
  const auto text = [](const cli::FactSection& section, const std::string& name) -> std::string {
    for (const cli::Fact& fact : section.facts)
      if (fact.name == name) return fact.text;
    return "(absent)";
  };
  EXPECT_EQ(text(cli::system_facts(root), "system"), "Some Linux 12");
  EXPECT_EQ(text(cli::system_facts(root), "container"), "Podman");
  const cli::FactSection cpu = cli::cpu_facts(root);
  EXPECT_EQ(text(cpu, "model"), "Fast CPU @ 3");
  EXPECT_EQ(text(cpu, "NUMA nodes"), "2");
  EXPECT_EQ(text(cpu, "vector instructions"), "avx2 fma avx512_bf16");
  const cli::FactSection memory = cli::memory_facts(root);
  EXPECT_EQ(text(memory, "total"), "2.0 MiB");
  EXPECT_EQ(text(memory, "available"), "1.0 MiB");
  EXPECT_EQ(text(memory, "swap"), "(absent)");
  EXPECT_EQ(text(memory, "cgroup's limit"), "1.0 MiB");
  EXPECT_EQ(text(cli::network_facts(root), "interfaces"), "eth7 (up, 25000 Mbit/s)");
  EXPECT_EQ(text(cli::network_facts(root), "InfiniBand"), "mlx5_0");
  fs::remove_all(root);
}

TEST_F(Program, EnvShowsThisMachineWithoutSecrets) {
  write(".config/trainer/default_config.yaml", "num_processes: 2\nhub_token: planted-1\n");
  write(".cache/trainer/data/a/b", std::string(3000, 'x'));
  setenv("HF_TOKEN", "planted-2", 1);
  setenv("HTTPS_PROXY", "http://planted-3@proxy", 1);
  setenv("PRIVATE_PLACE", "planted-4", 1);
  setenv("NCCL_DEBUG", "INFO", 1);
  const Outcome page = run("env"), json = run("env --json");
  for (const char* name : {"HF_TOKEN", "HTTPS_PROXY", "PRIVATE_PLACE", "NCCL_DEBUG"}) unsetenv(name);
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_EQ(page.err, "");
  for (const char* part :
       {"**Program**\n- version: trainer ", "- HF_TOKEN: set\n", "- HTTPS_PROXY: set\n", "- NCCL_DEBUG: INFO\n",
        "- file: ~/.config/trainer/default_config.yaml\n", "```\nnum_processes: 2\nhub_token: set\n```\n",
        "- trainer: ~/.cache/trainer: 2.9 KiB in 1 files", "- folder: ~\n"})
    EXPECT_NE(page.out.find(part), std::string::npos) << part << " in\n" << page.out;
  EXPECT_EQ(page.out.find("planted"), std::string::npos) << page.out;
  EXPECT_EQ(page.out.find(folder_.string()), std::string::npos) << page.out;
  EXPECT_EQ(json.out.find("planted"), std::string::npos) << json.out;
  const auto read = nlohmann::json::parse(json.out);
  EXPECT_EQ(read.at("environment_variables").at("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(read.at("caches").at("trainer").at("bytes"), 3000);
  EXPECT_GT(read.at("memory").at("total").get<int64_t>(), 1 << 20);
  EXPECT_GE(read.at("cpu").at("cores_usable").get<int64_t>(), 1);
}

TEST_F(Program, EnvReportsAConfigurationThatItCannotRead) {
  write(".config/trainer/default_config.yaml", "lora: {r: 1]\n");
  const Outcome page = run("env");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_NE(page.out.find("- problem: ~/.config/trainer/default_config.yaml:1:"), std::string::npos) << page.out;
  EXPECT_EQ(run("env extra").code, 2);
}

}  // namespace
}  // namespace trainer
