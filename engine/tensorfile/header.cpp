#include "engine/tensorfile/header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace trainer::tensorfile {
namespace {

using Json = nlohmann::json;

// Stricter than the format: no model needs more, and it would cost time and memory before any weight is read.
constexpr std::size_t kMaxTensors = 100'000, kMaxDimensions = 8, kMaxNameBytes = 512;
constexpr std::size_t kMaxMetadataBytes = 16u << 20;
constexpr int64_t kMaxIgnoredDepth = 4;

/// Throws the error for a file that violates the format.
class Complaint {
 public:
  explicit Complaint(const std::filesystem::path& file) : file_(file) {}

  [[noreturn]] void operator()(const std::string& why) const {
    throw InputError("{} is not a valid safetensors file: {}\n  copy, download or save it again", file_.string(), why);
  }

 private:
  const std::filesystem::path& file_;
};

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
}

/// The bytes of a tensor; nothing when their number overflows 64 bits or isn't whole. Dimensions of 0 count as 1 for
/// the limit, because strides are computed from the others.
std::optional<int64_t> byte_size(const Dtype& dtype, const std::vector<int64_t>& shape) {
  int64_t bits = dtype.bits;
  bool empty = false;
  for (int64_t size : shape) {
    if (size == 0) empty = true;
    if (__builtin_mul_overflow(bits, std::max<int64_t>(size, 1), &bits)) return std::nullopt;
  }
  if (empty) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

/// The number of entries, which is limited. Counting the commas outside of strings and brackets takes a hundredth of
/// the time of parsing. The count may be wrong after invalid JSON, but the parser stops there anyway.
std::size_t count_entries(std::string_view json, const Complaint& complain) {
  const std::size_t most = kMaxTensors + (json.find("\"__metadata__\"") != std::string_view::npos ? 1 : 0);
  std::size_t entries = 1;
  int64_t depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char letter = json[at];
    if (letter == '"') {
      in_text = !in_text;
    } else if (in_text) {
      at += letter == '\\' ? 1 : 0;
    } else if (letter == '{' || letter == '[') {
      ++depth;
    } else if (letter == '}' || letter == ']') {
      --depth;
    } else if (letter == ',' && depth == 1 && ++entries > most) {
      complain(fmt::format("it has more than {} tensors", kMaxTensors));
    }
  }
  return entries;
}

