// Processes that another launcher started as ranks: how their environment is interpreted.
#include "engine/config/machine/started_rank.h"

#include <cstdlib>
#include <map>

#include "tests/config/given.h"

namespace trainer::config {
namespace {

using Variables = std::map<std::string, std::string>;

const Variables kTorchrun{
    {"RANK", "5"},           {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},         {"LOCAL_WORLD_SIZE", "4"},
    {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29400"}, {"TORCHELASTIC_RUN_ID", "a"}};
const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "2"},
                        {"OMPI_COMM_WORLD_SIZE", "3"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                        {"PMIX_NAMESPACE", "77"}};
const Variables kSrun{{"SLURM_PROCID", "2"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                      {"SLURM_STEP_NODELIST", "node[07-08,11]"},
                      {"SLURM_JOB_ID", "123"},
                      {"SLURM_STEP_ID", "0"}};
const std::string kDdp = "distributed_type: MULTI_CPU\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a.txt}}\n";

class Started : public Given {
 protected:
  ~Started() override { clear(); }

  static void clear() {
    for (const std::string& name : known_variables()) unsetenv(name.c_str());
  }

  /// `variables` with `changes`; "" removes a variable.
  static void set(Variables variables, const Variables& changes = {}) {
    clear();
    for (const auto& [name, value] : changes) variables[name] = value;
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }

  static std::string refusal(const Variables& variables, const Variables& changes) {
    set(variables, changes);
    try {
      started_rank();
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  }
};

TEST_F(Started, ReadsTorchrun) {
  set(kTorchrun);
  const auto started = started_rank();
  ASSERT_TRUE(started);
  EXPECT_EQ(started->by, "torchrun");
  EXPECT_EQ(started->variables, "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4");
  EXPECT_EQ(started->machine(), 1);
  EXPECT_EQ(started->machines(), 2);
  EXPECT_EQ(started->address, "head");
  EXPECT_EQ(started->port, 29400);
  set(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(started_rank()->port, 29401) << "its agent listens on MASTER_PORT";
  EXPECT_NE(started->job, (set(kTorchrun, {{"TORCHELASTIC_RUN_ID", "b"}}), started_rank()->job));
  EXPECT_NE((set(kTorchrun, {{"GROUP_RANK", "0"}}), started_rank()->job),
            (set(kTorchrun, {{"GROUP_RANK", "1"}}), started_rank()->job))
      << "two agents on one machine";

  const Plan plan = resolve(kDdp + "num_processes: 2\n");
  EXPECT_EQ(plan.config.num_processes, 8);
  EXPECT_EQ(plan.config.num_machines, 2);
  EXPECT_EQ(plan.config.machine_rank, 1);
  EXPECT_EQ(plan.config.main_process_ip, "head");
  EXPECT_EQ(plan.origins.at("num_processes"), "environment WORLD_SIZE");
  EXPECT_NO_THROW(check_started_rank(plan));
  EXPECT_EQ(machine_reading(plan),
            "environment: RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 by torchrun: read as rank 5 of 8; this "
            "process runs ranks 4 to 7, and the other 3 on this machine wait for it");
}

TEST_F(Started, ReadsMpirun) {
  set(kMpirun);
  const auto started = started_rank();
  ASSERT_TRUE(started);
  EXPECT_EQ(started->by, "mpirun");
  EXPECT_EQ(started->local_rank, 2);
  EXPECT_EQ(started->machines(), 1);
  const Plan plan = resolve(kDdp);
  EXPECT_EQ(plan.config.num_processes, 3);
  EXPECT_EQ(plan.config.num_machines, 1);

  set({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(started_rank()->local_ranks, 2) << "Hydra's";
}

TEST_F(Started, ReadsSrun) {
  set(kSrun);
  const auto started = started_rank();
  ASSERT_TRUE(started);
  EXPECT_EQ(started->by, "srun");
  EXPECT_EQ(started->machine(), 1);
  EXPECT_EQ(started->local_ranks, 2);
  EXPECT_EQ(started->address, "node07");
  set(kSrun, {{"SLURM_STEP_NODELIST", "alpha,beta"}});
  EXPECT_EQ(started_rank()->address, "alpha");
  set(kSrun, {{"SLURM_STEP_NUM_TASKS", ""}, {"SLURM_NTASKS", "4"}});
  EXPECT_FALSE(started_rank()) << "a batch script is not a rank";
  unsetenv("SLURM_NTASKS");
}

TEST_F(Started, SrunsJobSelectsThePort) {
  set(kSrun);
  const StartedRank first = *started_rank();
  EXPECT_EQ(first.step, "SLURM job 123, step 0");
  EXPECT_EQ(first.derived_port, 20000 + 123 * 16);
  const Plan plan = resolve(kDdp);
  EXPECT_EQ(plan.config.main_process_port, first.derived_port);
  EXPECT_EQ(plan.origins.at("main_process_port"), "environment SLURM_JOB_ID");
  EXPECT_EQ(resolve(kDdp + "main_process_port: 1234\n").config.main_process_port, 1234);
  set(kSrun, {{"SLURM_JOB_ID", "124"}});
  EXPECT_NE(started_rank()->derived_port, first.derived_port);
  set(kSrun, {{"SLURM_STEP_ID", "1"}});
  EXPECT_NE(started_rank()->derived_port, first.derived_port);
  set(kSrun, {{"MASTER_PORT", "4321"}});
  EXPECT_EQ(resolve(kDdp).config.main_process_port, 4321);
  set(kSrun, {{"SLURM_JOB_ID", "4000000000"}, {"SLURM_STEP_ID", "9999"}});
  EXPECT_GE(started_rank()->derived_port, 20000);
  EXPECT_LT(started_rank()->derived_port, 30000);
  set(kTorchrun);
  EXPECT_EQ(started_rank()->derived_port, 0);
}

TEST_F(Started, NodesOfOneMachineAreDistinguished) {
  set(kSrun, {{"SLURM_NODEID", "0"}});
  const StartedRank first = *started_rank();
  set(kSrun, {{"SLURM_NODEID", "1"}});
  EXPECT_NE(started_rank()->job, first.job) << "their processes must not meet";
  EXPECT_EQ(started_rank()->step, first.step);
}

TEST_F(Started, InnermostLauncherCounts) {
  Variables both = kSrun;
  both.insert(kMpirun.begin(), kMpirun.end());
  set(both);
  EXPECT_EQ(started_rank()->by, "mpirun");
  Variables script = kSrun;
  for (const auto& [name, value] : Variables{{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}})
    script[name] = value;
  set(script);
  EXPECT_EQ(started_rank()->by, "torchrun");
  EXPECT_EQ(started_rank()->local_ranks, 2) << "from the enclosing srun";
}

TEST_F(Started, IgnoresProcessesThatAreNotRanks) {
  for (const char* missing : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    set(kTorchrun, {{missing, ""}});
    EXPECT_FALSE(started_rank()) << missing;
  }
  set(kMpirun, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_FALSE(started_rank()) << "alone";
  EXPECT_EQ(resolve(kDdp + "num_processes: 4\n").config.num_processes, 4);
}

TEST_F(Started, OneProcessPerMachineCanRepresentIt) {
  const Variables one_each{{"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x4)"}};
  set(kSrun, one_each);
  const Plan machines = resolve(kDdp + "num_processes: 8\nnum_machines: 4\n");
  EXPECT_EQ(machines.config.num_processes, 8);
  EXPECT_EQ(machines.config.num_machines, 4);
  EXPECT_EQ(machines.config.machine_rank, 1);
  EXPECT_NO_THROW(check_started_rank(machines));
  EXPECT_NE(machine_reading(machines).find("by srun: read as machine 1 of 4, with 2 ranks each"), std::string::npos);
  const Plan ranks = resolve(kDdp + "num_processes: 2\n");
  EXPECT_EQ(ranks.config.num_processes, 4);
  EXPECT_EQ(ranks.config.num_machines, 4);
  EXPECT_NE(machine_reading(ranks).find("by srun: read as rank 1 of 4"), std::string::npos);
}

TEST_F(Started, RefusesContradictoryNumbers) {
  EXPECT_EQ(refusal(kTorchrun, {{"RANK", "8"}}),
            "environment: RANK is 8, but WORLD_SIZE is 8: ranks are numbered from 0");
  EXPECT_EQ(refusal(kTorchrun, {{"LOCAL_RANK", "4"}}),
            "environment: LOCAL_RANK is 4, but LOCAL_WORLD_SIZE is 4: ranks are numbered from 0");
  EXPECT_EQ(refusal(kTorchrun, {{"LOCAL_WORLD_SIZE", "3"}}),
            "environment: WORLD_SIZE is 8, but LOCAL_WORLD_SIZE is 3: every machine must run the same number of ranks");
  EXPECT_EQ(refusal(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}),
            "environment: OMPI_COMM_WORLD_RANK is 2, but OMPI_COMM_WORLD_LOCAL_RANK is 1 of 3: ranks must be numbered "
            "machine by machine (mpirun --map-by slot, srun --distribution=block)");
  EXPECT_EQ(refusal(kTorchrun, {{"RANK", "one"}}), "environment: RANK is 'one': it must be a number");
  EXPECT_EQ(refusal(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "3,1"}}),
            "environment: SLURM_STEP_TASKS_PER_NODE is '3,1': every machine must run the same number of ranks "
            "(--ntasks-per-node)");
  EXPECT_NE(refusal(kTorchrun, {{"LOCAL_WORLD_SIZE", ""}}).find("but LOCAL_WORLD_SIZE is not set"), std::string::npos);
}

TEST_F(Started, FlagsMustAgreeWithEnvironment) {
  set(kMpirun);
  const Plan plan = resolve(kDdp, {{"num_processes", "2", "--num_processes"}});
  try {
    check_started_rank(plan);
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("num_processes is 2 (--num_processes), but mpirun started this process with "
                        "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("makes it 3"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace trainer::config
