#include "engine/cli/config_wizard.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/human.h"
#include "engine/base/indented.h"
#include "engine/base/temporary_folder.h"
#include "engine/base/terminal_text.h"
#include "engine/cli/problem_report.h"
#include "engine/cli/terminal.h"
#include "engine/cli/worker.h"
#include "engine/cli/worker_child.h"
#include "engine/config/pages/file_text.h"
#include "engine/config/plan/files.h"
#include "engine/config/plan/resolve.h"
#include "engine/config/wizard/wizard.h"
#include "engine/launch/run.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

/// Caches the result of `describe` by `key`, since going back to a question asks for it again.
template <class Description, class Describe>
std::optional<Description> remembered(const std::string& key, Describe describe) {
  static std::map<std::string, std::optional<Description>> known;
  const auto found = known.find(key);
  return found != known.end() ? found->second : known[key] = describe();
}

std::optional<config::ModelDescription> describe_model(const std::string& model, const std::string& task) {
  return remembered<config::ModelDescription>(model + "\n" + task, [&] {
    const auto printed = ask_worker({"describe-model", model, task});
    return printed ? config::parse_description(*printed) : std::nullopt;
  });
}

std::optional<config::DataDescription> describe_data(const config::DataConfig& data) {
  config::Plan plan;
  plan.config.data = data;
  return remembered<config::DataDescription>(config::to_text(plan), [&] {
    const auto printed = ask_prepare({"describe-data"}, &plan);
    return printed ? config::parse_data(*printed) : std::nullopt;
  });
}

std::optional<config::TokenizerDescription> describe_tokenizer(const std::string& path) {
  return remembered<config::TokenizerDescription>(path, [&] {
    config::Plan plan;
    plan.config.tokenizer.path = path;
    const auto printed = ask_prepare({"describe-tokenizer"}, &plan);
    return printed ? config::parse_tokenizer(*printed) : std::nullopt;
  });
}

std::optional<config::SamplesDescription> describe_samples(const config::Config& config) {
  config::Plan plan;
  plan.config = config;
  constexpr int64_t kTexts = 1000, kSamples = 3;  // a few texts fill no sample if they are joined
  int64_t& most = plan.config.data.max_samples;
  const int64_t wanted = config.data.group_texts ? kTexts : kSamples;
  most = most > 0 ? std::min(most, wanted) : wanted;
  plan.config.data.max_samples_choice = config::RecordChoice::kFirst;  // without a pass over all of the files
  return remembered<config::SamplesDescription>(config::to_text(plan), [&] {
    const TemporaryFolder cache("trainer-samples");
    plan.config.data.cache_dir = cache.path();
    const auto printed = ask_prepare({"describe-samples"}, &plan);
    return printed ? config::parse_samples(*printed) : std::nullopt;
  });
}

/// Forwards to another prompter. On a pipe, input that ends early is an error, since nobody chose the remaining
/// answers. (At a terminal, Ctrl-D accepts the remaining defaults.)
class WholePrompter : public config::Prompter {
 public:
  explicit WholePrompter(config::Prompter& inner) : inner_(inner) {}

  config::Answer ask(const config::Question& question) override {
    config::Answer answer = inner_.ask(question);
    if (answer.kind == config::Answer::Kind::kEnd && !is_interactive())
      throw ConfigError(
          "the input ended at the question '{}': nothing was written\n  `trainer config --yes` accepts every default; "
          "--answers FILE supplies the answers by option name",
          question.text.substr(0, question.text.find('\n')));
    return answer;
  }
  void say(const std::string& line) override { inner_.say(line); }

 private:
  config::Prompter& inner_;
};

config::Surroundings surroundings(const std::string& file) {
  config::Surroundings around;
  around.machine = config::read_machine();
  around.here = fs::current_path();
  around.folder = fs::absolute(file).parent_path().lexically_normal();
  return around;
}

/// What the wizard starts from: the existing file, or a new one whose output_dir is under the current folder.
config::WizardDraft start_from(const std::string& file, const config::Surroundings& around) {
  if (fs::exists(file)) return config::read_draft(file);
  config::WizardDraft draft;
  if (around.here != around.folder) draft.config.output_dir = around.here / draft.config.output_dir;
  return draft;
}

void introduce(config::Prompter& prompter, const std::string& file, const config::WizardDraft& draft,
               const config::Surroundings& around) {
  prompter.say("This machine has " + around.machine.text() + ".");
  if (!draft.document.members.empty()) prompter.say(fmt::format("Answers from {} are the defaults.", file));
  if (draft.has_comments) prompter.say("Writing the file drops its comments.");
  prompter.say("Press Enter for the default, < to go back, ? for help.\n");
}

void ask(config::WizardDraft& draft, const WizardOptions& options, const config::Surroundings& around,
         config::Prompter& prompter) {
  if (!options.answers.empty()) config::apply_answers(options.answers, draft);
  config::Surroundings looking = around;
  looking.describe_model = describe_model;
  looking.describe_data = describe_data;
  looking.describe_samples = describe_samples;
  looking.describe_tokenizer = describe_tokenizer;
  if (options.yes || !options.answers.empty()) {
    config::SilentPrompter silent;
    config::ask_questions(draft, silent, looking);
  } else {
    introduce(prompter, options.file, draft, around);
    WholePrompter whole(prompter);
    config::ask_questions(draft, whole, looking);
  }
}

