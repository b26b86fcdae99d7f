// Any bytes as the adapter_config.json of an adapter folder give options that can be trained, or one of our errors.
#include "engine/base/errors.h"
#include "engine/config/plan/adapter_folder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/in_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace trainer;
  write_fuzz_file("adapter_config.json", std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    const config::LoraConfig options = config::read_adapter_config({.path = fuzz_folder().string()});
    check(options.r >= 1 || options.peft_type != "LORA", "a rank is positive");
  } catch (const InputError&) {
  } catch (const ConfigError&) {
  }
  return 0;
}
