// One reader per format. Each calls `sink` for every record of `file`, in the file's order.
// Errors of all: InputError with file and line.
#pragma once

#include "data/readers/record.h"
#include "data/readers/text_file.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// `left<delimiter>right` on each line, divided at the first or last delimiter; spaces around the parts don't count.
/// The columns are `source.columns`, by default `source` and `target`.
void read_delimited(const TextFile& file, const config::DataSource& source, const RecordSink& sink);

/// Comma- or tab-separated values with quotes (RFC 4180). The first line names the columns; with `source.columns` there
/// is no such line, or it repeats those names.
void read_separated(const TextFile& file, char separator, const config::DataSource& source, const RecordSink& sink);

/// One array of objects.
void read_json(const TextFile& file, const config::DataSource& source, const RecordSink& sink);

/// One object on each line.
void read_jsonl(const TextFile& file, const config::DataSource& source, const RecordSink& sink);

/// Each line is a record with one column, `text` or the one name in `source.columns`.
void read_text(const TextFile& file, const config::DataSource& source, const RecordSink& sink);

/// Reads all files of `source` in their order, each by its format. Errors: InputError, also when there is no record.
void read_records(const config::DataSource& source, const RecordSink& sink);

}  // namespace trainer::data
