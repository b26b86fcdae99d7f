#include "engine/metrics/event_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "engine/base/crc32c.h"
#include "engine/base/files.h"
#include "engine/base/host_name.h"
#include "engine/metrics/histogram_limits.h"

namespace trainer::metrics {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

template <class Value>
std::string bytes_of(Value value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// Protobuf's wire format: a key of field number and wire type, then the value.
enum WireType : int { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(int field, WireType type) {
  return varint(static_cast<uint64_t>(field) << 3 | type);
}
std::string field_int(int field, int64_t value) {
  return key(field, kVarint) + varint(static_cast<uint64_t>(value));
}
std::string field_double(int field, double value) {
  return key(field, kFixed64) + bytes_of(value);
}
std::string field_float(int field, float value) {
  return key(field, kFixed32) + bytes_of(value);
}
std::string field_bytes(int field, std::string_view value) {
  return key(field, kLength) + varint(value.size()) + std::string(value);
}

std::string field_doubles(int field, const double* begin, const double* end) {
  return field_bytes(field, {reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin) * sizeof(double)});
}

/// `tag`'s value in a summary, whose `field` holds `message`.
std::string summary_event(double wall_time, int64_t step, std::string_view tag, const std::string& value) {
  const std::string summary = field_bytes(1, field_bytes(1, tag) + value);
  return field_double(1, wall_time) + field_int(2, step) + field_bytes(5, summary);
}

/// TFRecord's masking: a CRC over data that contains CRCs is weak.
uint32_t masked(uint32_t crc) {
  return std::rotr(crc, 15) + 0xA282EAD8;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string file_name(double wall_time) {
  const std::string name = host_name(), host = name.empty() ? "localhost" : name;
  // The last number distinguishes files that one process creates within a second.
  static int64_t count = 0;
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(wall_time), host, getpid(), count++);
}

}  // namespace

std::string version_event(double wall_time) {
  return field_double(1, wall_time) + field_bytes(3, "brain.Event:2");
}

std::string restart_event(double wall_time, int64_t step) {
  constexpr int64_t kStart = 1;
  return field_double(1, wall_time) + field_int(2, step) + field_bytes(7, field_int(1, kStart));
}

std::string scalar_event(double wall_time, int64_t step, std::string_view tag, float value) {
  return summary_event(wall_time, step, tag, field_float(2, value));
}

std::string histogram_event(double wall_time, int64_t step, const Histogram& histogram) {
  const std::vector<double>& limits = histogram_limits();
  const auto& counts = histogram.buckets;
  const auto is_used = [](double count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_used);
  if (first == counts.end()) return "";
  const auto end = std::find_if(counts.rbegin(), counts.rend(), is_used).base();
  // Only upper limits are written: an empty bucket gives the lower limit of the first.
  std::vector<double> shown(first, end);
  shown.insert(shown.begin(), 0);
  const double* const limit = limits.data() + (first - counts.begin());
  const std::string message = field_double(1, histogram.min) + field_double(2, histogram.max) +
                              field_double(3, histogram.count) + field_double(4, histogram.sum) +
                              field_double(5, histogram.sum_squares) + field_doubles(6, limit, limit + shown.size()) +
                              field_doubles(7, shown.data(), shown.data() + shown.size());
  return summary_event(wall_time, step, histogram.tag, field_bytes(5, message));
}

std::string text_event(double wall_time, int64_t step, std::string_view tag, std::string_view text) {
  constexpr int64_t kString = 7;
  const std::string shape = field_bytes(2, field_int(1, 1));  // one element
  const std::string tensor = field_int(1, kString) + field_bytes(2, shape) + field_bytes(8, text);
  const std::string of_text_plugin = field_bytes(1, field_bytes(1, "text"));
  return summary_event(wall_time, step, tag, field_bytes(8, tensor) + field_bytes(9, of_text_plugin));
}

std::string framed(std::string_view event) {
  const std::string length = bytes_of(uint64_t{event.size()});
  return length + bytes_of(masked(crc32c(length.data(), length.size()))) + std::string(event) +
         bytes_of(masked(crc32c(event.data(), event.size())));
}

EventFile::EventFile(const std::filesystem::path& folder, int64_t resume_step)
    : first_step_(resume_step > 0 ? resume_step + 1 : 0) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw machine_error("create", folder, error.value());
  const double wall_time = now();
  path_ = folder / file_name(wall_time);
  file_.emplace(path_, O_TRUNC);
  file_->write(framed(version_event(wall_time)) + framed(restart_event(wall_time, first_step_)));
}

void EventFile::write(const StepRecord& record) {
  const std::array<std::pair<const char*, double>, 7> scalars{{
      {"train/loss", record.loss},
      {"train/grad_norm", record.grad_norm},
      {"train/learning_rate", record.learning_rate},
      {"train/epoch", record.epoch},
      {"train/tokens_per_second", record.tokens_per_second},
      {"train/step_seconds", record.step_seconds},
      {"train/memory_bytes", static_cast<double>(record.memory_bytes)},
  }};
  std::string events;
  for (const auto& [tag, value] : scalars)
    events += framed(scalar_event(now(), record.step, tag, static_cast<float>(value)));
  if (record.loss_scale > 0)
    events += framed(scalar_event(now(), record.step, "train/loss_scale", static_cast<float>(record.loss_scale)));
  if (record.peak_share > 0)
    events += framed(scalar_event(now(), record.step, "train/peak_share", static_cast<float>(record.peak_share)));
  for (const auto& [name, value] : record.rewards)
    events += framed(scalar_event(now(), record.step, "train/" + name, static_cast<float>(value)));
  for (const auto& [phase, seconds] : record.phase_seconds)
    events += framed(scalar_event(now(), record.step, "train/" + phase + "_seconds", static_cast<float>(seconds)));
  file_->write(events);
}

void EventFile::write(const EvaluationRecord& record) {
  constexpr std::string_view kPrefix = "eval_";
  std::string events;
  for (const auto& [name, value] : record.values) {
    const std::string tag = "eval/" + (name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name);
    events += framed(scalar_event(now(), record.step, tag, static_cast<float>(value)));
  }
  file_->write(events);
}

void EventFile::write(const HistogramRecord& record) {
  std::string events;
  for (const Histogram& histogram : record.histograms)
    if (const std::string event = histogram_event(now(), record.step, histogram); !event.empty())
      events += framed(event);
  file_->write(events);
}

void EventFile::write_configuration(const std::string& yaml) {
  std::string block;  // of Markdown: a line indented by four columns is code
  for (std::string_view rest = yaml; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    block += "    " + std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  file_->write(framed(text_event(now(), first_step_, "configuration/text_summary", block)));
}

}  // namespace trainer::metrics