/// Reads the JSON while it is parsed and stores only the entries, so a hostile header can be neither deep nor large.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(int64_t data_bytes, std::size_t entries, const Complaint& complain)
      : data_bytes_(data_bytes), complain_(complain) {
    header_.tensors.reserve(std::min(entries, kMaxTensors));  // so that views of names stay valid
    names_.reserve(header_.tensors.capacity());
  }

  Header take() { return std::move(header_); }

  bool null() override { return (where_ == Where::kFile && in_metadata()) || other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(number_integer_t) override { return other_value(); }
  bool number_float(number_float_t, const string_t&) override { return other_value(); }
  bool binary(binary_t&) override { return other_value(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ != Where::kList) return other_value();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      complain_(fmt::format("{} of tensor {} holds {}, more than 63 bits", field_, shown_name(name_), value));
    if (list_->size() == kMaxDimensions)
      complain_(fmt::format("{} of tensor {} has more than {} numbers", field_, shown_name(name_), kMaxDimensions));
    list_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (where_ == Where::kMetadata) return add_metadata(value), true;
    if (where_ != Where::kTensor || field_ != "dtype") return other_value();
    refuse_second(dtype_.has_value());
    dtype_ = value;
    return true;
  }

  bool key(string_t& key) override {
    if (where_ == Where::kFile) {
      name_ = key;
      check_name();
    } else if (where_ != Where::kIgnored) {
      field_ = key;
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (where_ == Where::kStart) return where_ = Where::kFile, true;
    if (where_ != Where::kFile) return open_ignored();
    where_ = in_metadata() ? Where::kMetadata : Where::kTensor;
    dtype_.reset(), shape_.reset(), offsets_.reset();
    return true;
  }

  bool end_object() override {
    if (where_ == Where::kIgnored) return close_ignored();
    if (where_ == Where::kTensor) add_tensor();
    where_ = where_ == Where::kFile ? Where::kEnd : Where::kFile;
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ != Where::kTensor || (field_ != "shape" && field_ != "data_offsets")) return open_ignored();
    refuse_second(field_ == "shape" ? shape_.has_value() : offsets_.has_value());
    list_ = field_ == "shape" ? &shape_.emplace() : &offsets_.emplace();
    list_->reserve(field_ == "shape" ? 4 : 2);
    where_ = Where::kList;
    return true;
  }

  bool end_array() override {
    if (where_ == Where::kIgnored) return close_ignored();
    where_ = Where::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    complain_(fmt::format("its header is not valid JSON at byte {}", position + 7));  // 8 bytes of size precede it
  }

 private:
  enum class Where { kStart, kFile, kMetadata, kTensor, kList, kIgnored, kEnd };

  bool in_metadata() const { return name_ == "__metadata__"; }
  /// Unknown keys of a tensor are skipped, whatever their value.
  bool ignoring() const {
    return where_ == Where::kIgnored ||
           (where_ == Where::kTensor && field_ != "dtype" && field_ != "shape" && field_ != "data_offsets");
  }

  bool open_ignored() {
    if (!ignoring()) return other_value();
    where_ = Where::kIgnored;
    if (++ignored_depth_ > kMaxIgnoredDepth)
      complain_(fmt::format("{} of tensor {} is nested more than {} deep", shown_name(field_), shown_name(name_),
                            kMaxIgnoredDepth));
    return true;
  }
  bool close_ignored() {
    if (--ignored_depth_ == 0) where_ = Where::kTensor;
    return true;
  }

  void check_name() {
    if (name_.size() > kMaxNameBytes)
      complain_(
          fmt::format("the name {} has {} bytes; the limit is {}", shown_name(name_), name_.size(), kMaxNameBytes));
    const bool second = in_metadata() ? std::exchange(has_metadata_, true) : names_.count(name_) > 0;
    if (second) complain_(fmt::format("its header has {} twice", shown_name(name_)));
  }

  void refuse_second(bool is_there) const {
    if (is_there) complain_(fmt::format("tensor {} has {} twice", shown_name(name_), field_));
  }

  void add_metadata(const string_t& value) {
    metadata_bytes_ += field_.size() + value.size();
    if (metadata_bytes_ > kMaxMetadataBytes)
      complain_(fmt::format("its __metadata__ has more than {} bytes", kMaxMetadataBytes));
    if (!header_.metadata.emplace(field_, value).second)
      complain_(fmt::format("__metadata__ has {} twice", shown_name(field_)));
  }

  /// A value of the wrong kind, unless it is ignored.
  bool other_value() {
    if (ignoring()) return true;
    if (where_ == Where::kStart) complain_("its header is not a JSON object");
    if (where_ == Where::kFile) complain_(fmt::format("the header's entry {} is not a JSON object", shown_name(name_)));
    if (where_ == Where::kMetadata)
      complain_(fmt::format("__metadata__ must hold text only; {} is not text", shown_name(field_)));
    complain_(fmt::format("{} of tensor {} must be {}", field_, shown_name(name_),
                          field_ == "dtype" ? "text" : "a list of non-negative integers"));
  }

  void add_tensor() {
    if (!dtype_ || !shape_ || !offsets_) {
      const char* missing = !dtype_ ? "dtype" : !shape_ ? "shape" : "data_offsets";
      complain_(fmt::format("tensor {} has no {}", shown_name(name_), missing));
    }
    const Dtype* dtype = find_dtype(*dtype_);
    if (dtype == nullptr)
      complain_(fmt::format("tensor {} has the unknown dtype {}; known dtypes: {}", shown_name(name_),
                            shown_name(*dtype_), dtype_names()));
    if (offsets_->size() != 2)
      complain_(
          fmt::format("data_offsets of tensor {} must be 2 numbers, not {}", shown_name(name_), offsets_->size()));
    add_tensor(*dtype, (*offsets_)[0], (*offsets_)[1]);
  }

  void add_tensor(const Dtype& dtype, int64_t begin, int64_t end) {
    if (begin > end)
      complain_(fmt::format("tensor {} begins at byte {} and ends at {}", shown_name(name_), begin, end));
    if (end > data_bytes_)
      complain_(fmt::format("tensor {} ends at byte {} of the data, but the file has only {}: it seems truncated",
                            shown_name(name_), end, data_bytes_));
    const std::optional<int64_t> bytes = byte_size(dtype, *shape_);
    if (!bytes)
      complain_(fmt::format("tensor {} of shape {} and dtype {} has too many bytes or half a byte", shown_name(name_),
                            shape_text(*shape_), dtype.name));
    if (*bytes != end - begin)
      complain_(fmt::format("tensor {} of shape {} and dtype {} needs {} bytes, but has {}", shown_name(name_),
                            shape_text(*shape_), dtype.name, *bytes, end - begin));
    if (header_.tensors.size() == kMaxTensors) complain_(fmt::format("it has more than {} tensors", kMaxTensors));
    header_.tensors.push_back({std::move(name_), &dtype, std::move(*shape_), begin, *bytes});
    names_.insert(header_.tensors.back().name);
  }

  const int64_t data_bytes_;
  const Complaint& complain_;
  Header header_;
  Where where_ = Where::kStart;
  std::unordered_set<std::string_view> names_;  // of header_'s tensors
  bool has_metadata_ = false;
  std::string name_;   // key of the entry we are in
  std::string field_;  // key inside it
  std::optional<std::string> dtype_;
  std::optional<std::vector<int64_t>> shape_, offsets_;
  std::vector<int64_t>* list_ = nullptr;  // one of the two above
  int64_t ignored_depth_ = 0;
  std::size_t metadata_bytes_ = 0;
};

