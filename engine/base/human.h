// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// "950", "1.2k", "34k", "5.6M", "2.1G".
std::string human_count(double value);

/// "512 B", "1.5 KiB", "12 GiB".
std::string human_bytes(int64_t bytes);

/// "0.4s", "42s", "3m 12s", "2h 05m", "3d 04h".
std::string human_seconds(double seconds);

}  // namespace trainer
