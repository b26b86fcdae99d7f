// TensorBoard's event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "engine/metrics/appended_file.h"
#include "engine/metrics/records.h"

namespace trainer::metrics {

// The protobuf messages, encoded. `wall_time` is in seconds since 1970.
/// The first event of every file.
std::string version_event(double wall_time);
/// Makes TensorBoard drop the points of earlier files in the folder from `step` on.
std::string restart_event(double wall_time, int64_t step);
std::string scalar_event(double wall_time, int64_t step, std::string_view tag, float value);
/// With the buckets up to the last that isn't empty, from the one before the first, as TensorBoard's SummaryWriter
/// writes it. One that counts nothing gives "".
std::string histogram_event(double wall_time, int64_t step, const Histogram& histogram);
/// `text`: Markdown.
std::string text_event(double wall_time, int64_t step, std::string_view tag, std::string_view text);

/// The frame around an event: its length, and checksums of the length and of the event.
std::string framed(std::string_view event);

/// Appends scalars and texts to a new event file in a folder, under the tags that Hugging Face's Trainer uses:
/// `train/loss`, `eval/accuracy`. Each record is one write, so a killed process leaves complete events; a full disk
/// doesn't end the run (AppendedFile). Errors: MachineError. Source: TFRecord framing; event.proto and summary.proto of
/// TensorBoard.
class EventFile {
 public:
  /// Creates `folder` if it doesn't exist. Discards the points after `resume_step` that an earlier process left there;
  /// with 0, a new run, all of them.
  EventFile(const std::filesystem::path& folder, int64_t resume_step);

  const std::filesystem::path& path() const { return path_; }
  void write(const StepRecord& record);
  void write(const EvaluationRecord& record);
  void write(const HistogramRecord& record);
  /// The configuration, a YAML file, as text; at the step at which the file begins.
  void write_configuration(const std::string& yaml);

 private:
  std::filesystem::path path_;
  int64_t first_step_;
  std::optional<AppendedFile> file_;
};

}  // namespace trainer::metrics
