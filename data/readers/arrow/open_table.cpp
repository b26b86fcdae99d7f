#include "data/readers/arrow/open_table.h"

#include <algorithm>

#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using arrow::Result;
using arrow::Status;
using Batch = std::shared_ptr<arrow::RecordBatch>;
using File = std::shared_ptr<arrow::io::ReadableFile>;

// Memory for a batch of rows and what it is decoded from. A Parquet file decides on neither, so a dictionary that
// claims two billion entries is soon refused; a batch of an Arrow file has the size that its writer gave it.
constexpr int64_t kParquetMemory = int64_t{1} << 30, kArrowMemory = int64_t{4} << 30;
constexpr int64_t kBatchBytes = int64_t{8} << 20;  // wanted
constexpr int64_t kMostRows = 4096;                // of a batch
constexpr int kMaxDepth = 64;

arrow::MemoryPool* parquet_memory() {
  static arrow::CappedMemoryPool capped(arrow::default_memory_pool(), kParquetMemory);
  return &capped;
}

arrow::MemoryPool* arrow_memory() {
  static arrow::CappedMemoryPool capped(arrow::default_memory_pool(), kArrowMemory);
  return &capped;
}

/// How many rows a batch may have to be of moderate size. The metadata may lie, but not to our harm.
int64_t batch_rows(const parquet::FileMetaData& metadata) {
  int64_t bytes = 0;
  for (int group = 0; group < metadata.num_row_groups(); ++group)
    bytes = std::max(bytes, metadata.RowGroup(group)->total_byte_size() /
                                std::max<int64_t>(1, metadata.RowGroup(group)->num_rows()));
  return std::clamp<int64_t>(kBatchBytes / std::max<int64_t>(1, bytes), 1, kMostRows);
}

Result<Table> open_parquet(const File& file) {
  parquet::ReaderProperties properties(parquet_memory());
  properties.enable_buffered_stream();  // reads a column page by page instead of its whole part of a row group
  properties.set_schema_depth_limit(kMaxDepth);
  parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
  arrow_properties.set_pre_buffer(false);
  auto parquet_reader = parquet::ParquetFileReader::Open(file, properties);
  if (parquet_reader->metadata()->num_columns() == 0) return Status::Invalid("it has no columns");
  arrow_properties.set_batch_size(batch_rows(*parquet_reader->metadata()));
  const int64_t rows = parquet_reader->metadata()->num_rows();
  ARROW_ASSIGN_OR_RAISE(
      auto made, parquet::arrow::FileReader::Make(parquet_memory(), std::move(parquet_reader), arrow_properties));
  const std::shared_ptr<parquet::arrow::FileReader> reader = std::move(made);
  Table table;
  ARROW_RETURN_NOT_OK(reader->GetSchema(&table.schema));
  ARROW_ASSIGN_OR_RAISE(auto opened, reader->GetRecordBatchReader());
  const std::shared_ptr<arrow::RecordBatchReader> batches = std::move(opened);
  table.next = [reader, batches]() -> Result<Batch> {
    ARROW_ASSIGN_OR_RAISE(Batch batch, batches->Next());
    if (batch) ARROW_RETURN_NOT_OK(batch->Validate());
    return batch;
  };
  table.part = [rows](int64_t done) { return static_cast<double>(done) / static_cast<double>(std::max(rows, done)); };
  return table;
}

arrow::ipc::IpcReadOptions ipc_options() {
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = arrow_memory();
  options.use_threads = false;
  options.max_recursion_depth = kMaxDepth;
  return options;
}

/// Arrow's readers trust what is in a batch; whoever reads values from it must not.
Result<Batch> checked(Batch batch) {
  if (batch) ARROW_RETURN_NOT_OK(batch->ValidateFull());
  return batch;
}

