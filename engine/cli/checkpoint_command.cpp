#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/base/log.h"
#include "engine/base/metrics.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"
#include "engine/checkpoint/signature.h"
#include "engine/cli/flags.h"
#include "engine/cli/run_process.h"
#include "engine/cli/worker.h"

namespace trainer::cli {
namespace fs = std::filesystem;
namespace {

using checkpoint::Contents;
using checkpoint::Found;

/// `folder` itself if it is a checkpoint, else the checkpoints in it, oldest first. Errors: InputError when there are
/// none.
std::vector<Found> checkpoints_in(const fs::path& given) {
  const fs::path folder = checkpoint::readable_folder(given);
  if (checkpoint::is_checkpoint(folder)) return {{-1, fs::canonical(folder)}};
  auto found = checkpoint::readable_checkpoints(folder);
  if (found.empty())
    throw InputError(
        "{} is not a checkpoint (it has no manifest.json) and contains none.\n  Give an output_dir or one of its "
        "checkpoint-N folders.",
        folder.string());
  return found;
}

/// Unpublished saves and unfinished removals that aren't among `checkpoints`.
std::vector<fs::path> unfinished_beside(const std::vector<Found>& checkpoints, const fs::path& folder) {
  std::vector<fs::path> unfinished = checkpoint::find_unfinished(folder);
  std::erase_if(unfinished, [&](const fs::path& path) {
    return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const Found& one) { return one.folder == path; });
  });
  return unfinished;
}

/// What is known of a checkpoint without reading its tensors.
struct Look {
  Contents contents;
  std::string problem;  // "" when every file exists with its recorded size
};

Look look_at(const fs::path& folder) {
  Look look;
  try {
    look.contents = checkpoint::read_contents(folder);
    for (const checkpoint::StoredFile& file : look.contents.files) checkpoint::check_size(folder, file);
  } catch (const InputError& error) {
    look.problem = error.what();
  }
  return look;
}

/// Why a run can't resume from the checkpoint; "" when it can. Reads every byte.
std::string problem_of(const fs::path& folder) {
  try {
    checkpoint::verify_files(folder, checkpoint::read_contents(folder));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string marks_of(const Found& one, const std::vector<Found>& all, const fs::path& output_dir) {
  std::vector<std::string> marks;
  std::error_code none;
  if (fs::read_symlink(output_dir / "latest", none) == one.folder.filename()) marks.emplace_back("latest");
  for (const std::string& metric : metric_names())
    if (const Found* const best = checkpoint::best_checkpoint(all, metric); best && best->step == one.step)
      marks.push_back("best " + metric);
  return fmt::format("{}", fmt::join(marks, ", "));
}

void print_json(const std::vector<Found>& all, const fs::path& folder) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Found& one : all) {
    const Look look = look_at(one.folder);
    rows.push_back({{"folder", one.folder.string()},
                    {"step", look.contents.step},
                    {"bytes", look.contents.bytes()},
                    {"ranks", look.contents.world_size},
                    {"optimizer", look.contents.optimizer},
                    {"metrics", look.contents.metrics},
                    {"marks", marks_of(one, all, folder)},
                    {"problem", look.problem}});
  }
  fmt::print("{}\n", rows.dump(1));
}

int list(const Arguments& arguments) {
  CLI::App app("List the checkpoints of an output folder, oldest first.", "checkpoint list");
  app.footer("Examples:\n  trainer checkpoint list runs/t5\n");
  std::string folder;
  bool json = false;
  app.add_option("FOLDER", folder, "a run's output_dir")->required();
  app.add_flag("--json", json, "print one JSON array to standard output");
  if (!parse(app, arguments)) return 0;
  const auto all = checkpoints_in(folder);
  if (json) {
    print_json(all, folder);
    return kDone;
  }
  for (const Found& one : all) {
    const Look look = look_at(one.folder);
    if (!look.problem.empty()) {
      fmt::print("{:<20} {}\n", one.folder.filename().string(), look.problem);
      continue;
    }
    std::string line =
        fmt::format("{:<20} {:>9}  {}, {}", one.folder.filename().string(), human_bytes(look.contents.bytes()),
                    counted(look.contents.world_size, "rank", "ranks"), look.contents.optimizer);
    for (const auto& [name, value] : look.contents.metrics) line += fmt::format("  {} {:.6g}", name, value);
    if (const std::string marks = marks_of(one, all, folder); !marks.empty()) line += fmt::format("  ({})", marks);
    fmt::print("{}\n", line);
  }
  for (const fs::path& unfinished : unfinished_beside(all, folder))
    fmt::print("{:<20} unfinished; never used to resume\n", unfinished.filename().string());
  return kDone;
}

