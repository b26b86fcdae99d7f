#include "engine/checkpoint/saver.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/base/publish_folder.h"
#include "engine/base/uncaught.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/leader_epoch.h"
#include "engine/checkpoint/signature.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

/// The Hugging Face Trainer's file of the same name, with the fields that apply.
std::string trainer_state_json(const Manifest& m) {
  const int64_t epoch = std::max<int64_t>(1, m.samples - m.left_out);
  const nlohmann::json state = {{"global_step", m.progress.step},
                                {"epoch", static_cast<double>(m.progress.consumed) / static_cast<double>(epoch)},
                                {"train_batch_size", m.progress.global_batch},
                                {"num_input_tokens_seen", m.progress.tokens},
                                {"is_local_process_zero", true},
                                {"is_world_process_zero", true},
                                {"log_history", nlohmann::json::array()}};
  return state.dump(2) + "\n";
}

/// Runs `work` as part of the save. Returns the message of the exception it throws, or "".
std::string problem_of(const std::function<void()>& work) {
  const file_operations::SaveScope scope;
  try {
    work();
  } catch (const std::bad_alloc&) {
    return "out of memory while saving";
  } catch (const std::system_error& error) {  // std::async
    return describe_uncaught(error).text;
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Saver::Saver(Options options, dist::Comm& comm)
    : options_(std::move(options)), owner_(FolderOwner::from_environment(options_.output_dir)), comm_(comm) {}

Saver::~Saver() {
  if (work_.valid()) work_.wait();
}

void Saver::remove_unfinished() const {
  owner_.require();
  remove_partial(options_.output_dir);
}

void Saver::take_memory(const RunState& state) {
  if (!options_.async || buffer_.defined()) return;
  buffer_ = at::empty({Snapshot(live_tensors(state), comm_.rank(), comm_.size()).bytes()}, at::kByte);
  buffer_.zero_();  // touches the pages, so that they are allocated
}

void Saver::begin(Manifest about, const RunState& state, Also also) {
  finish();
  about_ = std::move(about);
  about_.world_size = comm_.size();
  about_.leader_epoch = owner_.epoch();
  about_.optimizer = state.optimizer.name();
  about_.progress.optimizer_steps = state.optimizer.steps();
  partial_ = partial_path(options_.output_dir, about_.progress.step, owner_.name());
  file_operations::begin_save(about_.progress.step);
  std::string why;
  const std::string problem = comm_.rank() != 0 ? "" : problem_of([&] {
    if (why = superseded(owner_); !why.empty()) return;
    remove_unfinished();
    if (file_operations::make_folder(partial_) != 0) throw machine_error("create", partial_, errno);
  });
  if (!why.empty()) throw PeerError("{}", why);  // not collectively: it ends the process
  for (const std::string& text : comm_.gather_text(problem))
    if (!text.empty()) fail(text);
  take_memory(state);
  phase_ = Phase::kWriting;
  copied_ = {};
  copy_ = copied_.get_future();
  const std::vector<LiveTensor> tensors = live_tensors(state);
  shared_ = std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.tensor.sharers != nullptr; });
  const auto snapshot = std::make_shared<Snapshot>(tensors, comm_.rank(), comm_.size());
  work_ = start([this, snapshot, also = std::move(also)] { return write(*snapshot, also); });
  if (!options_.async) finish();
}

std::future<Saver::Report> Saver::start(std::function<Report()> work) {
  return std::async(options_.async ? std::launch::async : std::launch::deferred, std::move(work));
}

Saver::Report Saver::write(Snapshot& snapshot, const Also& also) {
  Report report;
  auto sink = options_.access.sink(partial_ / file_of(comm_.rank()));
  if (options_.async) report.problem = problem_of([&] { snapshot.copy_to(buffer_); });
  copied_.set_value();
  if (report.problem.empty())
    report.problem = problem_of([&] {
      Snapshot::Written written = snapshot.write(std::move(sink), options_.digest);
      std::vector<StoredFile> files{std::move(written.file)};
      if (comm_.rank() == 0) {
        also(partial_);
        publish_file(partial_ / "trainer_state.json", trainer_state_json(about_));
      }
      report.written = written_to_text(written.tensors, files);
    });
  sink.reset();
  // Even after an error: the ranks that send their files wait for this rank.
  const std::string trouble = problem_of([this] { options_.access.take_files(partial_); });
  if (report.problem.empty()) report.problem = trouble;
  return report;
}

