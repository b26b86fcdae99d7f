#include "engine/selftest/resume.h"

#include <chrono>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/selftest/first_ranks.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/random_samples.h"
#include "engine/selftest/saved_run.h"
#include "engine/selftest/silenced_log.h"
#include "engine/train/build.h"
#include "engine/train/trainer.h"

namespace trainer::selftest {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

// The checkpoint falls within an epoch whose last update has fewer samples than the others.
constexpr int64_t kSaved = 3, kLast = 5, kAllSteps = 8;
/// Tolerance between the weights of a strategy and those of one rank: fp32 sums differ in order, and the optimizer
/// divides by them.
constexpr double kFarthest = 0.05;

config::Plan plan_for(const ResumeCase& which, const Strategy& strategy, const fs::path& output_dir) {
  config::Plan plan = plan_of({which.model, strategy, which.lora, /*micro_batches=*/2});
  config::Config& c = plan.config;
  c.output_dir = output_dir;
  c.training.max_steps = kAllSteps;
  c.training.learning_rate = 5e-3;
  c.training.warmup_steps = 2;
  c.training.weight_decay = 0.01;
  c.training.max_grad_norm = 0.5;
  c.training.check_first_steps = false;
  c.checkpoint.save_steps = 0;
  c.logging.logging_steps = 1;
  return plan;
}

prepare::Inputs inputs_for(const TinyModel& model) {
  prepare::Inputs inputs;
  inputs.datasets.train = std::make_shared<data::MemorySamples>(random_samples(model));
  inputs.datasets.validation = std::make_shared<data::MemorySamples>();
  return inputs;
}

/// Collective. Trains from the newest checkpoint in the plan's folder, if any, and saves after each of `steps`.
void train_until(const config::Plan& plan, const TinyModel& tiny, const config::LoraConfig& lora,
                 std::unique_ptr<parallel::ParallelModel> model, const std::vector<int64_t>& steps) {
  const SilencedLog silenced;
  prepare::Inputs inputs = inputs_for(tiny);
  train::Trainer trainer(plan, inputs, lora, std::move(model), {}, [](int64_t, const char*) {});
  for (const int64_t step : steps) trainer.run(step);
}

/// Collective.
void save_and_go_on(const ResumeCase& which, const fs::path& folder, dist::Comm& comm) {
  config::Plan plan = plan_for(which, which.from, folder);
  plan.config.training.global_batch_size = kGlobalBatch;
  train::Blueprint blueprint = train::make_blueprint(plan);
  const config::LoraConfig lora = blueprint.lora;
  train_until(plan, which.model, lora, train::make_parallel(plan, blueprint, comm), {kSaved, kLast});
}

void forget(const checkpoint::RunState& state) {
  const at::NoGradGuard no_grad;
  for (const checkpoint::LiveTensor& live : checkpoint::live_tensors(state))
    live.tensor.value.fill_(std::numeric_limits<double>::quiet_NaN());
}

/// Collective. The plan does not set the global batch size: the checkpoint's must be used.
void load_and_go_on(const ResumeCase& which, const fs::path& source, const fs::path& folder, dist::Comm& comm) {
  const config::Plan plan = plan_for(which, which.to, folder);
  train::Blueprint blueprint = train::make_blueprint(plan);
  const config::LoraConfig lora = blueprint.lora;
  auto model = train::make_parallel(plan, blueprint, comm);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  const checkpoint::RunState state{*model, *optimizer};
  forget(state);
  checkpoint::Manifest about = checkpoint::load(checkpoint::checkpoint_path(source, kSaved), state);
  about.tensors.clear();
  about.files.clear();
  checkpoint::save(folder, std::move(about), state, [](const fs::path&) {});
  forget(state);
  train_until(plan, which.model, lora, std::move(model), {kLast});
}

/// The runs that others resume, each trained once.
class Sources {
 public:
  Sources(fs::path folder, dist::Comm& world, FirstRanks& first_ranks)
      : folder_(std::move(folder)), world_(world), first_ranks_(first_ranks) {}

  struct Source {
    fs::path folder;
    SavedRun run;         // on rank 0
    std::string problem;  // of the run itself
  };
  /// Collective over the world.
  const Source& of(const ResumeCase& which) {
    const auto key = std::tuple{which.model.name, which.lora, which.from.name};
    if (const auto found = made_.find(key); found != made_.end()) return found->second;
    Source source{folder_ / fmt::format("saved-{}", made_.size()), {}, ""};
    if (world_.rank() == 0) fs::create_directories(source.folder);
    if (first_ranks_.include_this(which.from)) save_and_go_on(which, source.folder, first_ranks_.of(which.from));
    world_.barrier();
    if (world_.rank() == 0) source.run = read_saved_run(source.folder, kSaved);
    const Source& made = made_[key] = std::move(source);
    if (which.from.name != alone_.name) compare_with_one_rank(which, made_[key]);
    return made;
  }

 private:
  /// Collective over the world. Any strategy must save nearly the same values in the same places.
  void compare_with_one_rank(const ResumeCase& which, Source& source) {
    const SavedRun& alone = of({which.model, which.lora, alone_, alone_}).run;
    if (world_.rank() != 0) return;
    const double apart = distance(source.run, alone);
    if (apart > kFarthest) source.problem = fmt::format("the checkpoint is {:.1e} from that of one rank", apart);
  }

  const fs::path folder_;
  dist::Comm& world_;
  FirstRanks& first_ranks_;
  const Strategy alone_ = strategies(1).front();
  std::map<std::tuple<std::string, bool, std::string>, Source> made_;
};

Resumed compare(const ResumeCase& which, const Sources::Source& source, const fs::path& folder) {
  Resumed result{which, source.problem};
  const SavedRun found = read_saved_run(folder, kSaved);
  const bool same = which.from.name == which.to.name;
  if (result.problem.empty()) result.problem = difference(found, source.run, same ? 0 : kLossTolerance);
  if (result.problem.empty()) result.losses = loss_difference(found, source.run);
  return result;
}

}  // namespace

std::vector<Resumed> resume(const std::vector<ResumeCase>& cases, const fs::path& folder, dist::Comm& world,
                            const std::function<void(const Resumed&)>& done) {
  FirstRanks first_ranks(world);
  Sources sources(folder, world, first_ranks);
  std::vector<Resumed> results;
  for (const ResumeCase& which : cases) {
    const auto start = Clock::now();
    const Sources::Source& source = sources.of(which);
    const fs::path output = folder / "resumed";
    if (world.rank() == 0) fs::create_directories(output);
    if (first_ranks.include_this(which.to)) load_and_go_on(which, source.folder, output, first_ranks.of(which.to));
    world.barrier();
    if (world.rank() != 0) continue;
    results.push_back(compare(which, source, output));
    results.back().seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fs::remove_all(output);
    done(results.back());
  }
  return results;
}

}  // namespace trainer::selftest
