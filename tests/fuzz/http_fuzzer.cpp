// Any bytes as an HTTP request give one answer or none yet, wherever they are cut, and within the limit.
#include <set>

#include "engine/launch/http_request.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace trainer;
  using namespace trainer::launch;
  static const std::set<int> kRefusals{0, 400, 405, 414, 431, 505};
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = parse_request(bytes);
  check(whole || size < kMostRequestBytes, "a request within the limit ends");
  check(!whole || kRefusals.contains(whole->refusal), "a refusal has its status");
  check(!whole || whole->refusal != 0 || whole->path.starts_with('/'), "a path begins with '/'");
  check(!whole || whole->path.find_first_of("? \r\n") == std::string::npos, "a path has no query and no blanks");
  const std::size_t step = 1 + size / 64;
  for (std::size_t cut = 0; cut < size; cut += step)
    if (const auto early = parse_request(bytes.substr(0, cut)); early)
      check(early == whole, "later bytes change no answer");
  return 0;
}