/// The folders in `folder` whose signature can be verified: checkpoints and a model.
std::vector<fs::path> signed_folders(const fs::path& given) {
  const fs::path folder = checkpoint::readable_folder(given);
  if (checkpoint::is_checkpoint(folder)) return {folder};
  std::vector<fs::path> folders;
  for (const Found& one : checkpoint::readable_checkpoints(folder)) folders.push_back(one.folder);
  // What resuming skips, but a person might load: refused by name.
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().starts_with("checkpoint-") &&
        !checkpoint::is_checkpoint(entry.path()))
      folders.push_back(entry.path());
  if (checkpoint::holds_model(folder)) folders.push_back(folder);
  if (folders.empty()) throw InputError("{} contains no checkpoint, no model and no signature.", folder.string());
  return folders;
}

int verify_signatures(const fs::path& folder, const fs::path& key_file) {
  const checkpoint::PublicKey key(key_file, "--key");
  int64_t refused = 0;
  for (const fs::path& one : signed_folders(folder)) {
    try {
      const checkpoint::Sums sums = checkpoint::verify_signed(one, key);
      fmt::print("{}: intact, signed by {}{}{} ({} files)\n", one.string(), key.id(),
                 sums.run.empty() ? "" : fmt::format(" in the run '{}'", sums.run),
                 sums.step >= 0 ? fmt::format(" at step {}", sums.step) : "", sums.files.size());
    } catch (const InputError& error) {
      fmt::print("{}\n", error.what());
      ++refused;
    }
    std::fflush(stdout);
  }
  if (refused > 0) throw InputError("{} of the folders {} refused.", refused, refused == 1 ? "is" : "are");
  return kDone;
}

int verify(const Arguments& arguments) {
  CLI::App app("Read every byte of checkpoints and compare it with the recorded checksums.", "checkpoint verify");
  app.footer("Examples:\n  trainer checkpoint verify runs/t5\n");
  std::string folder, key;
  app.add_option("FOLDER", folder,
                 "a checkpoint, or a run's output_dir for all its checkpoints; with --key also a model")
      ->required();
  app.add_option("--key", key, "file of the Ed25519 public key (PEM or OpenSSH's) that must have signed all files");
  if (!parse(app, arguments)) return 0;
  if (!key.empty()) return verify_signatures(folder, key);
  int64_t damaged = 0;
  for (const Found& one : checkpoints_in(folder)) {
    const std::string problem = problem_of(one.folder);
    if (problem.empty()) {
      const Contents contents = checkpoint::read_contents(one.folder);
      fmt::print("{}: intact ({} files, {})\n", one.folder.filename().string(), contents.files.size() + 1,
                 human_bytes(contents.bytes()));
    } else {
      fmt::print("{}\n", problem);
      ++damaged;
    }
    std::fflush(stdout);
  }
  if (damaged > 0) throw InputError("{} of the checkpoints {} damaged.", damaged, damaged == 1 ? "is" : "are");
  return kDone;
}