/// Every byte of the data must belong to exactly one tensor.
void check_cover(std::vector<TensorInfo>& tensors, int64_t data_bytes, const Complaint& complain) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes);
  });
  int64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != end)
      complain(fmt::format("tensor {} begins at byte {} of the data, but the previous one ends at {}",
                           shown_name(tensor.name), tensor.offset, end));
    end += tensor.bytes;
  }
  if (end != data_bytes)
    complain(fmt::format("its tensors end at byte {} of the data, but it has {}", end, data_bytes));
}

std::string json_string(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const nlohmann::detail::exception&) {
    throw InternalError("{} is not UTF-8 and cannot be written to a safetensors file", shown_name(text));
  }
}

}  // namespace

Header parse_header(std::string_view json, int64_t data_bytes, const std::filesystem::path& file) {
  const Complaint complain(file);
  // The parser treats a NUL as the end and skips a byte order mark; the format allows neither.
  if (json.find('\0') != std::string_view::npos) complain("its header has a NUL byte");
  const std::size_t first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json[first] != '{') complain("its header is not a JSON object");
  HeaderReader reader(data_bytes, count_entries(json, complain), complain);
  Json::sax_parse(json.begin(), json.end(), &reader);
  Header header = reader.take();
  check_cover(header.tensors, data_bytes, complain);
  return header;
}

void lay_out(std::vector<TensorInfo>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  int64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    const std::optional<int64_t> bytes = byte_size(*tensor.dtype, tensor.shape);
    require(bytes.has_value(), "tensor {} of shape {} is too large", shown_name(tensor.name), shape_text(tensor.shape));
    tensor.offset = end;
    tensor.bytes = *bytes;
    end += tensor.bytes;
  }
}

std::string format_header(const Header& header) {
  std::vector<std::string> entries;
  if (!header.metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : header.metadata) pairs.push_back(json_string(key) + ":" + json_string(value));
    entries.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  for (const TensorInfo& tensor : header.tensors)
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_string(tensor.name), tensor.dtype->name, fmt::join(tensor.shape, ","),
                                  tensor.offset, tensor.offset + tensor.bytes));
  std::string json = fmt::format("{{{}}}", fmt::join(entries, ","));
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

std::string shown_name(std::string_view text) {
  constexpr std::size_t kMost = 120;
  std::string shown;
  for (char letter : text.substr(0, kMost)) {
    shown += is_control(letter) ? '?' : letter;
  }
  return fmt::format("'{}{}'", shown, text.size() > kMost ? "..." : "");
}

std::string shape_text(const std::vector<int64_t>& shape) {
  constexpr std::size_t kMost = 8;
  const std::vector<int64_t> shown(shape.begin(), shape.begin() + static_cast<int64_t>(std::min(shape.size(), kMost)));
  return fmt::format("[{}{}]", fmt::join(shown, ", "), shape.size() > kMost ? ", ..." : "");
}

}  // namespace trainer::tensorfile
