// Checkpoints under any strategy, damaged ones, rotation, export.
#include "engine/checkpoint/checkpoint.h"
#include "engine/base/link_protocol.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/export_checkpoint.h"
#include "engine/config/names.h"
#include "engine/parallel/gather.h"
#include "engine/weights/export.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;
using config::DistributedType;

struct Strategy {
  DistributedType type = DistributedType::kNo;
  int ranks = 1;
  bool share_memory = true;
  int64_t copies = 1;  // replicas of the model, each sharded over some of the ranks
};
const Strategy kStrategies[] = {{},
                                {DistributedType::kMultiCpu, 2},
                                {DistributedType::kFsdp, 2},
                                {DistributedType::kFsdp, 3, false},
                                {DistributedType::kFsdp, 4, true, 2}};

void run_as(const Strategy& strategy, const std::function<void(dist::Comm&)>& body) {
  run_ranks(strategy.ranks, body, strategy.share_memory);
}

/// Bytes of every trained parameter and all optimizer state, gathered.
using Contents = std::map<std::string, std::string>;

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()};
}

/// One rank's view of a model initialized from a seed, and its optimizer.
struct TrainedRun {
  std::unique_ptr<parallel::ParallelModel> model;
  std::unique_ptr<optim::Optimizer> optimizer;

  TrainedRun(config::Plan plan, Strategy strategy, int64_t seed, dist::Comm& comm) {
    plan.config.distributed_type = strategy.type;
    plan.config.num_processes = strategy.ranks;
    if (strategy.copies > 1) plan.config.parallelism_config.emplace().dp_replicate_size = strategy.copies;
    plan.config.seed = seed;
    model = make_model(plan, comm);
    optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  }

  void train(int updates) {
    for (int i = 0; i < updates; ++i) {
      const models::Batch batch = make_batch({{5, 8, 1}, {7, 1}}, {{2, 3, 1}, {6, 1}});
      model->update({batch}, 5 * model->comm().size(), {});
      optimizer->step(model->logical_tensors(), 1e-2);
      model->zero_grad();
    }
  }

  checkpoint::RunState state() { return {*model, *optimizer}; }

  void save(const fs::path& folder, int64_t step) {
    checkpoint::Manifest about;
    about.progress.step = step;
    about.progress.consumed = 37;
    about.progress.loss_since_log = 0.1;
    about.samples = 20;
    checkpoint::save(folder, about, state(), [](const fs::path&) {});
  }

  Contents contents() {
    const at::NoGradGuard no_grad;
    Contents all;
    std::map<std::string, parallel::LogicalTensor> by_name;
    for (const auto& tensor : model->logical_tensors()) {
      if (!tensor.trainable) continue;
      by_name[tensor.name] = tensor;
      all["parameter/" + tensor.name] = bytes_of(parallel::gather(tensor, model->comm()));
    }
    for (const auto& piece : optimizer->state()) {
      const parallel::LogicalTensor tensor = piece.logical(by_name.at(piece.parameter));
      all[piece.kind + "/" + piece.parameter] = bytes_of(parallel::gather(tensor, model->comm()));
    }
    return all;
  }
};

config::Plan plan_of(const std::string& golden, bool lora) {
  config::Plan plan;
  plan.config.model.config = read_file(GoldenCase(golden).plan.config.model.path + "/config.json");
  if (lora) {
    plan.config.lora.emplace().init_lora_weights = "false";
    plan.config.lora->modules_to_save = {"lm_head"};
  }
  return plan;
}

/// For 8-bit AdamW with matrices large enough for 8-bit state.
config::Plan plan_for(config::OptimizerName optim, bool lora = false) {
  config::Plan plan = plan_of("v1_0", lora);
  plan.config.training.optim = optim;
  if (optim != config::OptimizerName::kAdamW8Bit) return plan;
  nlohmann::json model = nlohmann::json::parse(plan.config.model.config);
  model["d_ff"] = 320;
  plan.config.model.config = model.dump();
  return plan;
}