Result<Table> open_arrow_file(const File& file) {
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file, ipc_options()));
  auto done = std::make_shared<int>(0);
  const int count = reader->num_record_batches();
  Table table;
  table.schema = reader->schema();
  table.next = [reader, done, count]() -> Result<Batch> {
    if (*done == count) return nullptr;
    ARROW_ASSIGN_OR_RAISE(Batch batch, reader->ReadRecordBatch((*done)++));
    return checked(std::move(batch));
  };
  table.part = [done, count](int64_t) { return count > 0 ? static_cast<double>(*done) / count : 1.0; };
  return table;
}

Result<Table> open_arrow_stream(const File& file, int64_t bytes) {
  ARROW_RETURN_NOT_OK(file->Seek(0));
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(file, ipc_options()));
  Table table;
  table.schema = reader->schema();
  table.next = [reader]() -> Result<Batch> {
    ARROW_ASSIGN_OR_RAISE(Batch batch, reader->Next());
    return checked(std::move(batch));
  };
  table.part = [file, bytes](int64_t) {
    return static_cast<double>(file->Tell().ValueOr(bytes)) / static_cast<double>(std::max<int64_t>(1, bytes));
  };
  return table;
}

struct Kind {
  std::string_view head, what;
};

/// The first bytes of files that are not read, and what to do instead.
constexpr Kind kOthers[] = {
    {"PARE", "the file is encrypted Parquet. Decrypt it first."},
    {"FEA1", "the file is Feather version 1. Write it in version 2."},
    {"\x1F\x8B", "the file is compressed with gzip as a whole. Unpack it with `gunzip`."},
    {"\x28\xB5\x2F\xFD", "the file is compressed with zstd as a whole. Unpack it with `unzstd`."},
    {"version https://git-lfs", "the file is a Git LFS pointer, not the data. Fetch it with `git lfs pull`."},
};

Result<Table> open_by_content(const File& file, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const int64_t bytes, file->GetSize());
  ARROW_ASSIGN_OR_RAISE(const auto first, file->ReadAt(0, 32));
  const std::string_view head(*first);
  const auto opened = [&]() -> Result<Table> {
    if (head.starts_with("PAR1")) return open_parquet(file);
    if (head.starts_with("ARROW1")) return open_arrow_file(file);
    if (head.starts_with("\xFF\xFF\xFF\xFF")) return open_arrow_stream(file, bytes);
    for (const Kind& kind : kOthers)
      if (head.starts_with(kind.head)) throw InputError("{}: {}", path, kind.what);
    throw InputError(
        "{}: the file is neither Parquet nor Arrow (its first bytes show it).\nSet `format` to what it is.", path);
  };
  ARROW_ASSIGN_OR_RAISE(Table table, opened());
  table.bytes = bytes;
  return table;
}

void check_columns(const arrow::Schema& schema, const std::string& path) {
  for (const std::string& name : schema.field_names())
    if (schema.GetAllFieldIndices(name).size() > 1)
      throw InputError("{}: two columns are named '{}'.", path, name.substr(0, 80));
}

}  // namespace

void fail_table(const std::string& path, const Status& status) {
  constexpr size_t kMostWords = 240;
  std::string why = status.message().substr(0, status.message().find('\n'));
  if (why.size() > kMostWords) why = why.substr(0, kMostWords) + "…";
  if (status.IsOutOfMemory()) why = "its next rows need gigabytes of memory. Write it in smaller row groups or batches";
  if (status.IsIOError() && status.message().find("open local file") != std::string::npos)
    throw InputError("{}: cannot read the file: {}", path, why);
  throw InputError("{}: cannot read the file: it is damaged or incomplete, or not what its format says: {}", path, why);
}

Table open_table(const std::string& path) {
  arrow::util::InitializeUTF8();
  try {
    auto file = arrow::io::ReadableFile::Open(path, arrow_memory());
    auto table = file.ok() ? open_by_content(*file, path) : file.status();
    if (!table.ok()) fail_table(path, table.status());
    check_columns(*table->schema, path);
    return *std::move(table);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // Parquet's own
    fail_table(path, Status::Invalid(error.what()));
  }
}

}  // namespace trainer::data