int prune(const Arguments& arguments) {
  CLI::App app("Remove old checkpoints and the leftovers of unfinished saves.", "checkpoint prune");
  app.footer("Examples:\n  trainer checkpoint prune runs/t5 --keep 2 --best loss\n");
  std::string folder;
  checkpoint::Keep keep;
  bool dry_run = false;
  app.add_option("FOLDER", folder, "a run's output_dir; no run may be using it")->required();
  app.add_option("--keep", keep.newest, "how many of the newest to keep")->required()->check(CLI::Range(1, 1'000'000));
  app.add_option("--best", keep.best_by, "also keep the best by this metric, such as loss or accuracy")
      ->check((CLI::IsMember(metric_names()) | CLI::IsMember({"none"})).description("METRIC"));
  app.add_flag("--dry_run", dry_run, "only print what would be removed");
  if (!parse(app, arguments)) return 0;
  std::vector<Found> all = checkpoints_in(folder);
  if (all.front().step < 0) throw ConfigError("{} is a checkpoint: prune takes a run's output_dir", folder);
  signal(SIGUSR2, SIG_IGN);  // sent by `checkpoint now`, which would mistake us for a run that uses the folder
  const FolderLock lock(folder);
  if (!dry_run) checkpoint::recover_interrupted(folder);
  all = checkpoint::readable_checkpoints(folder);  // a run may have ended meanwhile
  const auto published = all;
  // Damaged ones don't count: that many intact checkpoints must stay, whatever is newer.
  std::erase_if(all, [](const Found& one) { return !problem_of(one.folder).empty(); });
  if (keep.best_by != "none" && checkpoint::best_checkpoint(all, keep.best_by) == nullptr)
    log::warning("no checkpoint in {} has eval_{}, so only the newest are kept", folder, keep.best_by);
  for (const Found& one : checkpoint::checkpoints_to_remove(all, keep)) {
    fmt::print("{} {}\n", dry_run ? "would remove" : "removing", one.folder.filename().string());
    if (!dry_run) checkpoint::remove_checkpoint(one.folder);
  }
  for (const fs::path& unfinished : unfinished_beside(published, folder))
    fmt::print("{} {}\n", dry_run ? "would remove" : "removing", unfinished.filename().string());
  if (!dry_run) checkpoint::remove_partial(folder);
  return kDone;
}

int export_weights(const Arguments& arguments) {
  CLI::App app(
      "Make a model folder that transformers loads, an adapter folder that PEFT loads, or a folder in Megatron's "
      "layout, from a checkpoint of any strategy and number of ranks.",
      "checkpoint export");
  app.footer("Examples:\n  trainer checkpoint export runs/t5/checkpoint-300 t5-300\n");
  std::string folder, output, format = "hugging_face", key, sign;
  int64_t tensor = 1, pipeline = 1;
  app.add_option("CHECKPOINT", folder, "a checkpoint-N folder, or a model folder to convert to the other layout")
      ->required();
  app.add_option("FOLDER", output, "where to write the files; created if missing")->required();
  app.add_option("--format", format, "hugging_face (and PEFT), or megatron, as safetensors files instead of pickles")
      ->check(CLI::IsMember({"hugging_face", "megatron"}));
  const auto* const by_layers =
      app.add_option("--tensor_parallel", tensor, "megatron: ranks that split each layer")->check(CLI::Range(1, 99));
  const auto* const by_stages =
      app.add_option("--pipeline_parallel", pipeline, "megatron: pipeline stages")->check(CLI::Range(1, 999));
  app.add_option("--key", key, "file of the Ed25519 public key that must have signed CHECKPOINT");
  app.add_option("--sign", sign, "file of an Ed25519 private key that signs FOLDER, which must be empty or missing");
  if (!parse(app, arguments)) return 0;
  folder = checkpoint::readable_folder(folder).string();
  if (format == "megatron")
    become_worker({"export-checkpoint", folder, output, key, sign, std::to_string(tensor), std::to_string(pipeline)});
  for (const auto* const option : {by_layers, by_stages})
    if (option->count() > 0)
      throw ConfigError("{} splits a model among ranks, which needs --format megatron.", option->get_name());
  become_worker({"export-checkpoint", folder, output, key, sign});
}

/// Checkpoints that `now` must not mistake for the one it asked for.
struct Before {
  int64_t newest = -1;             // of a published checkpoint
  std::vector<std::string> begun;  // names of saves under way