void expect_loads_under_all(bool lora, const Strategy& from, config::OptimizerName optim = {}) {
  config::Plan plan = plan_for(optim, lora);
  const TemporaryFolder folder;
  Contents saved;
  run_as(from, [&](dist::Comm& comm) {
    TrainedRun run(plan, from, 1, comm);
    run.train(2);
    const auto tensors = run.model->logical_tensors();
    tensors.back().value.fill_(-0.0);  // the sign must also survive
    run.save(folder.path(), 2);
    const Contents contents = run.contents();
    if (comm.rank() == 0) saved = contents;
  });
  for (const Strategy& to : kStrategies)
    run_as(to, [&](dist::Comm& comm) {
      TrainedRun run(plan, to, 2, comm);
      EXPECT_NE(run.contents(), saved);
      const auto manifest = checkpoint::load(checkpoint::checkpoint_path(folder.path(), 2), run.state());
      const Contents loaded = run.contents();
      EXPECT_EQ(loaded.size(), saved.size());
      for (const auto& [name, bytes] : saved) EXPECT_TRUE(loaded.at(name) == bytes) << name;
      EXPECT_EQ(run.optimizer->steps(), 2);
      EXPECT_EQ(manifest.world_size, from.ranks);
      EXPECT_EQ(manifest.progress.consumed, 37);
      EXPECT_EQ(manifest.progress.loss_since_log, 0.1);
    });
}

TEST(Checkpoint, LoadsUnderAnyOtherStrategy) {
  for (const Strategy& from : kStrategies) expect_loads_under_all(false, from);
}

TEST(Checkpoint, OfAdaptersLoadsUnderAnyOtherStrategy) {
  expect_loads_under_all(true, kStrategies[3]);
}

TEST(Checkpoint, OfReplicatedStateLoadsUnderAnyOtherStrategy) {
  for (const Strategy& from : kStrategies) expect_loads_under_all(false, from, config::OptimizerName::kAdafactor);
}

TEST(Checkpoint, OfQuantizedStateLoadsUnderAnyOtherStrategy) {
  for (const Strategy& from : {kStrategies[0], kStrategies[3]})
    expect_loads_under_all(false, from, config::OptimizerName::kAdamW8Bit);
}

TEST(Checkpoint, OfMuonLoadsUnderAnyOtherStrategy) {
  expect_loads_under_all(false, kStrategies[3], config::OptimizerName::kMuon);
}

TEST(Checkpoint, ResumesBitForBitWithEveryOptimizer) {
  for (const auto& [optim, name] : config::EnumNames<config::OptimizerName>::values) {
    config::Plan plan = plan_for(optim);
    plan.config.training.optim_args = optim == config::OptimizerName::kSgd ? "momentum=0.9, dampening=0.5" : "";
    const TemporaryFolder folder;
    const auto comm = dist::solo_comm();
    TrainedRun first(plan, {}, 1, *comm), second(plan, {}, 2, *comm);
    first.train(2);
    first.save(folder.path(), 2);
    checkpoint::load(checkpoint::checkpoint_path(folder.path(), 2), second.state());
    first.train(2), second.train(2);
    EXPECT_TRUE(first.contents() == second.contents()) << name;  // bit for bit
  }
}

