// Bad records and how they are handled.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/errors.h"
#include "engine/config/sections/data.h"

namespace trainer::data {

/// The kinds of bad records; the summary of a run counts each.
enum class Fault {
  kNotUtf8,
  kNul,
  kTooLong,
  kNotJson,
  kNotObject,
  kRagged,
  kStrayQuote,
  kNoDelimiter,
  kNoRecords,  // a whole file
};

/// A bad record; the records after it can still be read.
class BadRecord : public InputError {
 public:
  /// `place` is "file:line" or "file:line:column"; the message begins with it.
  template <class... Args>
  BadRecord(Fault fault, std::string place, fmt::format_string<Args...> format, Args&&... args)
      : InputError(place + ": " + fmt::format(format, std::forward<Args>(args)...)),
        fault_(fault),
        place_(std::move(place)) {}

  Fault fault() const { return fault_; }
  const std::string& place() const { return place_; }

 private:
  Fault fault_;
  std::string place_;
};

/// The bad records of a run: `data.train.on_bad_sample` decides whether the first one ends the run, or all are skipped
/// and counted.
class BadRecords {
 public:
  explicit BadRecords(config::OnBadSample rule = config::OnBadSample::kError) : rule_(rule) {}

  /// Counts `bad`. Errors: InputError with its message when the rule is `error`.
  void take(const BadRecord& bad);

  int64_t count() const;

  /// For each kind, the number of skipped records and the place of the first.
  std::vector<std::string> notes() const;

 private:
  struct Kind {
    int64_t count = 0;
    std::string first;
  };

  config::OnBadSample rule_;
  std::map<Fault, Kind> kinds_;
};

}  // namespace trainer::data
