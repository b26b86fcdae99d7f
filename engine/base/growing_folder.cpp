#include "engine/base/growing_folder.h"

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/publish_folder.h"

namespace trainer {
namespace fs = std::filesystem;
namespace {

fs::path hidden(const fs::path& output) {
  const fs::path folder = output.has_filename() ? output : output.parent_path();
  return folder.parent_path() / ("." + folder.filename().string() + ".partial");
}

}  // namespace

GrowingFolder::GrowingFolder(const fs::path& output)
    : output_(fs::absolute(output).lexically_normal()), path_(hidden(output_)) {
  std::error_code error;
  if (fs::exists(output_) && (!fs::is_directory(output_) || !fs::is_empty(output_)))
    throw ConfigError("{} {}: give another folder, or remove it.", output.string(),
                      fs::is_directory(output_) ? "is not empty" : "is a file");
  fs::remove_all(path_, error);  // of a process that was killed
  if (fs::create_directories(path_, error); error) throw machine_error("create", path_, error.value());
}

GrowingFolder::~GrowingFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void GrowingFolder::publish() {
  publish_folder(path_, output_);
}

}  // namespace trainer
