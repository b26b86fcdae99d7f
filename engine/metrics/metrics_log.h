// metrics.jsonl: what the run measured, for programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/base/file_descriptor.h"
#include "engine/metrics/records.h"

namespace trainer::metrics {

/// The line of a record, one JSON object with its line break. Numbers have 17 significant digits, so reading gives the
/// same double. JSON has no word for what is not finite: then the value is null and `<name>_text` says which ("nan",
/// "inf", "-inf").
std::string to_json_line(const StepRecord& record);
std::string to_json_line(const EvaluationRecord& record);
std::string to_json_line(const DivergenceRecord& record);
std::string to_json_line(const StragglerRecord& record);

/// Appends to metrics.jsonl. Each line is handed to the system at once: killing the process loses none.
/// Errors: MachineError when the disk is full and the like.
class MetricsLog {
 public:
  /// Goes on behind `resume_step`, the step of the checkpoint that was loaded: lines of later steps, a half-written
  /// last line and what is no line of ours are dropped, and before and after a crash the file is either the old or the
  /// new one. With 0, a new run, the file starts empty. `at_end`: the run resumes behind its last step, where it only
  /// evaluates once more; then that step's evaluation is dropped too.
  MetricsLog(const std::filesystem::path& path, int64_t resume_step, bool at_end = false);

  void write(const StepRecord& record) { append(to_json_line(record)); }
  void write(const EvaluationRecord& record) { append(to_json_line(record)); }
  void write(const DivergenceRecord& record) { append(to_json_line(record)); }
  void write(const StragglerRecord& record) { append(to_json_line(record)); }

 private:
  void append(const std::string& line);

  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace trainer::metrics
