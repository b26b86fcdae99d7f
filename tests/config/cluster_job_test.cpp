// Scripts and manifests for schedulers: what they take from the plan.
#include "engine/config/clusters/cluster_job.h"

#include <gtest/gtest.h>

namespace trainer::config {
namespace {

Plan two_machines() {
  Plan plan;
  plan.config.output_dir = "/data/runs/My_Run 2";
  plan.config.distributed_type = DistributedType::kMultiGpu;
  plan.config.num_machines = 2;
  plan.config.num_processes = 8;
  plan.config.training.ddp_backend = DdpBackend::kNccl;
  plan.config.num_cpu_threads_per_process = 3;
  return plan;
}

TEST(ClusterJob, TakesSizesFromThePlan) {
  const ClusterJob job = cluster_job(two_machines(), {"job.yaml"}, "/bin/trainer", "/work");
  EXPECT_EQ(job.name, "my-run-2");
  EXPECT_EQ(job.machines, 2);
  EXPECT_EQ(job.gpus, 4);
  EXPECT_EQ(job.cpus, 12);
  Plan plan = two_machines();
  plan.config.use_cpu = true;
  EXPECT_EQ(cluster_job(plan, {}, "t", "/").gpus, 0);
}

TEST(ClusterJob, DropsFlagsThatNumberMachines) {
  const ClusterJob job = cluster_job(two_machines(),
                                     {"--nnodes", "2", "--config_file", "a.yaml", "--node-rank=1", "--master_addr", "x",
                                      "--nproc_per_node", "4", "--set", "seed=1"},
                                     "trainer", "/work");
  EXPECT_EQ(job.arguments, (std::vector<std::string>{"launch", "--config_file", "a.yaml", "--nproc_per_node", "4",
                                                     "--set", "seed=1"}));
}

TEST(ClusterJob, QuotesForTheShellAndForYaml) {
  const ClusterJob job = cluster_job(two_machines(), {"it's $HOME.yaml"}, "/a b/trainer", "/work/\"x\"");
  const std::string script = sbatch_text(job), manifest = jobset_text(job);
  EXPECT_NE(script.find("'/a b/trainer' launch 'it'\\''s $HOME.yaml' &\n"), std::string::npos) << script;
  EXPECT_NE(script.find("#SBATCH --gres=gpu:4\n"), std::string::npos);
  EXPECT_NE(manifest.find("args: [\"launch\", \"it's $HOME.yaml\"]\n"), std::string::npos) << manifest;
  EXPECT_NE(manifest.find("workingDir: \"/work/\\\"x\\\"\"\n"), std::string::npos) << manifest;
}

TEST(ClusterJob, ContainersServeMetricsOnTheirAddresses) {
  Plan plan = two_machines();
  const std::vector<std::string> given{"a.yaml", "--metrics_address=127.0.0.1", "--seed", "1"};
  EXPECT_EQ(container_arguments(cluster_job(plan, given, "t", "/")).back(), "1") << "without metrics, as given";
  plan.config.logging.metrics_port = 9400;
  EXPECT_EQ(container_arguments(cluster_job(plan, given, "t", "/")),
            (std::vector<std::string>{"launch", "a.yaml", "--seed", "1", "--metrics_address", "0.0.0.0"}));
  plan.config.logging.metrics_address = "10.0.0.7";
  EXPECT_EQ(container_arguments(cluster_job(plan, {"a.yaml"}, "t", "/")).back(), "a.yaml");
}

TEST(ClusterJob, ReadinessWaitsForTheRunOnlyWhereNamesArePublishedBefore) {
  Plan plan = two_machines();
  EXPECT_EQ(pytorchjob_text(cluster_job(plan, {}, "t", "/")).find("Probe"), std::string::npos);
  plan.config.logging.metrics_port = 9400;
  const auto probes = [&](const std::string& text, const char* path) {
    return text.find(std::string("readinessProbe: {httpGet: {path: ") + path + ", port: metrics}") != std::string::npos;
  };
  EXPECT_TRUE(probes(jobset_text(cluster_job(plan, {}, "t", "/")), "/readyz"));
  EXPECT_TRUE(probes(pytorchjob_text(cluster_job(plan, {}, "t", "/")), "/healthz"));
  plan.config.num_machines = 1;
  EXPECT_TRUE(probes(pytorchjob_text(cluster_job(plan, {}, "t", "/")), "/readyz"));
}

TEST(ClusterJob, FillsTemplates) {
  EXPECT_EQ(filled("a $X$XY\n@if X b\n@if Y c\n$Z\n", {{"X", "2"}, {"Y", "1"}}), "a 22Y\nb\n$Z\n");
}

}  // namespace
}  // namespace trainer::config
