// Checks the tables' reasons for keys that have no effect or are refused against what this build supports.
#include <cctype>
#include <set>

#include "engine/config/ds_config.h"
#include "engine/config/tables.h"
#include "tests/config/given.h"

namespace trainer::config {
namespace {

struct Reason {
  std::string key, text;
};

std::vector<Reason> reasons() {
  std::vector<Reason> all;
  for (const auto& [table, prefix] : {std::pair(&root_table(), ""), std::pair(&training_arguments_table(), "training."),
                                      std::pair(&ds_config_table(), "ds_config.")})
    each_entry(*table, [&, prefix = std::string(prefix)](const std::string& path, const Entry& entry) {
      for (const std::string& text : {entry.reason, entry.no_effect})
        if (!text.empty()) all.push_back({prefix + path, text});
    });
  for (const OtherDevices& other : kOtherDevices) all.push_back({"distributed_type", std::string(other.whose)});
  return all;
}

/// The words of `text` that may be names of options: those that contain an underscore or a dot.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/') {
      word += c;
    } else {
      while (word.ends_with(".")) word.pop_back();
      if (word.find_first_of("_.") != std::string::npos && word.find('/') == std::string::npos) names.push_back(word);
      word.clear();
    }
  }
  return names;
}

/// Names in reasons that are not options: files, methods and values of options.
const std::set<std::string> kNoOptions{"metrics.jsonl",    "predictions.jsonl", "ds_config.json",
                                       "merge_and_unload", "warmup_max_lr",     "cosine_warmup_with_min_lr"};

/// The entries called `name`.
std::vector<const Entry*> entries_called(const std::string& name) {
  std::vector<const Entry*> found;
  for (const Entries* table : {&root_table(), &ds_config_table()})
    each_entry(*table, [&](const std::string& path, const Entry& entry) {
      if (path == name || path.ends_with("." + name) || entry.has_key(name)) found.push_back(&entry);
    });
  return found;
}

TEST(Reasons, NameOptionsThatTakeEffect) {
  const std::vector<Reason> all = reasons();
  ASSERT_GT(all.size(), 200u);
  for (const auto& [key, text] : all) {
    for (const std::string& name : names_in(text)) {
      if (kNoOptions.contains(name)) continue;
      const auto entries = entries_called(name);
      EXPECT_FALSE(entries.empty()) << key << ": '" << text << "' names " << name << ", which is not an option";
      const bool works = std::any_of(entries.begin(), entries.end(), [](const Entry* entry) {
        return entry->foreign != Foreign::kNoEffect && entry->foreign != Foreign::kUnsupported &&
               entry->no_effect.empty();
      });
      EXPECT_TRUE(entries.empty() || works) << key << ": '" << text << "' names " << name << ", which has no effect";
    }
  }
}

TEST(Reasons, NameValuesThatAreAccepted) {
  int checked = 0;
  for (const auto& [key, text] : reasons()) {
    for (const std::string& name : names_in(text)) {
      const std::size_t at = text.find(name + ": ");
      const auto entries = entries_called(name);
      if (at == std::string::npos || entries.empty() || !entries[0]->read || entries[0]->children) continue;
      const std::size_t start = at + name.size() + 2;
      std::string value = text.substr(start, text.find_first_of(" ;,", start) - start);
      std::erase(value, '"');
      if (value.find(':') != std::string::npos) value = value.substr(value.find(':') + 1);  // a range of machines
      Config config;
      Place place = find_option(config, name);
      if (!place.entry) continue;
      EXPECT_EQ(place.entry->read(Node::scalar(value), place.section), "") << key << ": " << text;
      ++checked;
    }
  }
  EXPECT_GE(checked, 3);
}

/// A configuration that uses a supported feature, and phrases that would deny the feature.
struct Ability {
  const char* text;
  std::vector<const char*> denials;
};
const Ability kAbilities[] = {
    {"distributed_type: MULTI_CPU\nnum_processes: 4\nnum_machines: 2\nmain_process_ip: a\n",
     {"one machine", "single machine", "this machine only"}},
    {"distributed_type: MULTI_CPU\nnum_processes: 4\nparallelism_config: {parallelism_config_tp_size: 2}\n",
     {"data and FSDP only", "no tensor parallel"}},
    {"distributed_type: MULTI_CPU\nnum_processes: 4\nparallelism_config: {parallelism_config_pp_size: 2}\n",
     {"data and FSDP only", "no pipeline"}},
    {"distributed_type: MULTI_CPU\nnum_processes: 4\ndata: {task: causal_lm, train: {path: a}}\n"
     "parallelism_config: {parallelism_config_cp_size: 2}\n",
     {"no sequence parallel", "no context parallel"}},
    {"distributed_type: FSDP\nnum_processes: 4\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}\n"
     "num_machines: 2\nmain_process_ip: a\n",
     {"over all ranks, not", "are spread over all ranks"}},
    {"distributed_type: MULTI_GPU\nnum_processes: 2\nuse_cpu: false\n",
     {"this version trains on the CPU", "no GPU support", "it is for GPUs", "kernels are for GPUs", "needs GPUs",
      "it is for NVIDIA"}},
    {"distributed_type: NO\ndata: {train: {path: a}, validation: {fraction: 0.1}}\n"
     "evaluation: {generate: true, temperature: 0.7, top_k: 5}\n",
     {"greedily"}},
    {"distributed_type: NO\ncheckpoint: {metric_for_best_model: loss}\n", {"the last one; leave it out"}},
};

class Abilities : public Given {};

TEST_F(Abilities, AreNotDeniedByReasons) {
  for (const auto& [text, denials] : kAbilities) {
    const bool gpus = std::string(text).find("use_cpu") != std::string::npos;
    const bool data = std::string(text).find("data:") != std::string::npos;
    const std::string whole = std::string(text) + (gpus ? "" : "use_cpu: true\n") + "model: {path: m}\n" +
                              (data ? "" : "data: {train: {path: a}}\n");
    const Sources sources{.file = write("f.yaml", whole), .job_file = "", .overrides = {}, .to_run = false};
    EXPECT_NO_THROW(resolve_plan(sources)) << whole;
    for (const auto& [key, reason] : reasons())
      for (const char* denial : denials) EXPECT_EQ(reason.find(denial), std::string::npos) << key << ": " << reason;
  }
}

TEST_F(Abilities, UnknownNestedKeyGetsNoHintFromOtherFiles) {
  write("ds.json", R"({"fp16": {"opt_level": "O2"}, "overlap_comm": true, "zero_optimization": {"opt_level": 1}})");
  const std::string text =
      "distributed_type: DEEPSPEED\nnum_processes: 2\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}}\n"
      "deepspeed_config: {deepspeed_config_file: ds.json}\n";
  EXPECT_EQ(problems(text), "ds.json:1:75: ds_config.zero_optimization.opt_level is not an option");
}

}  // namespace
}  // namespace trainer::config
