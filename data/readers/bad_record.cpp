#include "data/readers/bad_record.h"

#include <string_view>

namespace trainer::data {
namespace {

std::string_view words_of(Fault fault) {
  switch (fault) {
    case Fault::kNotUtf8:
      return "not UTF-8";
    case Fault::kNul:
      return "a NUL byte";
    case Fault::kTooLong:
      return "too long";
    case Fault::kNotJson:
      return "not valid JSON";
    case Fault::kNotObject:
      return "not a JSON object";
    case Fault::kRagged:
      return "wrong number of fields";
    case Fault::kStrayQuote:
      return "text after a closing quote";
    case Fault::kNoDelimiter:
      return "no delimiter";
    case Fault::kNoRecords:
      return "a file without records";
  }
  return "?";
}

}  // namespace

void BadRecords::take(const BadRecord& bad) {
  if (rule_ == config::OnBadSample::kError) {
    throw InputError("{}\nSet `on_bad_sample: skip` to skip bad records.", bad.what());
  }
  Kind& kind = kinds_[bad.fault()];
  if (kind.count++ == 0) kind.first = bad.place();
}

int64_t BadRecords::count() const {
  int64_t sum = 0;
  for (const auto& [fault, kind] : kinds_) sum += kind.count;
  return sum;
}

std::vector<std::string> BadRecords::notes() const {
  std::vector<std::string> notes;
  for (const auto& [fault, kind] : kinds_) {
    notes.push_back(
        fmt::format("skipped by on_bad_sample: {} × {}; the first: {}", kind.count, words_of(fault), kind.first));
  }
  return notes;
}

}  // namespace trainer::data
