#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/first_problems.h"
#include "engine/base/listed.h"
#include "engine/cli/flags.h"
#include "engine/cli/worker.h"
#include "engine/config/adapters/combination.h"
#include "engine/config/document/problems.h"

namespace trainer::cli {
namespace {

/// ADAPTER[:WEIGHT].
struct Weighted {
  std::string folder;
  std::string weight;  // "": none was given
};

bool is_finite_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

/// A folder may have a colon in its name.
Weighted weighted(const std::string& word) {
  const size_t colon = word.rfind(':');
  std::error_code ignored;
  if (colon == std::string::npos || std::filesystem::exists(word, ignored)) return {word, ""};
  return {word.substr(0, colon), word.substr(colon + 1)};
}

/// The flags that only some combinations have.
struct Combining {
  std::string name = "svd";
  int64_t rank = 0;
  double density = 1;
  std::string majority_sign = "total";
  uint64_t seed = 42;
  CLI::Option *of_name = nullptr, *of_rank = nullptr, *of_density = nullptr, *of_sign = nullptr, *of_seed = nullptr;

  void add_to(CLI::App& app) {
    of_name = app.add_option("--combination", name,
                             "how several adapters become one, as in PEFT: svd (default), linear, cat, ties, ties_svd, "
                             "dare_ties, dare_ties_svd, dare_linear, dare_linear_svd, magnitude_prune or "
                             "magnitude_prune_svd")
                  ->check(CLI::IsMember(config::combinations_that([](const auto&) { return true; })).description(""));
    of_rank = app.add_option("--rank", rank, "svd: the rank of the result; default: the highest of the adapters");
    of_density = app.add_option("--density", density,
                                "ties, dare and magnitude_prune: the share of values to keep, above 0 and at most 1");
    of_sign = app.add_option("--majority_sign", majority_sign,
                             "ties: elect signs by the total of the values (default) or by their frequency")
                  ->check(CLI::IsMember({"total", "frequency"}));
    of_seed = app.add_option("--seed", seed, "dare: of the values that are dropped; default 42");
  }

  bool any() const {
    for (const CLI::Option* option : {of_name, of_rank, of_density, of_sign, of_seed})
      if (option->count() > 0) return true;
    return false;
  }

  /// Flags that are missing, wrong, or without effect.
  void check(std::vector<std::string>& problems) const {
    using Prune = config::Combination::Prune;
    const config::Combination& how = *config::find_combination(name);
    const auto needs = [&](const CLI::Option* option, bool applies, const auto& condition) {
      if (option->count() > 0 && !applies)
        problems.push_back(fmt::format("{} has no effect with --combination {}; it belongs to {}", option->get_name(),
                                       name, listed(config::combinations_that(condition), "and")));
    };
    needs(of_rank, how.decomposes, [](const auto& one) { return one.decomposes; });
    needs(of_density, how.prune != Prune::kNone, [](const auto& one) { return one.prune != Prune::kNone; });
    needs(of_sign, how.elects_sign, [](const auto& one) { return one.elects_sign; });
    needs(of_seed, how.prune == Prune::kRandom, [](const auto& one) { return one.prune == Prune::kRandom; });
    if (how.prune != Prune::kNone && of_density->count() == 0)
      problems.push_back(fmt::format("--combination {} needs --density, the share of values to keep", name));
    if (of_density->count() > 0 && !(density > 0 && density <= 1))
      problems.push_back(fmt::format("--density {}: must be above 0 and at most 1", density));
    if (of_rank->count() > 0 && rank < 1) problems.push_back(fmt::format("--rank {}: must be at least 1", rank));
  }

  Arguments words() const {
    return {"--combination",   name,          "--rank", std::to_string(rank), "--density", fmt::format("{}", density),
            "--majority_sign", majority_sign, "--seed", std::to_string(seed)};
  }
};

bool asks_for_help(const Arguments& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const auto& one) { return one == "-h" || one == "--help"; });
}

