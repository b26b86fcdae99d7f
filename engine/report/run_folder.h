// What a run has left in its output folder, for the report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/config/document/document.h"

namespace trainer::report {

/// One line of metrics.jsonl. A number that was not finite is missing from `numbers`.
struct Record {
  int64_t step = 0;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> words;
  std::map<std::string, std::vector<double>> lists{};

  bool is_evaluation() const;
  /// A start, a save, an update that diverged, or a straggler.
  bool is_event() const { return words.contains("event") || words.contains("diverged") || words.contains("straggler"); }
};

/// How many training samples have a length from `from` to `to` tokens.
struct LengthBar {
  int64_t from = 0, to = 0;
  double samples = 0;
};

/// What the last start of the run has recorded.
struct StartFacts {
  std::map<std::string, std::vector<LengthBar>> lengths;  // "source", "target"
  struct Unit {
    std::string name, class_name;
    int64_t parameters = 0;
  };
  std::vector<Unit> units;  // FSDP's
};

/// One option of config.resolved.yaml.
struct Setting {
  std::string key;     // "training.learning_rate"
  std::string value;   // on one line
  std::string origin;  // "job.yaml:12:3", "--set" or "default"
  config::Node node;   // the value
};

struct Prediction {
  std::string input, prediction, label;
};

/// How the run ended.
struct Ending {
  std::string cause;  // as in outcome.json; "" while it runs, or when it was killed
  std::string message;
};

/// Of more logged updates than this, every second one is kept, or every fourth, …: the report of a very long run takes
/// no more memory than that of a long one.
constexpr int64_t kMostUpdates = 100'000;

struct RunFolder {
  std::string name;             // of the folder
  std::vector<Record> records;  // the last update included
  StartFacts start;
  std::vector<Setting> settings;
  std::vector<Prediction> predictions;  // at most kMostPredictions
  std::vector<int64_t> checkpoints;     // steps
  Ending ending;
};

/// Predictions beyond this many are not read.
constexpr size_t kMostPredictions = 100'000;

/// Reads a run's output folder; it may belong to a running process. Files that are missing leave their part empty, and
/// lines that are not JSON are skipped. Errors: InputError when `folder` has no metrics.jsonl.
RunFolder read_run(const std::filesystem::path& folder);

}  // namespace trainer::report
