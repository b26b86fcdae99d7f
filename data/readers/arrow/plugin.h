// The plug-in that reads Parquet and Arrow files through Arrow's C++ library: libtrainer_arrow.so, in the programs'
// folder. It is loaded only when there is such a file, and is not built where the library is missing.
#pragma once

#include <cstdint>

#include "data/readers/record_reader.h"

namespace trainer::data {

/// Reads the rows of the file `path` as records. The first row is line 1. `bytes_read`, if given, grows to the size of
/// the file and must outlive the reader. The caller owns the reader.
/// Errors: InputError, also of its next(): BadRecord for a row that is too long or has text that isn't UTF-8.
using OpenTable = RecordReader*(const char* path, int64_t* bytes_read);

/// The plug-in's name for its one function, an OpenTable.
inline constexpr const char* kOpenTable = "trainer_open_table";

}  // namespace trainer::data