/// Checks what needs no adapter to be opened. Errors: ConfigError, with all problems.
void check(const std::vector<Weighted>& adapters, const Combining& combining) {
  std::vector<std::string> problems;
  for (const Weighted& one : adapters) {
    const std::string folder = config::shown(one.folder);
    if (one.weight.empty() && adapters.size() > 1)
      problems.push_back(fmt::format("{} has no weight: write {}:0.5, for example", folder, folder));
    else if (!one.weight.empty() && !is_finite_number(one.weight))
      problems.push_back(fmt::format("{}: the weight '{}' is not a number", folder, config::shown(one.weight)));
  }
  if (adapters.size() > 1)
    combining.check(problems);
  else if (combining.any())
    problems.emplace_back("--combination and its flags are for several adapters, but one was given");
  if (!problems.empty()) throw ConfigError("trainer merge:{}", first_problems(problems));
}

}  // namespace

int run_merge(const Arguments& arguments) {
  CLI::App app(
      "Merge an adapter into its base model: write a model folder that computes the same without the adapter, as fast "
      "as the base model, and that transformers, vLLM and others load. Weights are merged in fp32, one at a time. "
      "Several LoRA adapters of the same base model, each with a weight, are combined into one first.",
      "merge");
  app.footer(
      "Examples:\n  trainer merge runs/t5 models/t5-reports        the adapter that a run left\n"
      "  trainer merge runs/t5/checkpoint-300 merged      of one of its checkpoints\n"
      "  trainer merge adapter merged --base ~/models/t5  a base model that has moved\n"
      "  trainer merge runs/law:0.7 runs/tax:0.3 merged   several adapters\n"
      "  trainer merge a:0.7 b:0.3 both --combination cat --adapter_only\n"
      "\nAdapters of the types LORA (also rsLoRA, DoRA, PiSSA, OLoRA), IA3, LOHA and VERA can be merged; only LORA "
      "without DoRA can be combined.\n");
  std::vector<std::string> folders;
  std::string output, base, dtype = "auto";
  Combining combining;
  bool verify = false, adapter_only = false, json = false, cpu = false;
  app.add_option(
         "ADAPTER", folders,
         "an adapter folder of PEFT or of a run, or a checkpoint; ADAPTER:WEIGHT ADAPTER:WEIGHT … combines several")
      ->required();
  // CLI11 gives every word to ADAPTER, so that FOLDER can be required in the help only.
  app.add_option("FOLDER", output, "the folder to write; must be missing or empty")->required(asks_for_help(arguments));
  app.add_option(kBaseFlag, base, "the base model's folder or Hub name; default: as the adapter names it");
  const auto* const of_dtype =
      app.add_option("--dtype", dtype, "the dtype of the merged weights; auto: as in the base model")
          ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}));
  app.add_flag("--verify", verify,
               "then compute logits with the adapter and with the merged model, and print how much they differ; both "
               "models must fit in memory, one at a time");
  app.add_flag("--adapter_only", adapter_only, "write the combined adapter, for PEFT and others, instead of a model");
  combining.add_to(app);
  app.add_flag("--json", json, "print one JSON object to standard output, for scripts");
  app.add_flag(kCpuFlag, cpu, "accepted: this command computes on the CPU");
  if (!parse(app, arguments)) return 0;
  if (folders.size() < 2) throw ConfigError("FOLDER is required; `trainer merge --help` lists the flags");
  std::vector<Weighted> adapters;
  for (size_t i = 0; i + 1 < folders.size(); ++i) adapters.push_back(weighted(folders[i]));
  check(adapters, combining);
  if (adapter_only && (verify || of_dtype->count() > 0))
    throw ConfigError("{} is for a merged model, but --adapter_only writes none.", verify ? "--verify" : "--dtype");
  Arguments words{"merge", folders.back()};
  for (const Weighted& one : adapters) words.push_back(one.folder);
  if (!base.empty()) words.insert(words.end(), {"--base", base});
  if (dtype != "auto") words.insert(words.end(), {"--dtype", dtype});
  if (verify) words.emplace_back("--verify");
  if (adapter_only) words.emplace_back("--adapter_only");
  if (json) words.emplace_back("--json");
  for (const Weighted& one : adapters)
    if (!one.weight.empty()) words.push_back("--weight=" + one.weight);  // may be negative
  const Arguments how = combining.words();
  if (adapters.size() > 1) words.insert(words.end(), how.begin(), how.end());
  become_worker(words);
}

}  // namespace trainer::cli
