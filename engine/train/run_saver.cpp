#include "engine/train/run_saver.h"

#include <utility>
#include <vector>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/prepare/run_length.h"
#include "engine/train/conditions.h"

namespace trainer::train {
namespace {

checkpoint::Saver::Options saver_options(const config::Config& config, checkpoint::FolderAccess access, int rank) {
  const config::CheckpointConfig& c = config.checkpoint;
  checkpoint::Saver::Options options{.output_dir = config.output_dir,
                                     .keep = {c.save_total_limit, c.metric_for_best_model},
                                     .digest = c.sign.empty() ? c.hash : "sha256",
                                     .async = c.async_save,
                                     .access = std::move(access)};
  if (!c.sign.empty() && rank == 0) options.key.emplace(c.sign, checkpoint::kSignOption);
  return options;
}

TokenizerOfRun tokenizer_of(const prepare::Inputs& inputs, const dist::Comm& comm) {
  if (comm.rank() != 0 || !inputs.tokenizer) return nullptr;
  return std::make_shared<const data::SavedTokenizer>(*inputs.tokenizer, inputs.chat_template);
}

}  // namespace

RunSaver::RunSaver(const config::Plan& plan, const prepare::Inputs& inputs, const config::LoraConfig& lora,
                   parallel::ParallelModel& model, checkpoint::FolderAccess access, AtEnd at_end)
    : plan_(plan),
      inputs_(inputs),
      lora_(lora),
      model_(model),
      tokenizer_(tokenizer_of(inputs, model.comm())),
      saver_(saver_options(plan.config, std::move(access), model.comm().rank()), model.comm()),
      at_end_(std::move(at_end)) {}

void RunSaver::advance() {
  attempt([this] { saver_.advance(); });
}

void RunSaver::finish() {
  attempt([this] { saver_.finish(); });
}

void RunSaver::save(optim::Optimizer& optimizer, const checkpoint::Progress& progress,
                    const std::map<std::string, double>& metrics, bool wait_until_done) {
  if (!has_begun(progress.step)) {
    finish();  // before weights change
    std::vector<at::Tensor> state;
    for (const optim::StateTensor& tensor : optimizer.state()) state.push_back(tensor.value);
    model_.average_replicas(state);
    last_saved_ = progress.step;
    const auto begin = [&] {
      saver_.begin(manifest(progress, metrics), {model_, optimizer},
                   beside_checkpoint(model_, plan_, lora_, tokenizer_));
    };
    wait_until_done ? run(begin, true) : attempt(begin, true);
  }
  if (wait_until_done) run([this] { saver_.finish(); });
}

bool RunSaver::has_saved(int64_t step) {
  if (!has_begun(step)) return false;
  finish();
  return has_begun(step);
}

void RunSaver::run(const std::function<void()>& part, bool begins) {
  const bool was_busy = begins || saver_.busy();
  try {
    part();
  } catch (const MachineError&) {
    if (at_end_) at_end_(last_saved_, false);
    throw;
  }
  if (was_busy && !saver_.busy() && at_end_) at_end_(last_saved_, true);
}

void RunSaver::attempt(const std::function<void()>& part, bool begins) {
  try {
    run(part, begins);
  } catch (const MachineError& error) {  // thrown on all ranks alike
    if (plan_.config.checkpoint.on_error == "stop") throw;
    const auto folder = checkpoint::checkpoint_path(plan_.config.output_dir, std::exchange(last_saved_, -1));
    if (model_.comm().rank() == 0)
      log::warning("{} was not saved; the run continues: {}", folder.filename().string(), error.what());
  }
}

checkpoint::Manifest RunSaver::manifest(const checkpoint::Progress& progress,
                                        const std::map<std::string, double>& metrics) const {
  checkpoint::Manifest about;
  about.progress = progress;
  about.seed = plan_.config.seed;
  about.samples = inputs_.datasets.train->size();
  about.left_out = prepare::samples_left_out(plan_.config.training, about.samples, progress.global_batch);
  about.strategy = plan_.config.distributed_type == config::DistributedType::kFsdp ? "FSDP" : "replicated";
  about.metrics = metrics;
  about.conditions = conditions_of(plan_.config, model_.comm().size());
  about.classes = inputs_.datasets.labels;
  return about;
}

std::optional<checkpoint::Found> best_of(const config::Config& config) {
  const auto checkpoints = checkpoint::find_checkpoints(config.output_dir);
  const checkpoint::Found* const best =
      checkpoint::best_checkpoint(checkpoints, config.checkpoint.metric_for_best_model);
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

void report_best(const config::Config& config) {
  const std::string& metric = config.checkpoint.metric_for_best_model;
  if (metric == "none") return;
  try {
    if (const auto best = best_of(config))
      screen::print("best {}: {}\n", metric, best->folder.filename().string());
    else
      log::warning(
          "checkpoint.metric_for_best_model is {}, but no checkpoint in {} has eval_{}, so only the newest were kept",
          metric, config.output_dir, metric);
  } catch (const MachineError& error) {  // the run is done, and its model saved
    log::warning("the best checkpoint is not known: {}", error.what());
  }
}

}  // namespace trainer::train
