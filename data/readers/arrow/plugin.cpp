#include "data/readers/arrow/plugin.h"

#include <arrow/util/key_value_metadata.h>

#include "data/readers/arrow/open_table.h"
#include "data/readers/arrow/value_text.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

class TableReader : public RecordReader {
 public:
  TableReader(std::string path, int64_t* bytes_read)
      : path_(std::move(path)), table_(open_table(path_)), bytes_read_(bytes_read) {}

  std::string declared_features() const override {
    const auto& metadata = table_.schema->metadata();
    return metadata != nullptr ? metadata->Get("huggingface").ValueOr("") : "";
  }

  bool next(Record& record) override {
    while (!batch_ || row_ == batch_->num_rows())
      if (!next_batch()) return false;
    record.line = ++rows_;
    const int64_t row = row_++;
    for (int column = 0; column < batch_->num_columns(); ++column) add(record, column, row);
    bound(record);
    return true;
  }

 private:
  bool next_batch() {
    const auto batch = read_batch();
    if (!batch.ok()) fail_table(path_, batch.status());
    batch_ = *batch;
    row_ = 0;
    report(batch_ ? table_.part(rows_ + batch_->num_rows()) : 1.0);
    return batch_ != nullptr;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_batch() {
    try {
      return table_.next();
    } catch (const std::exception& error) {  // Parquet's own
      return arrow::Status::Invalid(error.what());
    }
  }

  void add(Record& record, int column, int64_t row) {
    const std::string& name = batch_->column_name(column);
    try {
      ValueText value = text_of(*batch_->column(column), row);
      record.fields.emplace_back(name, std::move(value.text));
      if (!value.json) return;
      record.json.resize(record.fields.size());
      record.json.back() = true;
    } catch (const BadValue& bad) {
      throw BadRecord(bad.fault, fmt::format("{}:{}", path_, rows_), "column '{}' {}.", name, bad.why);
    } catch (const NotText&) {  // an image, for example: there is nothing to train on in this column
    }
  }

  /// Like the bound on compressed text: repeated values take next to no space in a file.
  void bound(const Record& record) {
    constexpr int64_t kFree = int64_t{1} << 30, kMostTimes = 300;
    unpacked_ += 16;  // a record without fields, too
    for (const auto& field : record.fields) unpacked_ += static_cast<int64_t>(field.second.size()) + 16;
    if (unpacked_ > kFree && unpacked_ > kMostTimes * table_.bytes)
      throw InputError("{}:{}: {} bytes of file unpack to more than {}, over {} times as many, which no text does.",
                       path_, rows_, table_.bytes, unpacked_, kMostTimes);
  }

  void report(double part) {
    const auto bytes = static_cast<int64_t>(part * static_cast<double>(table_.bytes));
    if (bytes_read_ != nullptr) *bytes_read_ += bytes - reported_;
    reported_ = bytes;
  }

  std::string path_;
  Table table_;
  int64_t* bytes_read_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t row_ = 0;                      // in the batch
  int64_t rows_ = 0;                     // so far
  int64_t unpacked_ = 0, reported_ = 0;  // bytes
};

}  // namespace
}  // namespace trainer::data

extern "C" __attribute__((visibility("default"))) trainer::data::RecordReader* trainer_open_table(const char* path,
                                                                                                  int64_t* bytes_read) {
  return new trainer::data::TableReader(path, bytes_read);
}
