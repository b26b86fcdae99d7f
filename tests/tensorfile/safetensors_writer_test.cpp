#include "engine/tensorfile/safetensors_writer.h"

#include <sys/resource.h>

#include <csignal>

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "engine/base/files.h"
#include "engine/tensorfile/safetensors_file.h"
#include "tests/support/source_dir.h"
#include "tests/tensorfile/file_maker.h"

namespace trainer::tensorfile {
namespace {

const std::string kGolden = source_dir() + "/tests/golden/tensorfile/all_dtypes.safetensors";

/// The bytes that tests/golden/tensorfile/make_all_dtypes.py gives every tensor.
at::Tensor golden_tensor(at::ScalarType dtype, const std::vector<int64_t>& shape) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr());
  for (size_t i = 0; i < tensor.nbytes(); ++i)
    bytes[i] = static_cast<unsigned char>(dtype == at::kBool ? i % 2 : (7 * i + 13) % 256);
  return tensor;
}

std::vector<TensorSpec> golden_specs() {
  using at::ScalarType;
  const std::vector<int64_t> column{3, 1};
  return {
      {"bool", ScalarType::Bool, column},
      {"u8", ScalarType::Byte, column},
      {"i8", ScalarType::Char, column},
      {"f8_e5m2", ScalarType::Float8_e5m2, column},
      {"f8_e4m3", ScalarType::Float8_e4m3fn, column},
      {"f8_e8m0", ScalarType::Float8_e8m0fnu, column},
      {"f8_e4m3fnuz", ScalarType::Float8_e4m3fnuz, column},
      {"f8_e5m2fnuz", ScalarType::Float8_e5m2fnuz, column},
      {"i16", ScalarType::Short, column},
      {"u16", ScalarType::UInt16, column},
      {"f16", ScalarType::Half, column},
      {"bf16", ScalarType::BFloat16, column},
      {"i32", ScalarType::Int, column},
      {"u32", ScalarType::UInt32, column},
      {"f32", ScalarType::Float, column},
      {"c64", ScalarType::ComplexFloat, column},
      {"f64", ScalarType::Double, column},
      {"i64", ScalarType::Long, column},
      {"u64", ScalarType::UInt64, column},
      {"a scalar", ScalarType::Float, {}},
      {"empty", ScalarType::Float, {2, 0}},
      {"ünï \"quoted\" \\ \t", ScalarType::Byte, {2}},
  };
}

void write_golden(const std::filesystem::path& path) {
  SafetensorsWriter writer(path, golden_specs());
  for (const TensorInfo& info : writer.order()) writer.write(info.name, golden_tensor(info.dtype->type, info.shape));
  writer.finish();
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

TEST(SafetensorsWriter, WritesTheBytesOfTheSafetensorsPackage) {
  TempFolder folder;
  write_golden(folder / "a.safetensors");
  EXPECT_EQ(read_file(folder / "a.safetensors"), read_file(kGolden));
}

TEST(SafetensorsWriter, RoundTrips) {
  TempFolder folder;
  write_golden(folder / "a.safetensors");
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_EQ(file.tensors().size(), golden_specs().size());
  for (const TensorSpec& spec : golden_specs()) {
    SCOPED_TRACE(spec.name);
    EXPECT_EQ(file.info(spec.name).shape, spec.shape);
    EXPECT_TRUE(same_bytes(file.tensor(spec.name), golden_tensor(spec.dtype, spec.shape)));
  }
}

TEST(SafetensorsWriter, WritesTransposedTensorsInCOrder) {
  TempFolder folder;
  std::vector<float> values{0, 1, 2, 3, 4, 5};
  const at::Tensor transposed = at::from_blob(values.data(), {2, 3}, at::kFloat).t();
  SafetensorsWriter writer(folder / "a", {{"t", at::kFloat, {3, 2}}}, {{"note", "a \"b\""}});
  writer.write("t", transposed);
  writer.finish();
  const SafetensorsFile file(folder / "a");
  EXPECT_TRUE(same_bytes(file.tensor("t"), transposed.contiguous()));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"note", "a \"b\""}}));
}

TEST(SafetensorsWriter, WritesAFileWithoutTensors) {
  TempFolder folder;
  SafetensorsWriter(folder / "a", {}).finish();
  EXPECT_TRUE(SafetensorsFile(folder / "a").names().empty());
}

TEST(SafetensorsWriter, RemovesAnUnfinishedFile) {
  TempFolder folder;
  { SafetensorsWriter writer(folder / "a", {{"t", at::kFloat, {1}}}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, RefusesTensorsOtherThanDeclared) {
  TempFolder folder;
  SafetensorsWriter writer(folder / "a", {{"a", at::kFloat, {2}}, {"b", at::kFloat, {2}}});
  EXPECT_THROW(writer.write("b", golden_tensor(at::kFloat, {2})), InternalError);
  EXPECT_THROW(writer.write("a", golden_tensor(at::kFloat, {3})), InternalError);
  EXPECT_THROW(writer.write("a", golden_tensor(at::kInt, {2})), InternalError);
  EXPECT_THROW(writer.finish(), InternalError);
  EXPECT_THROW(SafetensorsWriter(folder / "c", {{"a", at::kFloat, {}}, {"a", at::kInt, {}}}), InternalError);
  EXPECT_THROW(SafetensorsWriter(folder / "c", {{"a\xff", at::kFloat, {}}}), InternalError);
  EXPECT_FALSE(std::filesystem::exists(folder / "c"));
}

TEST(SafetensorsWriter, AFailedWriteIsAMachineErrorAndLeavesNothing) {
  TempFolder folder;
  EXPECT_THROW(SafetensorsWriter(folder / "none" / "a", {}), MachineError);
  // As on a full disk: files cannot grow beyond a page.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto write = [&] {
    SafetensorsWriter writer(folder / "a", {{"t", at::kByte, {10000}}});
    writer.write("t", golden_tensor(at::kByte, {10000}));
  };
  EXPECT_THROW(write(), MachineError);
  EXPECT_THROW(SafetensorsWriter(folder / "b", {{std::string(10000, 'n'), at::kByte, {1}}}), MachineError);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace trainer::tensorfile
