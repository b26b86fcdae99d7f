// Frozen weights that are used where their file is mapped: Note [Weights in place].
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <ATen/ops/equal.h>

#include "engine/base/errors.h"
#include "engine/parallel/gather.h"
#include "engine/train/build.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;

/// Passes on what can be read of `source`, but nothing in place.
class CopiedSource : public parallel::WeightSource {
 public:
  explicit CopiedSource(const parallel::WeightSource& source) : source_(source) {}
  nn::Storage storage(const nn::Parameter& p) const override { return source_.storage(p); }
  void read(const nn::Parameter& p, int64_t begin, int64_t end, const at::Tensor& out) const override {
    source_.read(p, begin, end, out);
  }

 private:
  const parallel::WeightSource& source_;
};

std::unique_ptr<parallel::ParallelModel> with_copies(const config::Plan& plan, dist::Comm& comm) {
  train::Blueprint blueprint = train::make_blueprint(plan);
  blueprint.sources.push_back(std::make_unique<CopiedSource>(blueprint.source()));
  return train::make_parallel(plan, blueprint, comm);
}

/// The file that this process has mapped at `address`, or "".
std::string file_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string access, offset, device, inode, path;
    words >> std::hex >> begin >> dash >> end >> access >> offset >> device >> inode >> path;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (begin <= at && at < end) return path;
  }
  return "";
}

/// How many of the model's frozen weights are in place, and how many aren't.
struct Places {
  int in_place = 0, copied = 0;
};
Places places_of(const parallel::ParallelModel& model, const std::string& file) {
  Places places;
  for (const parallel::LogicalTensor& tensor : model.logical_tensors()) {
    const bool in_place = file_at(tensor.value.const_data_ptr()) == file;
    if (tensor.trainable)
      EXPECT_FALSE(in_place) << tensor.name;
    else
      ++(in_place ? places.in_place : places.copied);
  }
  return places;
}

/// LoRA on a model whose folder the test may change.
class WeightsInPlace : public ::testing::Test {
 protected:
  WeightsInPlace() {
    golden_.plan.config.training.dropout = true;
    copy_model(golden_.plan.config.model.path);
    if (!RegularFile(file()).is_local())
      skipped_ = folder_.path().string() + " isn't on a local file system, where alone weights are used in place";
  }
  void SetUp() override {
    if (!skipped_.empty()) GTEST_SKIP() << skipped_;
  }
  /// Trains a copy of the model in `folder`.
  void copy_model(const std::string& folder) {
    const fs::path copy = folder_.path() / fs::path(folder).filename();
    fs::copy(folder, copy);
    golden_.plan.config.model.path = copy.string();
  }
  std::string file() const { return golden_.plan.config.model.path + "/model.safetensors"; }

  const TemporaryFolder folder_;
  GoldenCase golden_{"v1_0/lora_qv"};
  std::string skipped_;
};

TEST_F(WeightsInPlace, TrainAsCopiesDo) {
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden_.plan, *comm), copied = with_copies(golden_.plan, *comm);
  const Places places = places_of(*model, file());
  EXPECT_GT(places.in_place, 10);
  EXPECT_EQ(places.copied, 0);
  EXPECT_EQ(places_of(*copied, file()).in_place, 0);
  nn::Pass pass;
  pass.training = true;
  const double loss = model->update(golden_.batches, 10, pass), expected = copied->update(golden_.batches, 10, pass);
  EXPECT_EQ(loss, expected);
  for (size_t i = 0; i < model->logical_tensors().size(); ++i) {
    const auto &here = model->logical_tensors()[i], &there = copied->logical_tensors()[i];
    EXPECT_TRUE(at::equal(here.value, there.value)) << here.name;
    if (here.trainable) EXPECT_TRUE(at::equal(here.grad, there.grad)) << here.name;
  }
}

