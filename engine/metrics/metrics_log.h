// metrics.jsonl: the run's metrics, for programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/metrics/appended_file.h"
#include "engine/metrics/records.h"

namespace trainer::metrics {

/// The line of a record, one JSON object with its line break. Numbers have 17 significant digits, so reading gives the
/// same double. JSON has no non-finite numbers: such a value is null, and `<name>_text` is "nan", "inf" or "-inf".
std::string to_json_line(const StepRecord& record);
std::string to_json_line(const EvaluationRecord& record);
std::string to_json_line(const DivergenceRecord& record);
std::string to_json_line(const StragglerRecord& record);
/// These have the member `event`, and `time`, in seconds since 1970.
std::string to_json_line(const SaveRecord& record);
std::string to_json_line(const StartRecord& record);

/// Appends to metrics.jsonl. Each line is written at once, so killing the process loses none; a full disk
/// doesn't end the run (AppendedFile). Errors: MachineError.
class MetricsLog {
 public:
  /// Continues after `resume_step`, the step of the loaded checkpoint. Drops the lines of later steps, a half-written
  /// last line and lines that are not records; the file is replaced atomically. With 0, a new run, the file starts
  /// empty. `at_end`: the run resumes after its last step and only repeats the evaluation, so that step's evaluation is
  /// dropped too.
  MetricsLog(const std::filesystem::path& path, int64_t resume_step, bool at_end = false);

  /// Appends a line, which ends with a line break.
  void write(const std::string& line);

  /// The last step of the lines that were there, dropped ones included; -1: there were none, or the run is new.
  int64_t reached() const { return reached_; }

 private:
  int64_t reached_ = -1;
  AppendedFile file_;
};

}  // namespace trainer::metrics