std::string launch_command(const std::string& file) {
  return "trainer launch" + (file == config::own_default_file() ? "" : " --config_file " + file);
}

/// The plan of the file; prints what is wrong with it and returns nothing otherwise. This is not an error: the wizard
/// may have been used for Accelerate's part only.
std::optional<config::Plan> resolve(const std::string& file) {
  try {
    return config::resolve_plan({file, "", {}});
  } catch (const ConfigError& error) {
    const bool color = is_interactive() && wants_color();
    const std::string problems = problem_report(problems_of(error), color);
    fmt::print("The configuration is not complete yet:\n{}",
               is_interactive() ? wrapped(problems, terminal_width(STDOUT_FILENO), 2) : problems);
    return std::nullopt;
  } catch (const InputError& error) {
    fmt::print("{}\n", error.what());
    return std::nullopt;
  }
}

/// What `trainer check` finds, in a few lines.
struct Brief {
  std::string text;
  int64_t updates = 0;  // 0: unknown
};

/// Nothing when it finds a problem, which is then printed, or when the worker is missing.
std::optional<Brief> brief_of(const config::Plan& plan) {
  try {
    worker_path();
  } catch (const MachineError&) {
    return std::nullopt;
  }
  if (const auto printed = ask_worker({"check", "--brief"}, &plan)) {
    const auto json = bounded_json(*printed);
    return Brief{json.at("text"), json.at("updates")};
  }
  fmt::print("\n");
  run_worker({"check"}, plan);
  return std::nullopt;
}

bool wants_trial(config::Prompter& prompter) {
  const config::Question question{"\nDo you want to try it out? (measures its speed, saves nothing)",
                                  is_interactive() ? "yes" : "no",
                                  {},
                                  config::Question::Kind::kBoolean,
                                  "Trains three updates into a folder that is deleted afterwards, and takes the time "
                                  "of the last one."};
  for (;;) {
    const config::Answer answer = prompter.ask(question);
    if (answer.kind == config::Answer::Kind::kEnd) return false;
    if (answer.kind == config::Answer::Kind::kKept) return question.current == "yes";
    const auto truth = config::parse_bool(answer.text);
    if (answer.kind == config::Answer::Kind::kGiven && truth) return *truth;
    prompter.say(answer.kind == config::Answer::Kind::kHelp ? indented(question.help) : "  Please enter yes or no.");
  }
}

/// The time of the last logged update; 0: none.
double step_seconds(const fs::path& metrics) {
  std::ifstream file(metrics);
  double seconds = 0;
  for (std::string line; std::getline(file, line);) seconds = bounded_json(line).value("step_seconds", seconds);
  return seconds;
}

/// Trains three updates into a folder that is deleted afterwards.
void try_out(const std::string& file, int64_t updates) {
  const TemporaryFolder folder("trainer-trial");
  const fs::path run = folder.path() / "run";
  config::Sources sources{file, "", {}};
  const std::pair<const char*, std::string> overrides[] = {{"output_dir", run},
                                                           {"training.max_steps", "3"},
                                                           {"checkpoint.save_strategy", "no"},
                                                           {"checkpoint.resume_from_checkpoint", "false"},
                                                           {"checkpoint.metric_for_best_model", "none"},
                                                           {"evaluation.generate", "false"},
                                                           {"evaluation.metrics", "loss"},
                                                           {"logging.logging_steps", "1"},
                                                           {"logging.report_to", "none"},
                                                           {"logging.metrics_port", "0"}};
  for (const auto& [path, value] : overrides) sources.overrides.push_back({path, value, "the trial"});
  const config::Plan plan = config::resolve_plan(sources);
  if (launch::run(plan, worker_path(), {}, {}, {"rank"}, {}, launch::Output::kTemporary) != kDone) {
    fmt::print("\nThe trial failed.\n");
    return;
  }
  fmt::print("\nThe trial succeeded; its folder is deleted.\n");
  const double seconds = step_seconds(run / "metrics.jsonl");
  if (updates > 0 && seconds > 0)
    fmt::print("{:<14}about {}: {} updates of {}, without evaluation and saving\n", "time",
               human_seconds(seconds * static_cast<double>(updates)), updates,
               seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : human_seconds(seconds));
}

}  // namespace

void write_configuration(const std::string& file, const std::string& text) {
  const fs::path folder = fs::absolute(file).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw machine_error("create", folder, error.value());
  // Write through a symbolic link instead of replacing it: the user keeps the file elsewhere.
  publish_file(fs::is_symlink(file, error) ? fs::weakly_canonical(file) : fs::path(file), text);
}

void run_wizard(const WizardOptions& options) {
  const config::Surroundings around = surroundings(options.file);
  config::WizardDraft draft = start_from(options.file, around);
  const auto prompter = make_prompter();
  ask(draft, options, around, *prompter);
  write_configuration(options.file, config::file_text(draft.document, config::format_of(options.file)));
  fmt::print("\nconfiguration saved at {}\n", options.file);
  const bool asked = !options.yes && options.answers.empty();
  const auto plan = resolve(options.file);
  const auto brief = plan && asked ? brief_of(*plan) : std::nullopt;
  if (brief) {
    fmt::print("\n{}", brief->text);
    if (wants_trial(*prompter)) try_out(options.file, brief->updates);
  }
  fmt::print("{}run it with: {}\n", plan ? "" : "once it is complete, ", launch_command(options.file));
}

}  // namespace trainer::cli