Saver::Report Saver::publish() {
  const fs::path final = checkpoint_path(options_.output_dir, about_.progress.step);
  const std::string problem = problem_of([&] {
    const auto others = other_files(partial_, about_.files, options_.digest);
    about_.files.insert(about_.files.end(), others.begin(), others.end());
    write_manifest(about_, partial_);
    require_leads(owner_);
    publish_folder(partial_, final, kManifestFile);
  });
  if (!problem.empty()) return {problem, ""};
  const std::string unlinked = problem_of([&] {
    owner_.require();
    link_latest(options_.output_dir, final);
    // Paused just before, this process has linked its checkpoint after a newer one of another owner.
    if (!owner_.taken_over().empty())
      if (const auto newest = newest_checkpoint(options_.output_dir)) link_latest(options_.output_dir, newest->folder);
  });
  const std::string unrotated = problem_of([&] {
    owner_.require();
    rotate(options_.output_dir, options_.keep, about_.progress.step);
  });
  // The checkpoint is published, so the run doesn't need to stop.
  for (const std::string& trouble : {unlinked, unrotated})
    if (!trouble.empty() && said_.insert(trouble).second)  // some file systems refuse every link
      log::warning("{} is saved, but {}", final.filename().string(), trouble);
  return {};
}

bool Saver::ready() const {
  if (!busy()) return false;
  return !work_.valid() || work_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

void Saver::wait_for_copy() {
  if (!copy_.valid() || !options_.async) return;
  copy_.get();
  if (shared_) comm_.barrier();
}

void Saver::write_manifest(const Manifest& manifest, const fs::path& folder) const {
  const std::string text = to_json(manifest);
  publish_file(folder / kManifestFile, text);
  if (!options_.key) return;
  Sums sums{.run = run_name(options_.output_dir), .step = manifest.progress.step};
  sums.files[kManifestFile] = sha256_of(text);
  for (const StoredFile& file : manifest.files) {
    require(kind_of(file.digest) == "sha256", "{} has the checksum {}", file.name, file.digest);
    sums.files[file.name] = file.digest.substr(file.digest.find(':') + 1);
  }
  for (const auto& [name, content] : signature_files(sums, *options_.key)) publish_file(folder / name, content);
}

void Saver::replace_manifest(const Manifest& manifest, const fs::path& folder) const {
  if (!options_.key || !is_signed(folder)) return publish_file(folder / kManifestFile, to_json(manifest));
  const fs::path next = partial_path(options_.output_dir, manifest.progress.step, owner_.name());
  try {
    if (file_operations::make_folder(next) != 0) throw machine_error("create", next, errno);
    for (const StoredFile& file : manifest.files)
      if (file_operations::duplicate(folder / file.name, next / file.name) != 0)
        throw machine_error("link", next / file.name, errno);
    write_manifest(manifest, next);
    publish_folder(next, folder, kManifestFile);
  } catch (const MachineError&) {
    file_operations::remove_tree(next);
    throw;
  }
}

void Saver::record(int64_t step, const std::map<std::string, double>& metrics) const {
  if (comm_.rank() != 0 || metrics.empty()) return;
  const fs::path folder = checkpoint_path(options_.output_dir, step);
  const std::string problem = problem_of([&] {
    Manifest manifest = read_manifest(folder.string());
    manifest.metrics = metrics;
    require_leads(owner_);
    replace_manifest(manifest, folder);
    rotate(options_.output_dir, options_.keep, step);
  });
  if (!problem.empty())
    log::warning("the metrics of {} were not recorded in it: {}", folder.filename().string(), problem);
}

void Saver::advance() {
  const Report mine = work_.valid() ? work_.get() : Report{};
  const nlohmann::json said = {{"problem", mine.problem}, {"written", mine.written}};
  const auto texts = comm_.gather_text(said.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::vector<std::string> written;
  for (const std::string& text : texts) {
    const nlohmann::json report = bounded_json(text);
    if (const std::string problem = report.at("problem"); !problem.empty()) fail(problem);
    written.push_back(report.at("written"));
  }
  if (phase_ == Phase::kPublishing) {
    phase_ = Phase::kIdle;
    return;
  }
  phase_ = Phase::kPublishing;
  if (comm_.rank() != 0) return;
  for (const std::string& text : written) merge_written(text, about_);
  work_ = start([this] { return publish(); });
}

void Saver::finish() {
  while (busy()) advance();
}

void Saver::fail(const std::string& problem) {
  phase_ = Phase::kIdle;
  if (comm_.rank() == 0) file_operations::remove_tree(partial_);  // no one else's, whoever has the folder now
  throw MachineError("{}", problem);
}

}  // namespace trainer::checkpoint
