// Resolves every file of tests/config/accelerate together with our sections, once unchanged and once with --cpu. The
// results are in accelerate/outcomes.txt; UPDATE_OUTCOMES=1 rewrites it; read the difference before committing it.
#include <algorithm>
#include <cstdlib>

#include "engine/base/files.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = source_dir() + "/tests/config/accelerate";
const fs::path kOutcomes = kFolder / "outcomes.txt";

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

class AccelerateFiles : public Given {
 protected:
  AccelerateFiles() { job_ = write("job.yaml", "model: {path: m}\ndata: {train: {path: a.txt}}\n"); }

  static std::vector<fs::path> files() {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(kFolder)) {
      const std::string name = entry.path().filename().string();
      const bool is_ds_config = name == "deepspeed_json_file.json";
      if ((name.ends_with(".yaml") || name.ends_with(".json")) && !is_ds_config) out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  std::string outcome(const fs::path& file, const std::vector<Override>& overrides) {
    try {
      return described(resolve_plan({file.string(), job_, overrides}));
    } catch (const ConfigError& error) {
      std::string out = "refused";
      for (const std::string& line : lines(error.what())) out += "\n    " + shortened(line);
      return out;
    }
  }

  std::string paragraph(const fs::path& file) {
    const std::string as_is = outcome(file, {});
    const std::string on_cpu = outcome(file, {{"use_cpu", "true", "--cpu"}});
    const std::string name = fs::relative(file, kFolder).string();
    if (as_is == on_cpu) return name + "\n  with or without --cpu: " + as_is + "\n";
    return name + "\n  as it is: " + as_is + "\n  --cpu: " + on_cpu + "\n";
  }

 private:
  /// Removes folders, which differ between machines.
  std::string shortened(std::string text) const {
    text = without_folder(text);
    for (const std::string& prefix :
         {kFolder.string() + "/old/", kFolder.string() + "/refused/", kFolder.string() + "/"}) {
      for (std::size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    }
    return text;
  }

  std::string described(const Plan& plan) const {
    const Config& c = plan.config;
    std::string out =
        fmt::format("{}, {} rank{}", name_of(c.distributed_type), c.num_processes, c.num_processes == 1 ? "" : "s");
    if (c.distributed_type == DistributedType::kFsdp) {
      const FsdpConfig& fsdp = c.fsdp_config;
      out += fmt::format(", {}, {}", name_of(fsdp.sharding_strategy), name_of(fsdp.auto_wrap_policy));
      if (!fsdp.transformer_layer_cls_to_wrap.empty())
        out += fmt::format(" of {}", fmt::join(fsdp.transformer_layer_cls_to_wrap, ", "));
    }
    out += fmt::format(", precision {}", name_of(c.mixed_precision));
    for (const Note& note : plan.translated)
      out += fmt::format("\n    {}: {} became {}", note.key, note.value, note.text);
    for (const Note& note : plan.without_effect)
      out += fmt::format("\n    {}: {} has no effect: {}", note.key, note.value, note.text);
    for (const std::string& warning : plan.warnings) {
      const bool machine = warning.find("this build has no GPU support: training runs") != std::string::npos;
      if (!machine) out += "\n    warning: " + shortened(warning);
    }
    return out;
  }

  std::string job_;
};

TEST_F(AccelerateFiles, ResolveToExpectedOutcomes) {
  std::string outcomes;
  for (const fs::path& file : files()) outcomes += (outcomes.empty() ? "" : "\n") + paragraph(file);
  const char* update = std::getenv("UPDATE_OUTCOMES");
  if (update && *update) std::ofstream(kOutcomes) << outcomes;

  const auto expected = lines(read_file(kOutcomes.string(), 1 << 20)), found = lines(outcomes);
  std::string paragraph;
  for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
    const std::string& line = i < found.size() ? found[i] : "";
    if (!line.empty() && line.front() != ' ') paragraph = line;
    ASSERT_EQ(line, i < expected.size() ? expected[i] : "") << paragraph << ": outcomes.txt:" << i + 1;
  }
}

TEST_F(AccelerateFiles, HaveOnlyKnownKeys) {
  ASSERT_GT(files().size(), 100u);
  for (const fs::path& file : files()) {
    const std::string name = file.filename().string();  // two have a key that no version of Accelerate wrote
    if (name == "gradient_accumulation.yaml" || name == "deepspeed_by_hand.yaml") continue;
    const std::string found = outcome(file, {});
    for (const char* words : {"is not an option", " belongs "})
      EXPECT_EQ(found.find(words), std::string::npos) << found;
  }
}

}  // namespace
}  // namespace trainer::config