  explicit Before(const fs::path& folder) {
    if (const auto found = checkpoint::newest_checkpoint(folder)) newest = found->step;
    for (const fs::path& unfinished : checkpoint::find_unfinished(folder))
      begun.push_back(unfinished.filename().string());
  }
  bool is_later(const Found& found) const {
    const std::string growing = fmt::format(".checkpoint-{}.", found.step);
    return found.step > newest &&
           std::none_of(begun.begin(), begun.end(), [&](const std::string& name) { return name.starts_with(growing); });
  }
};

/// Returns once a checkpoint that was begun after `before` is published, or the run has ended.
int wait_for_save(const fs::path& folder, pid_t launcher, const Before& before, double patience) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  for (bool ended = false;; ended = process_using(folder) != launcher) {
    const auto newest = checkpoint::newest_checkpoint(folder);
    if (newest && before.is_later(*newest)) {
      fmt::print("saved: {}\n", newest->folder.string());
      return kDone;
    }
    if (ended && !newest) throw InputError("the run has ended, and there is no checkpoint in {}", folder.string());
    if (ended) {
      fmt::print("the run has ended; its newest checkpoint is {}\n", newest->folder.string());
      return kDone;
    }
    if (std::chrono::steady_clock::now() >= deadline)
      throw MachineError(
          "process {} has not saved within {:g} s; it is still running and might save later\n  Its screen and {}/logs "
          "show why.",
          launcher, patience, folder.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int save_now(const Arguments& arguments) {
  CLI::App app("Make a run save after its current step and continue; return once it has saved.", "checkpoint now");
  app.footer("Examples:\n  trainer checkpoint now runs/t5\n");
  std::string folder;
  double patience = 600;
  app.add_option("FOLDER", folder, "the output_dir of a run on this machine (machine 0 of a multi-machine run)")
      ->required();
  app.add_option("--timeout", patience, "seconds to wait for the checkpoint; 0: do not wait")
      ->check(CLI::Range(0.0, 1e6));
  if (!parse(app, arguments)) return 0;
  const pid_t launcher = process_using(folder);
  if (launcher == 0) throw InputError("no run is using {}: there is nothing to save", folder);
  const Before before(folder);
  ask_to_save(folder, launcher);
  fmt::print("process {} was asked to save; `trainer checkpoint list {}` shows when it has\n", launcher, folder);
  if (patience == 0) return kDone;
  std::fflush(stdout);
  return wait_for_save(folder, launcher, before, patience);
}

struct Part {
  const char* name;
  const char* help;
  int (*run)(const Arguments& arguments);
};
constexpr Part kParts[] = {{"list", "list the checkpoints of a run with their metrics", list},
                           {"verify", "read every byte and compare it with the recorded checksums", verify},
                           {"export", "make a Hugging Face, PEFT or Megatron folder from a checkpoint", export_weights},
                           {"now", "make a run save after its current step and continue", save_now},
                           {"prune", "remove all checkpoints but the newest and the best", prune}};

int print_help(int code) {
  fmt::print("Usage: trainer checkpoint COMMAND FOLDER …\n\n");
  for (const Part& part : kParts) fmt::print("  {:<8}{}\n", part.name, part.help);
  fmt::print(
      "\n`trainer checkpoint COMMAND --help` describes a command.\n\nExamples:\n"
      "  trainer checkpoint list runs/t5\n"
      "  trainer checkpoint export runs/t5/checkpoint-300 t5-300\n");
  return code;
}

}  // namespace

int run_checkpoint(const Arguments& arguments) {
  if (arguments.empty()) return print_help(kUsageFailure);
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") return print_help(kDone);
  std::vector<std::string> names;
  for (const Part& part : kParts) {
    if (name == part.name) return part.run(Arguments(arguments.begin() + 1, arguments.end()));
    names.emplace_back(part.name);
  }
  throw ConfigError("there is no command 'checkpoint {}'{}; `trainer checkpoint` lists them", config::shown(name),
                    did_you_mean(name, names));
}

}  // namespace trainer::cli