TEST_F(WeightsInPlace, OfTensorParallelRanksAreTheirRows) {
  copy_model(source_dir() + "/tests/golden/qlora/llama");
  golden_.plan.config.data.task = config::Task::kCausalLm;
  golden_.plan.config.lora = config::LoraConfig{};
  golden_.plan.config.distributed_type = config::DistributedType::kMultiCpu;
  golden_.plan.config.num_processes = 2;
  golden_.plan.config.parallelism_config.emplace().tp_size = 2;
  run_ranks(2, [this](dist::Comm& comm) {
    const auto model = make_model(golden_.plan, comm), copied = with_copies(golden_.plan, comm);
    const Places places = places_of(*model, file());
    EXPECT_EQ(places.in_place, 10);
    EXPECT_EQ(places.copied, 2) << "o_proj and down_proj, which are split along columns";
    for (size_t i = 0; i < model->logical_tensors().size(); ++i)
      EXPECT_TRUE(at::equal(model->logical_tensors()[i].value, copied->logical_tensors()[i].value));
  });
}

TEST_F(WeightsInPlace, AreNotShardedWhereRanksShareMemory) {
  golden_.plan.config.distributed_type = config::DistributedType::kFsdp;
  golden_.plan.config.num_processes = 2;
  run_ranks(2, [this](dist::Comm& comm) {
    const auto model = make_model(golden_.plan, comm), copied = with_copies(golden_.plan, comm);
    const Places places = places_of(*model, file());
    EXPECT_GT(places.in_place, 10);
    EXPECT_EQ(places.copied, 0);
    nn::Pass pass;
    pass.training = true;
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(model->update(golden_.batches, 10, pass), copied->update(golden_.batches, 10, pass));
    for (size_t i = 0; i < model->logical_tensors().size(); ++i) {
      const auto &here = model->logical_tensors()[i], &there = copied->logical_tensors()[i];
      if (here.trainable) EXPECT_TRUE(at::equal(here.grad, there.grad)) << here.name;
      EXPECT_TRUE(at::equal(parallel::gather(here, comm), parallel::gather(there, comm))) << here.name;
    }
  });
  run_ranks(
      2, [this](dist::Comm& comm) { EXPECT_EQ(places_of(*make_model(golden_.plan, comm), file()).in_place, 0); },
      /*share_memory=*/false);
}

TEST_F(WeightsInPlace, OfAnotherDtypeAreCopied) {
  golden_.plan.config.mixed_precision = config::MixedPrecision::kBf16;
  const auto comm = dist::solo_comm();
  const Places places = places_of(*make_model(golden_.plan, *comm), file());
  EXPECT_GT(places.copied, 10) << "those of linear layers";
  EXPECT_GT(places.in_place, 0) << "norms, which compute in fp32";
}

TEST_F(WeightsInPlace, OfAModelThatIsntTrainedAreCopied) {  // Its pages are then larger, and generation is faster.
  const auto comm = dist::solo_comm();
  train::Blueprint blueprint = train::make_blueprint(golden_.plan);
  for (const nn::ParameterPtr& p : blueprint.model->all_parameters()) p->trainable = false;
  EXPECT_EQ(places_of(*train::make_parallel(golden_.plan, blueprint, *comm), file()).in_place, 0);
}

TEST_F(WeightsInPlace, EndARunWhenTheyChange) {
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden_.plan, *comm);
  const nn::Pass pass;
  model->update(golden_.batches, 10, pass);
  model->evaluate(golden_.batches.front(), pass);
  fs::last_write_time(file(), fs::last_write_time(file()) + std::chrono::seconds(1));
  EXPECT_THROW(model->update(golden_.batches, 10, pass), InputError);
  EXPECT_THROW(model->evaluate(golden_.batches.front(), pass), InputError);
}

TEST_F(WeightsInPlace, StayWhenAnotherFileTakesTheirName) {  // as programs do that write a file in one piece
  const auto comm = dist::solo_comm();
  const auto model = make_model(golden_.plan, *comm), other = make_model(golden_.plan, *comm);
  fs::rename(file(), file() + ".old");
  std::ofstream(file()) << "another";
  fs::remove(file() + ".old");
  const nn::Pass pass;
  EXPECT_EQ(model->update(golden_.batches, 10, pass), other->update(golden_.batches, 10, pass));
}

}  // namespace
}  // namespace trainer::testing
