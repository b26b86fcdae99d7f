// Distributes a run's records to all outputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/config/sections/running.h"
#include "engine/metrics/event_file.h"
#include "engine/metrics/metrics_log.h"
#include "engine/metrics/progress.h"
#include "engine/metrics/records.h"

namespace trainer::metrics {

/// Writes records to metrics.jsonl, to the screen and to the targets of `logging.report_to`. Exists on rank 0 only.
/// Errors: MachineError when a file can't be written.
class Reporter {
 public:
  using Forward = std::function<void(const std::string& line)>;

  /// `output_dir` must exist. `resume_step` is the step of the loaded checkpoint, 0 for a new run. `forward`, if any,
  /// is called with each line of metrics.jsonl, once it is written.
  Reporter(const config::LoggingConfig& logging, const std::filesystem::path& output_dir, int64_t resume_step,
           int64_t total_steps, Forward forward = {});

  /// A logged update: every `logging.logging_steps`.
  void report(const StepRecord& record) { report_to_all(record); }
  void report(const EvaluationRecord& record) { report_to_all(record); }
  void report(const DivergenceRecord& record);
  void report(const StragglerRecord& record);
  void report(const SaveRecord& record) { log(record); }
  /// For TensorBoard, if the run reports to it.
  void report(const HistogramRecord& record) {
    if (events_) events_->write(record);
  }
  /// Fills in what the files of an earlier attempt tell.
  void report(StartRecord record);
  /// For TensorBoard, if the run reports to it.
  void report_configuration(const std::string& yaml) {
    if (events_) events_->write_configuration(yaml);
  }

  /// For screen output only: each update, the progress of an evaluation, messages above the bar.
  Progress& progress() { return progress_; }

 private:
  template <class Record>
  void report_to_all(const Record& record) {
    log(record);
    if (events_) events_->write(record);
    progress_.report(record);
  }

  template <class Record>
  void log(const Record& record) {
    const std::string line = to_json_line(record);
    log_.write(line);
    if (forward_) forward_(line);
  }

  MetricsLog log_;
  Forward forward_;
  std::optional<EventFile> events_;
  Progress progress_;
};

}  // namespace trainer::metrics
