#include <dlfcn.h>

#include "data/readers/arrow/plugin.h"
#include "data/readers/record_reader.h"
#include "engine/base/beside_program.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

OpenTable* load_plugin(const std::string& path) {
  const auto plugin = beside_program("libtrainer_arrow.so");
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* const open = library != nullptr ? reinterpret_cast<OpenTable*>(dlsym(library, kOpenTable)) : nullptr;
  if (open == nullptr)
    throw MachineError(
        "{0}: reading Parquet and Arrow files needs {1}, which cannot be loaded: {2}\n"
        "  It is built where `tools/setup.sh` has unpacked Arrow's library from the wheel of pyarrow.\n"
        "  Or convert the file: python3 -c \"import pandas; pandas.read_parquet('{0}').to_json('train.jsonl', "
        "orient='records', lines=True, force_ascii=False)\"",
        path, plugin.string(), dlerror());
  return open;
}

}  // namespace

Reader table_reader(const std::string& path, int64_t* bytes_read) {
  static OpenTable* const open = load_plugin(path);
  return Reader(open(path.c_str(), bytes_read));
}

}  // namespace trainer::data
