// Sharded units on two simulated devices, whose collectives run beside the operators: what a GPU's streams may overlap,
// what is in memory meanwhile, and where shards begin.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "engine/dist/forwarding_comm.h"
#include "engine/train/build.h"
#include "tests/parallel/device_setting.h"
#include "tests/parallel/processes.h"
#include "tests/simulated/device.h"
#include "tests/support/simulated_comm.h"

namespace trainer::testing {
namespace {

/// When a rank's operators had been launched: the number of those of the default stream, known to the current one.
uint64_t operators_before() {
  const simulated::Clock clock = simulated::timeline().clock_of(simulated::current_stream());
  const auto stream = static_cast<size_t>(simulated::default_stream());
  return stream < clock.size() ? clock[stream] : 0;
}

/// Records gathers and reductions.
class Recorder : public dist::ForwardingComm {
 public:
  using ForwardingComm::ForwardingComm;

  struct Gather {
    size_t unit;  // by first gather: the root, then the blocks
    uint64_t after;
  };
  std::vector<Gather> gathers;
  size_t most_gathered = 0;  // blocks at a time
  int64_t misaligned = 0, shards = 0;

  std::unique_ptr<dist::Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    c10::StorageImpl* const storage = full.storage().unsafeGetStorageImpl();
    const size_t unit = units_.emplace(storage, units_.size()).first->second;
    gathers.push_back({unit, operators_before()});
    size_t gathered = 0;
    for (const auto& [one, number] : units_) gathered += number > 0 && one->nbytes() > 0 ? 1 : 0;
    most_gathered = std::max(most_gathered, gathered);
    note_shard(shard, 0);
    note_shard(full, static_cast<int64_t>(shard.nbytes()));
    return inner().all_gather(full, shard);
  }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override {
    note_shard(full, static_cast<int64_t>(full.nbytes()) / size());
    Scattered scattered = inner().reduce_scatter(full);
    note_shard(scattered.shard, 0);
    return scattered;
  }

 private:
  /// Where this rank's shard begins, `of_rank` bytes after the one of the rank before it.
  void note_shard(const at::Tensor& tensor, int64_t of_rank) {
    ++shards;
    const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    if ((begin + static_cast<uintptr_t>(rank() * of_rank)) % 128 != 0) ++misaligned;
  }

  std::map<c10::StorageImpl*, size_t> units_;
};

struct Overlap {
  int64_t ahead = 0, late = 0;  // gathers in forward that don't wait for the operators of the block before, and that do
  uint64_t most_gathered = 0;
  int64_t misaligned = 0, shards = 0;
};

/// Of the third update of a model of three blocks.
Overlap overlap_of(const Setting& s, const std::function<void(config::Plan&)>& change = {}) {
  return in_processes<Overlap>(
             2, /*share_memory=*/false,
             [&](dist::Comm& host, const std::string& folder) {
               Recorder comm(on_simulated_devices(host, folder));
               config::Plan plan = plan_of(s);
               if (change) change(plan);
               train::Blueprint blueprint = train::make_blueprint(plan);
               std::vector<uint64_t> ends;  // of the forwards of blocks
               for (const auto& block : blueprint.model->blocks())
                 block->wrap([&](const nn::RowsList& in, const nn::Pass& pass, const nn::Module::Forward& next) {
                   nn::RowsList out = next(in, pass);
                   ends.push_back(operators_before());
                   return out;
                 });
               const auto model = train::make_parallel(plan, blueprint, comm);
               nn::Pass pass;
               pass.training = true;
               for (int update = 0; update < 3; ++update) {
                 ends.clear();
                 comm.gathers.clear();
                 comm.most_gathered = 0;
                 model->update({real_batch(s)}, 1000, pass);
               }
               Overlap found{0, 0, comm.most_gathered, comm.misaligned, comm.shards};
               std::set<size_t> seen;
               for (const Recorder::Gather& gather : comm.gathers)
                 // The first gather of the second block, and so on. (With LoRA, a block has two buffers.)
                 if (gather.unit >= 2 && gather.unit <= ends.size() && seen.insert(gather.unit).second)
                   ++(gather.after < ends[gather.unit - 2] ? found.ahead : found.late);
               return found;
             })
      .front();
}

TEST(OnDevices, ABlockIsGatheredWhileTheOneBeforeItComputes) {
  for (const bool recompute : {false, true}) {
    const Overlap found = overlap_of({kGpt2, kFsdp, false, recompute});
    EXPECT_EQ(found.ahead, 2);
    EXPECT_EQ(found.late, 0);
    EXPECT_EQ(found.most_gathered, 2u);
  }
}

TEST(OnDevices, OffloadedBlocksAreGatheredAheadToo) {
  Setting offloaded{kGpt2, kFsdp};
  offloaded.offload = true;
  const Overlap found = overlap_of(offloaded);
  EXPECT_EQ(found.ahead, 2);
  EXPECT_EQ(found.most_gathered, 2u);
}

// Fused optimizers and NCCL read 16 bytes at a time, and a GPU's cache lines have 128.
TEST(OnDevices, ShardsBeginAtCacheLines) {
  const auto in_bf16 = [](config::Plan& plan) {
    plan.config.model.dtype = "bfloat16";
    plan.config.fsdp_config.reduce_dtype = "bfloat16";
  };
  for (const bool lora : {false, true}) {
    const Overlap found = overlap_of({kBert, kFsdp, lora, false, /*bf16=*/true}, in_bf16);
    EXPECT_GT(found.shards, 20);
    EXPECT_EQ(found.misaligned, 0) << "of " << found.shards;
  }
  Setting four_bits{kLlama, kFsdp, /*lora=*/true, false, /*bf16=*/true};
  for (const Packed packed : {Packed::kOnce, Packed::kTwice}) {
    four_bits.packed = packed;
    EXPECT_EQ(overlap_of(four_bits).misaligned, 0);
  }
}

}  // namespace
}  // namespace trainer::testing