TEST(Checkpoint, ExportOfAShardedModelIsTheSameFile) {
  const TemporaryFolder folder;
  run_as({}, [&](dist::Comm& comm) {
    TrainedRun run(plan_of("v1_0", false), {}, 1, comm);
    run.train(1);
    run.save(folder.path(), 1);
  });
  std::map<int, std::string> files;
  for (const Strategy& strategy : {Strategy{}, Strategy{DistributedType::kFsdp, 3}}) {
    const fs::path file = folder.path() / std::to_string(strategy.ranks);
    run_as(strategy, [&](dist::Comm& comm) {
      TrainedRun run(plan_of("v1_0", false), strategy, 2, comm);
      checkpoint::load(checkpoint::checkpoint_path(folder.path(), 1), run.state());
      checkpoint::export_weights(*run.model, file, [](const parallel::LogicalTensor& tensor) { return tensor.name; });
    });
    files[strategy.ranks] = read_file(file.string());
  }
  EXPECT_TRUE(files[1] == files[3]);
  EXPECT_GT(files[1].size(), 10'000U);
}

/// A small random number generator with the same sequence on every platform.
struct Dice {
  uint64_t state;
  uint64_t operator()(uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  }
};

/// A checkpoint of a very small model, to be damaged.
class Damaged : public ::testing::Test {
 protected:
  Damaged() : comm_(dist::solo_comm()) {
    plan_.config.model.config =
        R"({"model_type": "t5", "vocab_size": 9, "d_model": 4, "d_kv": 2, "d_ff": 6, "num_layers": 1, "num_heads": 2})";
    TrainedRun run(plan_, {}, 1, *comm_);
    run.train(1);
    run.save(folder_.path(), 3);
    checkpoint_ = checkpoint::checkpoint_path(folder_.path(), 3);
  }

  /// The message of the InputError that loading throws; "" if it succeeds.
  std::string problem(const config::Plan& plan) {
    TrainedRun run(plan, {}, 2, *comm_);
    try {
      checkpoint::load(checkpoint_, run.state());
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(checkpoint_ / name, std::ios::binary) << bytes;
  }

  config::Plan plan_;
  std::unique_ptr<dist::Comm> comm_;
  TemporaryFolder folder_;
  fs::path checkpoint_;
};

TEST_F(Damaged, AnIntactCheckpointLoads) {
  EXPECT_EQ(problem(plan_), "");
}

TEST_F(Damaged, DetectsAChangedOrMissingByte) {
  const std::string file = read_file((checkpoint_ / "rank-00000.safetensors").string());
  std::string damaged = file;
  damaged.back() ^= 1;
  write("rank-00000.safetensors", damaged);
  EXPECT_NE(problem(plan_).find("is damaged"), std::string::npos) << problem(plan_);
  write("rank-00000.safetensors", file.substr(0, file.size() - 1));
  EXPECT_NE(problem(plan_), "");
}

TEST_F(Damaged, DetectsEveryFlippedBit) {
  std::vector<fs::path> files;
  std::vector<uint64_t> ends;  // of the files, as if concatenated
  for (const auto& entry : fs::directory_iterator(checkpoint_)) {
    files.push_back(entry.path());
    ends.push_back((ends.empty() ? 0 : ends.back()) + entry.file_size());
  }
  ASSERT_EQ(files.size(), 3U);
  TrainedRun run(plan_, {}, 2, *comm_);
  Dice dice{5};
  for (int round = 0; round < 1000; ++round) {
    const uint64_t place = dice(ends.back());
    const auto index = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
    const std::string whole = read_file(files[index]);
    std::string flipped = whole;
    flipped[whole.size() - (ends[index] - place)] ^= static_cast<char>(1 << dice(8));
    write(files[index].filename().string(), flipped);
    EXPECT_THROW(checkpoint::load(checkpoint_, run.state()), InputError) << files[index] << ", byte " << place;
    write(files[index].filename().string(), whole);
  }
  EXPECT_EQ(problem(plan_), "");
}

TEST_F(Damaged, NamesAMissingFile) {
  fs::remove(checkpoint_ / "rank-00000.safetensors");
  EXPECT_NE(problem(plan_).find("rank-00000.safetensors"), std::string::npos) << problem(plan_);
}

TEST_F(Damaged, RefusesAnotherModelOrOptimizer) {
  config::Plan wider = plan_, deeper = plan_, adapted = plan_, other_optimizer = plan_;
  wider.config.model.config.replace(wider.config.model.config.find("\"d_ff\": 6"), 9, "\"d_ff\": 8");
  deeper.config.model.config.replace(deeper.config.model.config.find("\"num_layers\": 1"), 15, "\"num_layers\": 2");
  adapted.config.lora.emplace();
  other_optimizer.config.training.optim = config::OptimizerName::kSgd;
  EXPECT_NE(problem(wider).find("DenseReluDense.wi.weight has another shape"), std::string::npos) << problem(wider);
  EXPECT_NE(problem(deeper).find("block.1"), std::string::npos) << problem(deeper);
  EXPECT_NE(problem(adapted).find("lora_A"), std::string::npos) << problem(adapted);
  EXPECT_NE(problem(other_optimizer).find("the optimizer adamw; the configuration says sgd"), std::string::npos)
      << problem(other_optimizer);
}

TEST_F(Damaged, RefusesATruncatedManifest) {
  const std::string manifest = read_file((checkpoint_ / "manifest.json").string());
  for (size_t size = 0; size + 2 < manifest.size(); size += manifest.size() / 40) {
    write("manifest.json", manifest.substr(0, size));
    EXPECT_NE(problem(plan_), "") << size << " bytes";
  }
  fs::remove(checkpoint_ / "manifest.json");
  EXPECT_NE(problem(plan_), "");
}

TEST_F(Damaged, RefusesADeeplyNestedManifest) {
  const std::string manifest = read_file((checkpoint_ / "manifest.json").string());
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  write("manifest.json",
        checkpoint::sealed("{\"conditions\": " + deep + ", " + manifest.substr(manifest.find('{') + 1)));
  EXPECT_NE(problem(plan_).find("not the manifest of a checkpoint"), std::string::npos) << problem(plan_);
}

/// Replaces, removes or duplicates one value somewhere in the tree.
void mutate(nlohmann::json& node, Dice& dice) {
  if (node.is_structured() && !node.empty() && dice(4) != 0) {
    auto child = node.begin();
    std::advance(child, static_cast<int64_t>(dice(node.size())));
    if (dice(6) != 0) return mutate(*child, dice);
    if (node.is_array() && dice(2) == 0) {
      const nlohmann::json copy = *child;
      node.push_back(copy);
    } else {
      node.erase(child);
    }
    return;
  }
  static const nlohmann::json kValues[] = {nullptr,
                                           true,
                                           0,
                                           1,
                                           -1,
                                           7,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           0.5,
                                           1e300,
                                           "",
                                           "..",
                                           "/etc/passwd",
                                           "parameter",
                                           "rank-00000.safetensors",
                                           "parameter/shared.weight",
                                           nlohmann::json::array(),
                                           nlohmann::json::array({9, 4}),
                                           nlohmann::json::array({int64_t{1} << 40, int64_t{1} << 40}),
                                           nlohmann::json::object()};
  if (node.is_number_integer() && dice(3) == 0)
    node = static_cast<int64_t>(node.get<uint64_t>() + dice(7) - 3);  // wraps around
  else
    node = kValues[dice(std::size(kValues))];
}

TEST_F(Damaged, LoadsAnOlderCheckpointAndNamesTheSkippedOnes) {
  TrainedRun run(plan_, {}, 1, *comm_);
  run.save(folder_.path(), 5);
  fs::create_directory(folder_.path() / ".checkpoint-7.partial");
  EXPECT_EQ(checkpoint::load_newest(folder_.path(), run.state()).manifest.progress.step, 5);
  const fs::path shard = folder_.path() / "checkpoint-5/rank-00000.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  const checkpoint::Loaded loaded = checkpoint::load_newest(folder_.path(), run.state());
  EXPECT_EQ(loaded.manifest.progress.step, 3);
  EXPECT_EQ(loaded.folder, checkpoint_);
  ASSERT_EQ(loaded.skipped.size(), 2U);
  EXPECT_EQ(loaded.skipped[0], ".checkpoint-7.partial: the save was not finished");
  EXPECT_NE(loaded.skipped[1].find("checkpoint-5/rank-00000.safetensors is damaged"), std::string::npos);
  fs::remove(checkpoint_ / "trainer_state.json");
  try {
    checkpoint::load_newest(folder_.path(), run.state());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("checkpoint-5"), std::string::npos);  // the newest
  }
}

TEST_F(Damaged, ExportsWhatTheRunWouldHaveLeft) {
  TrainedRun run(plan_, {}, 2, *comm_);
  checkpoint::load(checkpoint_, run.state());
  const fs::path file = folder_.path() / "expected.safetensors", exported = folder_.path() / "exported";
  checkpoint::export_weights(*run.model, file, [](const parallel::LogicalTensor& tensor) { return tensor.name; });
  checkpoint::export_checkpoint(checkpoint_, exported);
  EXPECT_TRUE(read_file(exported / "model.safetensors") == read_file(file));
  EXPECT_FALSE(fs::exists(exported / "trainer_state.json"));
  EXPECT_THROW(checkpoint::export_checkpoint(checkpoint_, exported), ConfigError);  // it already holds a model
}

TEST(Checkpoint, SupportsSha256) {
  const TemporaryFolder folder;
  const auto comm = dist::solo_comm();
  TrainedRun run(plan_of("v1_0", false), {}, 1, *comm);
  checkpoint::Saver({.output_dir = folder.path(), .digest = "sha256"}, *comm).begin({}, run.state(), [](const auto&) {
  });
  const auto contents = checkpoint::read_contents(folder.path() / "checkpoint-0");
  ASSERT_EQ(contents.files.size(), 2U);
  for (const auto& file : contents.files) EXPECT_EQ(file.digest.size(), std::string("sha256:").size() + 64);
  checkpoint::load(folder.path() / "checkpoint-0", run.state());
}

TEST(Checkpoint, SavedDuringTrainingHoldsTheStateAtItsBeginning) {
  const Strategy strategy{DistributedType::kFsdp, 2};
  const TemporaryFolder folder;
  run_as(strategy, [&](dist::Comm& comm) {
    TrainedRun run(plan_of("v1_0", false), strategy, 1, comm);
    checkpoint::Saver saver({.output_dir = folder.path(), .async = true}, comm);
    saver.prepare(run.state());
    Contents expected;
    for (const int64_t step : {1, 2, 3}) {
      run.train(1);
      expected = run.contents();
      checkpoint::Manifest about;
      about.progress.step = step;
      saver.begin(about, run.state(), [](const auto&) {});  // waits for the previous one
      saver.wait_for_copy();
      EXPECT_TRUE(saver.busy());
    }
    run.train(1);
    EXPECT_NE(run.contents(), expected);
    saver.finish();
    EXPECT_FALSE(saver.busy());
    checkpoint::load(folder.path() / "checkpoint-3", run.state());
    EXPECT_TRUE(run.contents() == expected);
  });
  EXPECT_EQ(checkpoint::find_checkpoints(folder.path()).size(), 3U);
  EXPECT_EQ(fs::read_symlink(folder.path() / "latest"), "checkpoint-3");
}

TEST(CheckpointFolder, AFolderThatCantBeReadIsNotAnEmptyOne) {
  const TemporaryFolder folder;
  const fs::path loop = folder.path() / "loop";
  fs::create_symlink(loop, loop);
  EXPECT_TRUE(checkpoint::find_checkpoints(folder.path() / "missing").empty());
  EXPECT_THROW(checkpoint::find_checkpoints(loop), MachineError);
  EXPECT_THROW(checkpoint::find_unfinished(loop), MachineError);
  EXPECT_THROW(checkpoint::is_checkpoint(loop), MachineError);
  fs::create_directory(folder.path() / "run");
  fs::create_symlink(loop, folder.path() / "run/checkpoint-3");  // as on a file server that has lost it
  EXPECT_THROW(checkpoint::newest_checkpoint(folder.path() / "run"), MachineError);
}

TEST(CheckpointFolder, ThatCantBeReadFailsASaveOnAllRanks) {
  const Strategy strategy{DistributedType::kFsdp, 2};
  const TemporaryFolder folder;
  const fs::path loop = folder.path() / "checkpoint-3";
  run_as(strategy, [&](dist::Comm& comm) {
    TrainedRun run(plan_of("v1_0", false), strategy, 1, comm);
    if (comm.rank() == 0) std::ofstream(folder.path() / ".lock") << "process 1 on one, leader epoch 2";
    comm.barrier();
    checkpoint::Saver saver({.output_dir = folder.path()}, comm);
    if (comm.rank() == 0) fs::create_symlink(loop, loop);
    checkpoint::Manifest about;
    about.progress.step = 6;
    EXPECT_THROW(saver.begin(about, run.state(), [](const auto&) {}), MachineError);
    if (comm.rank() == 0) fs::remove(loop);
    saver.begin(about, run.state(), [](const auto&) {});  // the next one is saved
  });
  EXPECT_EQ(checkpoint::newest_checkpoint(folder.path())->step, 6);
}

TEST_F(Damaged, RefusesAMutatedManifestUnlessHarmless) {
  const std::string text = read_file((checkpoint_ / "manifest.json").string());
  const nlohmann::json whole = nlohmann::json::parse(text);
  Dice dice{12};
  int refused = 0, harmless = 0, others = 0;
  TrainedRun run(plan_, {}, 2, *comm_);
  for (int round = 0; round < 2000; ++round) {
    std::string mutated;
    if (round % 2 == 0) {
      nlohmann::json manifest = whole;
      manifest.erase("seal");
      for (uint64_t i = 0; i <= dice(2); ++i) mutate(manifest, dice);
      mutated = manifest.is_object() ? checkpoint::sealed(manifest.dump(1)) : manifest.dump();
    } else {
      mutated = text;
      const size_t at = dice(mutated.size());
      switch (dice(3)) {
        case 0:
          mutated[at] = static_cast<char>(dice(256));
          break;
        case 1:
          mutated.erase(at, 1 + dice(40));
          break;
        default:
          mutated.insert(at, text.substr(dice(text.size()), 1 + dice(40)));
      }
    }
    write("manifest.json", mutated);
    try {
      checkpoint::load(checkpoint_, run.state());
      ++harmless;
    } catch (const InputError&) {
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "round " << round << ": " << error.what();
      if (++others == 3) break;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(harmless, 10);  // otherwise the mutations are too coarse
}

TEST(CheckpointFolder, AttemptsUseDifferentUnfinishedFolders) {
  const TemporaryFolder folder;
  const fs::path alone = checkpoint::partial_path(folder.path(), 7);
  setenv(kAttemptIdVariable, "0a1b2c3d", 1);
  const fs::path one = checkpoint::partial_path(folder.path(), 7);
  setenv(kAttemptIdVariable, "4e5f6071", 1);
  const fs::path other = checkpoint::partial_path(folder.path(), 7);
  unsetenv(kAttemptIdVariable);
  EXPECT_EQ(alone.filename(), ".checkpoint-7.partial");
  EXPECT_EQ(one.filename(), ".checkpoint-7.0a1b2c3d.partial");
  EXPECT_NE(one, other);
  fs::create_directory(one);
  EXPECT_EQ(checkpoint::find_unfinished(folder.path()), std::vector<fs::path>{one});
  checkpoint::remove_partial(folder.path());
  EXPECT_FALSE(fs::exists(one));
}

TEST(CheckpointFolder, RotationKeepsTheNewestAndIgnoresOtherFolders) {
  const TemporaryFolder folder;
  const auto make = [&](const std::string& name, bool manifest = true) {
    fs::create_directory(folder.path() / name);
    if (manifest) std::ofstream(folder.path() / name / "manifest.json") << "{}";
  };
  for (const char* name : {"checkpoint-9", "checkpoint-10", "checkpoint-100", "checkpoint-12x", "checkpoint-",
                           ".checkpoint-300.partial", "other"})
    make(name);
  make("checkpoint-200", false);
  const auto steps = [&] {
    std::vector<int64_t> all;
    for (const auto& found : checkpoint::find_checkpoints(folder.path())) all.push_back(found.step);
    return all;
  };
  EXPECT_EQ(steps(), (std::vector<int64_t>{9, 10, 100}));
  EXPECT_EQ(checkpoint::newest_checkpoint(folder.path())->step, 100);
  checkpoint::rotate(folder.path(), {}, 100);
  EXPECT_EQ(steps().size(), 3U);
  checkpoint::rotate(folder.path(), {2}, 100);
  EXPECT_EQ(steps(), (std::vector<int64_t>{10, 100}));
  checkpoint::rotate(folder.path(), {1}, 100);
  checkpoint::rotate(folder.path(), {1}, 100);
  EXPECT_EQ(steps(), (std::vector<int64_t>{100}));
  EXPECT_FALSE(fs::exists(folder.path() / "checkpoint-10"));
  checkpoint::remove_partial(folder.path());
  EXPECT_FALSE(fs::exists(folder.path() / ".checkpoint-300.partial"));
  for (const char* name : {"checkpoint-12x", "checkpoint-200", "other"})
    EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
  EXPECT_FALSE(checkpoint::newest_checkpoint(folder.path() / "absent"));
}

TEST(CheckpointFolder, RotationKeepsTheBest) {
  const TemporaryFolder folder;
  const auto make = [&](int64_t step, double loss) {
    const fs::path path = checkpoint::checkpoint_path(folder.path(), step);
    fs::create_directory(path);
    const nlohmann::json manifest = {{"format", checkpoint::kFormat},
                                     {"version", checkpoint::kFormatVersion},
                                     {"progress", {{"step", step}}},
                                     {"world_size", 1},
                                     {"strategy", ""},
                                     {"optimizer", ""},
                                     {"files", nlohmann::json::array()},
                                     {"metrics", {{"eval_loss", loss}, {"eval_accuracy", 0.5}}}};
    std::ofstream(path / "manifest.json") << checkpoint::sealed(manifest.dump(1));
  };
  const auto left_of = [&](const checkpoint::Keep& keep) {
    auto all = checkpoint::find_checkpoints(folder.path());
    for (const auto& gone : checkpoint::checkpoints_to_remove(all, keep))
      std::erase_if(all, [&](const auto& one) { return one.step == gone.step; });
    std::vector<int64_t> steps;
    for (const auto& one : all) steps.push_back(one.step);
    return steps;
  };
  using Steps = std::vector<int64_t>;
  make(1, 0.9), make(2, 0.4), make(3, 0.6), make(4, 0.5), make(5, 0.7);
  EXPECT_EQ(left_of({.newest = 3}), (Steps{3, 4, 5}));
  EXPECT_EQ(left_of({.newest = 3, .best_by = "loss"}), (Steps{2, 4, 5}));
  EXPECT_EQ(left_of({.newest = 1, .best_by = "loss"}), (Steps{2, 5}));
  EXPECT_EQ(left_of({.newest = 4, .best_by = "loss"}), (Steps{2, 3, 4, 5}));
  EXPECT_EQ(left_of({.newest = 2, .best_by = "accuracy"}), (Steps{1, 5}));  // all equal: the first
  EXPECT_EQ(left_of({.newest = 9, .best_by = "loss"}), (Steps{1, 2, 3, 4, 5}));
  make(5, 0.1);
  EXPECT_EQ(left_of({.newest = 2, .best_by = "loss"}), (Steps{4, 5}));
  checkpoint::rotate(folder.path(), {.newest = 1, .best_by = "loss"}, 3);  // 4 and 5 are from an abandoned continuation
  EXPECT_EQ(left_of({}), (Steps{2, 3, 4, 5}));
}

TEST(CheckpointFolder, ASaveRemovesTheLeftoversOfAKilledOne) {
  const TemporaryFolder folder;
  const auto comm = dist::solo_comm();
  TrainedRun run(plan_of("v1_0", true), {}, 1, *comm);
  fs::create_directory(checkpoint::partial_path(folder.path(), 5));
  std::ofstream(checkpoint::partial_path(folder.path(), 5) / "manifest.json") << "half";
  run.save(folder.path(), 5);
  EXPECT_FALSE(fs::exists(checkpoint::partial_path(folder.path(), 5)));
  EXPECT_EQ(checkpoint::newest_checkpoint(folder.path())->step, 5);
}

/// A run whose folder another process takes over.
class TakenOver : public ::testing::Test {
 protected:
  TakenOver() {
    sign("process 1 on one, leader epoch 2");
    saver_.emplace(checkpoint::Saver::Options{.output_dir = folder_.path(), .async = true}, *comm_);
    saver_->prepare(run_.state());
    run_.save(folder_.path(), 3);
  }

  void sign(const std::string& who) { std::ofstream(folder_.path() / ".lock") << who; }
  void begin(int64_t step) {
    checkpoint::Manifest about;
    about.progress.step = step;
    saver_->begin(about, run_.state(), [](const auto&) {});
  }
  /// Another leader has published a checkpoint, but the lock file doesn't show it.
  void publish_under(int64_t leader_epoch) {
    const fs::path folder = checkpoint::checkpoint_path(folder_.path(), 3);
    checkpoint::Manifest manifest = checkpoint::read_manifest(folder.string());
    EXPECT_EQ(manifest.leader_epoch, 2) << "its own";
    manifest.leader_epoch = leader_epoch;
    publish_file(folder / "manifest.json", checkpoint::to_json(manifest));
  }
  /// Simulates the other process with a save in progress.
  void take_over() {
    sign("process 1 on another");
    fs::create_directory(theirs_);
  }
  void expect_untouched() {
    EXPECT_TRUE(fs::exists(theirs_));
    EXPECT_EQ(checkpoint::find_checkpoints(folder_.path()).size(), 1U);
    EXPECT_EQ(fs::read_symlink(folder_.path() / "latest"), "checkpoint-3");
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<dist::Comm> comm_ = dist::solo_comm();
  TrainedRun run_{plan_of("v1_0", true), {}, 1, *comm_};
  std::optional<checkpoint::Saver> saver_;
  const fs::path theirs_ = folder_.path() / ".checkpoint-9.0a1b2c3d.partial";
};

TEST_F(TakenOver, BeginsNoSave) {
  take_over();
  EXPECT_THROW(begin(6), PeerError);
  expect_untouched();
}

TEST_F(TakenOver, BeginsNoSaveUnderALowerLeaderEpochThanTheNewestCheckpoint) {
  publish_under(3);
  try {
    begin(6);
    FAIL() << "it was begun";
  } catch (const PeerError& error) {
    const std::string why = error.what();
    EXPECT_NE(why.find("checkpoint-3 was saved under leader epoch 3\n"), std::string::npos) << why;
    EXPECT_NE(why.find("this run (process 1 on one, leader epoch 2) was paused or cut off"), std::string::npos) << why;
  }
  EXPECT_TRUE(checkpoint::find_unfinished(folder_.path()).empty());
}

TEST_F(TakenOver, PublishesNoSaveUnderALowerLeaderEpochThanTheNewestCheckpoint) {
  begin(6);
  publish_under(3);
  EXPECT_THROW(saver_->finish(), MachineError);
  EXPECT_EQ(checkpoint::find_checkpoints(folder_.path()).size(), 1U);
}

TEST_F(TakenOver, SavesUnderAnEqualOrHigherLeaderEpoch) {
  publish_under(1);
  begin(6);
  saver_->finish();
  begin(7);
  saver_->finish();
  EXPECT_EQ(checkpoint::find_checkpoints(folder_.path()).size(), 3U);
}

TEST_F(TakenOver, DoesNotPublishASaveInProgress) {
  begin(6);
  take_over();
  try {
    saver_->finish();
    FAIL() << "it was published";
  } catch (const MachineError& error) {
    EXPECT_NE(std::string(error.what()).find("taken over"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("by process 1 on another"), std::string::npos) << error.what();
  }
  expect_untouched();
}

TEST_F(TakenOver, AFailedSaveLeavesTheOtherProcesssSaveAlone) {
  begin(6);
  while (!saver_->ready()) std::this_thread::yield();
  // As the other process does when it starts:
  for (const fs::path& unfinished : checkpoint::find_unfinished(folder_.path())) fs::remove_all(unfinished);
  take_over();
  EXPECT_THROW(saver_->finish(), MachineError);
  expect_untouched();
}

TEST_F(TakenOver, TheOtherProcessRemovesUnpublishedSaves) {
  begin(6);
  while (!saver_->ready()) std::this_thread::yield();
  sign("process 1 on another");
  checkpoint::Saver other({.output_dir = folder_.path()}, *comm_);
  other.remove_unfinished();
  EXPECT_TRUE(checkpoint::find_unfinished(folder_.path()).empty());
  EXPECT_THROW(saver_->finish(), MachineError);
  EXPECT_EQ(checkpoint::newest_checkpoint(folder_.path())->step, 3);
}

}  // namespace
}  // namespace trainer::testing
